//! Image header: the first bytes of the linked image, at [`IMAGE`](crate::layout::IMAGE).
//!
//! The kernel places it there with `#[used]` and a linker section; the `guest` crate checks it once on the host's side
//! before it makes descriptor tables from it.

use crate::layout::EXCEPTION_COUNT;

/// "vmmlab\0\1" in memory order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"vmmlab\0\x01");

/// Addresses are guest-virtual (= guest-physical), inside the image.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ImageHeader {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`](crate::VERSION) that the kernel was compiled with, as a `u64`.
    pub version: u64,
    /// First instruction of every vCPU, in ring 3.
    pub entry: u64,
    /// Handler of [`FLUSH_VECTOR`](crate::layout::FLUSH_VECTOR).
    pub flush: u64,
    /// The same with the injected fault `lost-flush`: acknowledges and flushes nothing.
    pub flush_lost: u64,
    /// Handler of [`TIMER_VECTOR`](crate::layout::TIMER_VECTOR).
    pub timer: u64,
    /// First of the exception handlers: the handler of vector v is [`STUB_SIZE`] * v bytes further.
    pub exceptions: u64,
}

/// Distance of two exception handlers in bytes.
pub const STUB_SIZE: u64 = 16;

const _: () = {
    assert!(size_of::<ImageHeader>() == 56);
    assert!(EXCEPTION_COUNT as u64 * STUB_SIZE <= 4096);
};
