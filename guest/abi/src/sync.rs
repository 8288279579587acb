//! The one door through which this crate takes its atomics, so that a model checker's can take their place: loom's under
//! `--cfg loom`, shuttle's under `--cfg shuttle`.
//!
//! loom weakens SeqCst accesses to AcqRel: where the order of a store and a later load of another word matters, use a
//! read-modify-write on both sides, or [`fence`] with SeqCst. shuttle has one order for everything, so it sees no missing
//! fence, but larger models.

#[cfg(not(any(loom, shuttle)))]
pub use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
