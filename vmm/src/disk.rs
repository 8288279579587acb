//! The one disk of the host, shared by all VMs of a run: each access takes the same time, first come, first served.
//!
//! ```text
//!   guest thread ── Call::DiskIo ──► vCPU thread: Disk::ask ──► control loop, at the time of the answer: Guests::answer_disk
//!                                                               (disk_done += 1, DISK_VECTOR, kick)
//! ```
//! A model, as `sim/src/world/disk.rs` is: nothing is read or written. It keeps one time, at which it is free again. The answer is
//! delivered by the control loop, a thread among others of the host, as an I/O thread would; on a busy host it is late by what
//! that thread waits, which the histogram `disk_wait` shows.

use crate::sync::{AtomicU64, Ordering};

/// Most requests of a vCPU that may be under way: one for each thread that a guest can have.
pub const REQUESTS_MAX: u32 = abi::layout::Geometry::KTHREADS_MAX;

/// The disk.
#[derive(Debug)]
pub struct Disk {
    access_ns: u64,
    /// CLOCK_MONOTONIC ns at which it has done everything that it was asked for.
    free_at_ns: AtomicU64,
}

impl Disk {
    /// A disk that takes `access_ns` for each request.
    #[must_use]
    pub fn new(access_ns: u64) -> Self {
        Self { access_ns, free_at_ns: AtomicU64::new(0) }
    }

    /// Asks at `now_ns`; when it answers. Called by any thread.
    pub fn ask(&self, now_ns: u64) -> u64 {
        let after = |free_at_ns: u64| free_at_ns.max(now_ns) + self.access_ns;
        let mut free_at_ns = self.free_at_ns.load(Ordering::Relaxed);
        loop {
            let answer = after(free_at_ns);
            match self.free_at_ns.compare_exchange(free_at_ns, answer, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return answer,
                Err(now) => free_at_ns = now,
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn requests_are_served_one_after_the_other() {
        let disk = Disk::new(150);
        assert_eq!([disk.ask(1000), disk.ask(1000), disk.ask(1100), disk.ask(5000)], [1150, 1300, 1450, 5150]);
    }

    #[test]
    fn racing_requests_are_served_at_different_times() {
        let disk = Disk::new(10);
        let mut answers: Vec<u64> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| [(); 1000].map(|()| disk.ask(7))));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        answers.sort_unstable();
        assert!(answers.iter().zip(1..).all(|(answer, n)| *answer == 7 + 10 * n));
    }
}
