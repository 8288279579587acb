//! Real KVM guests: one host thread a vCPU, under the lab's scheduler or the kernel's own.

pub mod kick;
pub mod sync;
pub mod tick;
