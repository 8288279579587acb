//! The guest kernel as bytes, and what a host needs to start it.
//!
//! ```text
//!   guest/kernel ── build.rs ($RUSTC, twice: abi, then the kernel) ──► ELF = IMAGE
//!   IMAGE ─► header()  ─► boot::regions(), boot::start()   descriptor tables, page tables, registers
//!         └► symbols() ─► for the guest profile
//! ```
//!
//! `docs/guest-abi.md` describes the guest; the crate [`abi`] is that page as types.

pub mod boot;
mod image;

pub use image::{ImageError, Symbol, header, header_of, symbols, symbols_of};

/// The kernel, a static ELF executable linked to [`abi::layout::IMAGE`].
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernel.elf"));

/// FNV-1a of [`IMAGE`]: tells in a result which guest ran.
pub static DIGEST: u64 = {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < IMAGE.len() {
        hash = (hash ^ IMAGE[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
};
