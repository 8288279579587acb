//! Real KVM guests: one host thread a vCPU, under the lab's scheduler or the kernel's own.

pub mod cgroup;
pub mod kick;
pub mod sched;
pub mod sync;
pub mod tick;
