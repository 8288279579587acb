//! The guest kernel as bytes, and what a host needs to start it.
//!
//! ```text
//!   guest/kernel ── build.rs ($RUSTC, twice: abi, then the kernel) ──► ELF ──► IMAGE
//!   IMAGE ─► header() ─► boot::regions(), boot::start()   descriptor tables, page tables, registers
//!         └► symbols  ─► lookup(rip)                      names for the guest profile
//! ```
//!
//! `docs/guest-abi.md` describes the guest; the crate [`abi`] is that page as types.

pub mod boot;
