//! Every channel between the lab's guest and its host: memory map, doorbell calls, shared pages, state word.
//!
//! Read `docs/guest-abi.md` first; this crate is that page as types. It is compiled twice: into the guest kernel and
//! into the VMM. No dependencies, `no_std`, no `unsafe`: all shared memory is made of atomics, so that a `&VcpuPage`
//! may be held by both sides at once.
//!
//! ```text
//!            guest (CPL 3, and a few ring-0 stubs)                     host (VMM)
//!   Params page      reads  ◄──────────────────────────────────────── writes before boot
//!   VcpuPage.state   cmpxchg (mark a flush)        one word           fetch_or (stop), swap (enter)
//!   VcpuPage         arguments of a call, console, exception ───────► reads while it handles the call
//!   Results block    counts ────────────────────────────────────────► reads at any time
//!   OUT to a port    ────────────────────────────────────────────────► KVM_EXIT_IO: Call, 32-bit argument
//!   FLUSH_VECTOR     handler ◄──────────────────────────────────────── KVM_INTERRUPT
//! ```
//!
//! Trust goes one way. The guest trusts the host. The host trusts nothing that the guest can write: each such field
//! says next to it which values are meant and what the host does with any other.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, loom, shuttle))]
extern crate std;

pub mod call;
pub mod header;
pub mod histogram;
pub mod idle;
#[cfg(all(test, shuttle))]
mod initiators;
pub mod layout;
#[cfg(all(test, any(loom, shuttle)))]
mod lines;
pub mod lock;
#[cfg(all(test, loom))]
mod model;
pub mod params;
pub mod results;
pub mod shootdown;
pub mod state;
pub mod sync;
pub mod vcpu;

/// Version of everything in this crate. The image carries it in its header, and the host refuses another one.
pub const VERSION: u32 = 2;

/// Largest number of vCPUs of a VM: one bit each in 64-bit masks.
pub const VCPUS_MAX: u32 = 64;

/// The mask with one bit for each of the first `vcpus` vCPUs.
#[must_use]
pub const fn vcpu_mask(vcpus: u32) -> u64 {
    if vcpus >= 64 { u64::MAX } else { (1 << vcpus) - 1 }
}
