//! Real KVM guests: one host thread a vCPU, under the lab's scheduler or the kernel's own.

pub mod boot;
pub mod cgroup;
pub mod dispatch;
pub mod doorbell;
pub mod guests;
pub mod interrupt;
pub mod kick;
pub mod latch;
pub mod leave;
pub mod memory;
pub mod outbox;
pub mod probe;
pub mod sched;
pub mod stats;
pub mod sync;
pub mod tick;
pub mod vcpu;
pub mod vectors;
