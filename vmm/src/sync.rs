//! The one door to atomics, locks and parking.
//!
//! Everything that vCPU threads share with each other (state words, kick cells, run-queue locks, CPU tokens) is built
//! from the types of this module and from nothing else, so that a model checker can take their place by changing this
//! file alone. Two rules follow from what such a checker can see:
//!
//! - loom weakens `SeqCst` loads and stores to acquire and release. Where the order of a store and a *later load*
//!   matters (Dekker's pattern: "I say that I sleep, then I look whether there is work"), use a SeqCst [`fence`]
//!   between them, or a read-modify-write.
//! - Nothing here may be a `static`: state has an owner that can be made anew for each explored execution. (The one
//!   exception of the crate is the signal handler's thread-local pointer in [`kick`](crate::kick).)

pub use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
pub use std::thread::{Thread, current, park, park_timeout};

/// Locks `mutex` whether or not a thread panicked while it held it.
///
/// A vCPU thread that panics is reported as a failure of the run by its own guard, and the run then ends; the other
/// threads need the data once more to get out, so poisoning would only turn one clear report into many.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
