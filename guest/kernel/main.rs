//! The guest kernel: ring 3 in Rust, ring 0 in a few assembly stubs. docs/guest-abi.md is its manual.
//!
//! Compiled by `guest/build.rs`, not by cargo: an ordinary Linux target without start files, linked to one fixed
//! address.
//!
//! ```text
//!   _start (stubs) ─► main ─► workload ─► window (map, unmap)  ─► flush (shootdown) ─► cpu (doorbell)
//!                                     ├─► pool (frames)
//!                                     ├─► check (stale reads)
//!                                     └─► thread ─► runqueue ─► preempt      (lock, work, disk)
//! ```
#![no_std]
#![no_main]
// The workspace's lint table, which reaches only cargo's own targets.
#![deny(warnings, unsafe_op_in_unsafe_fn, unreachable_pub)]
#![deny(clippy::undocumented_unsafe_blocks, clippy::ptr_as_ptr)]
#![deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

mod check;
mod cpu;
mod disk;
mod flush;
mod lock;
mod memory;
mod pool;
mod preempt;
mod runqueue;
mod stubs;
mod thread;
mod window;
mod work;
mod workload;

use core::panic::PanicInfo;

use abi::call::Report;

use crate::cpu::{Cpu, params, print};

/// Every vCPU, from `_start`.
pub(crate) extern "C" fn main(index: u32) -> ! {
    workload::start(Cpu::new(index), params())
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    preempt::disable();
    let cpu = Cpu::this();
    print(cpu, format_args!("{info}\n"));
    cpu.stop(Report::Panic)
}
