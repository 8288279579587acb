//! Real KVM guests: one host thread a vCPU, under the lab's scheduler or the kernel's own.
//!
//! ```text
//!   engine    one run: boot ─ threads ─ control loop ─ join ─ record
//!     │
//!     ├─ boot        ELF, tables, registers, in named steps          memory, probe, guest_params
//!     ├─ control     stages, abort, watchdog, console: event-manager timer, watchdog, console, snapshot, due
//!     ├─ vcpu        the state machine of one thread                run_shared: what threads share
//!     │    ├─ doorbell    what the guest asks, checked               leave: why a thread ends
//!     │    ├─ vectors     pending interrupts                         interrupt: KVM_INTERRUPT
//!     │    ├─ latch       kicks that end halts
//!     │    └─ kick, tick  out of KVM_RUN: reasons, signal, timer
//!     ├─ sched       the contract with a scheduler; HostSched
//!     │    └─ dispatch    the lab's, by hostsched                    cgroup: who is a gang
//!     ├─ tap         what is traced                                  crate trace
//!     ├─ neighbour   who else uses the CPUs
//!     └─ record      what was measured                               stats, profile, cpu_use, clock
//! ```
//!
//! Three rules hold everywhere. A vCPU's ioctls are made by the thread that owns it. What a guest can write is checked
//! once, where it enters ([`doorbell`], [`memory::Shared`]), and no index is made from it before. Every atomic that
//! threads share comes from [`sync`], and each protocol built from them (kick, latch, state word, CPU token) stands in one
//! file with its argument.

pub mod boot;
pub mod calibrate;
pub mod cgroup;
pub mod clock;
pub mod console;
pub mod control;
pub mod cpu_use;
pub mod disk;
pub mod dispatch;
pub mod doorbell;
pub mod due;
pub mod engine;
pub mod guest_params;
pub mod guests;
pub mod interrupt;
pub mod kick;
pub mod latch;
pub mod leave;
pub mod memory;
#[cfg(all(test, loom))]
mod model;
pub mod neighbour;
pub mod outbox;
pub mod probe;
pub mod profile;
pub mod record;
pub mod run_shared;
pub mod sched;
pub mod scheduler;
pub mod snapshot;
pub mod stats;
pub mod sync;
pub mod tap;
pub mod tick;
pub mod timer;
pub mod vcpu;
pub mod vectors;
pub mod watchdog;

pub use engine::{Kvm, Options};
pub use guest_params::check_workload;
