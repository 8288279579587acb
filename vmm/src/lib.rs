//! Real KVM guests: one host thread a vCPU, under the lab's scheduler or the kernel's own.

pub mod boot;
pub mod cgroup;
pub mod console;
pub mod control;
pub mod cpu_use;
pub mod dispatch;
pub mod doorbell;
pub mod engine;
pub mod guests;
pub mod interrupt;
pub mod kick;
pub mod latch;
pub mod leave;
pub mod memory;
pub mod outbox;
pub mod probe;
pub mod profile;
pub mod record;
pub mod sched;
pub mod scheduler;
pub mod snapshot;
pub mod stats;
pub mod sync;
pub mod tick;
pub mod timer;
pub mod vcpu;
pub mod vectors;
pub mod watchdog;

pub use engine::{Kvm, Options};
