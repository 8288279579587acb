//! The one door through which this crate takes its atomics, so that loom's can take their place under `--cfg loom`.
//!
//! loom weakens SeqCst accesses to AcqRel: where the order of a store and a later load of another word matters, use a
//! read-modify-write on both sides, or [`fence`] with SeqCst.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
