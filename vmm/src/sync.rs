//! The one door to atomics, locks and parking.
//!
//! Everything that vCPU threads share with each other (state words, kick cells, run-queue locks, CPU tokens) is built
//! from the types of this module and from nothing else, so that `--cfg loom` puts a model checker's in their place
//! (`model.rs`), and `--cfg shuttle` those of another one, which sees no missing fence and holds larger models
//! (`dispatch/rotation.rs`). Two rules follow from what it can see:
//!
//! - loom weakens `SeqCst` loads and stores to acquire and release. Where the order of a store and a *later load*
//!   matters (Dekker's pattern: "I say that I sleep, then I look whether there is work"), use a SeqCst [`fence`]
//!   between them, or a read-modify-write.
//! - Nothing here may be a `static`: state has an owner that can be made anew for each explored execution. What belongs
//!   to the process (an id counter, an installed handler) takes its atomics from `std`, and so do `Arc` and `OnceLock`,
//!   which hand out references and order nothing else.

pub use std::sync::{Arc, OnceLock};

#[cfg(not(any(loom, shuttle)))]
mod real {
    pub use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use std::sync::{Condvar, Mutex, MutexGuard};
    pub use std::thread::{Thread, current, park};
}

#[cfg(loom)]
mod real {
    pub use loom::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
    pub use loom::thread::{Thread, current, park};

    /// The environment variable that leaves fences out, so that a model shows what they are for.
    pub const WITHOUT_FENCES: &str = "VMM_WITHOUT_FENCES";

    /// A fence of the model checker.
    pub fn fence(order: Ordering) {
        static LEFT_OUT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        if !*LEFT_OUT.get_or_init(|| std::env::var_os(WITHOUT_FENCES).is_some()) {
            loom::sync::atomic::fence(order);
        }
    }
}

#[cfg(shuttle)]
mod real {
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub use shuttle::thread::{Thread, current, park};
}

#[cfg(loom)]
pub use real::WITHOUT_FENCES;
pub use real::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, Thread,
    current, fence, park,
};

/// Locks `mutex` whether or not a thread panicked while it held it.
///
/// A vCPU thread that panics is reported as a failure of the run by its own guard, and the run then ends; the other
/// threads need the data once more to get out, so poisoning would only turn one clear report into many.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
