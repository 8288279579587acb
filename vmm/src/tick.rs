//! A tick of one vCPU thread: a one-shot POSIX timer that signals this thread and no other.
//!
//! The scheduler's is armed when the thread takes a CPU, and disarmed when it gives it up; the guest's ([`Tick::Guest`])
//! whenever its guest wants ticks. The timer's signal is the kick signal; the handler
//! turns it into [`Reason::Tick`](crate::kick::Reason) only if the deadline that is armed *now* has passed, so a signal
//! on its way when the timer is disarmed does nothing (see [`kick`](crate::kick)).

use std::io;
use std::marker::PhantomData;
use std::ptr;

use crate::kick::{KickCell, Tick, kick_signal};

/// One-shot timer of the calling thread; not `Send`, because its signal goes to the thread that made it.
#[derive(Debug)]
pub struct TickTimer<'a> {
    cell: &'a KickCell,
    tick: Tick,
    timer: libc::timer_t,
    _thread: PhantomData<*const ()>,
}

impl<'a> TickTimer<'a> {
    /// Makes a disarmed timer whose ticks go to `cell`, of which the calling thread must be the owner.
    ///
    /// # Errors
    /// The errno of `timer_create` (EAGAIN: RLIMIT_SIGPENDING).
    pub fn new(cell: &'a KickCell, tick: Tick) -> io::Result<Self> {
        // SAFETY: sigevent is plain data for which all zeroes is a value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = kick_signal();
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: both pointers are to locals that live through the call. Unsafe because libc has no safe wrapper.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { cell, tick, timer, _thread: PhantomData })
    }

    /// Ticks once at `deadline_ns` (CLOCK_MONOTONIC), at once if that has passed. Replaces an earlier deadline.
    pub fn arm(&self, deadline_ns: u64) {
        self.cell.arm_tick(self.tick, deadline_ns.max(1));
        self.settime(deadline_ns.max(1));
    }

    /// Takes the armed deadline back; a signal already under way is dropped by the handler.
    pub fn disarm(&self) {
        self.cell.disarm_tick(self.tick);
        self.settime(0);
    }

    fn settime(&self, deadline_ns: u64) {
        const NS: u64 = 1_000_000_000;
        let value = libc::timespec {
            tv_sec: i64::try_from(deadline_ns / NS).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(deadline_ns % NS).unwrap_or(0),
        };
        let spec = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: the timer is ours until drop and `spec` outlives the call. It cannot fail with these arguments.
        // Unsafe because libc has no safe wrapper.
        unsafe { libc::timer_settime(self.timer, libc::TIMER_ABSTIME, &raw const spec, ptr::null_mut()) };
    }
}

impl Drop for TickTimer<'_> {
    fn drop(&mut self) {
        self.cell.disarm_tick(self.tick);
        // SAFETY: the timer was made by `new` and is deleted once. Unsafe because libc has no safe wrapper.
        unsafe { libc::timer_delete(self.timer) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::clock::monotonic_ns;
    use crate::kick::{Bound, Reason, install_handler};

    #[test]
    fn an_armed_tick_arrives_and_a_disarmed_one_does_not() {
        install_handler().unwrap();
        let mut byte = 0;
        let cell = KickCell::new();
        // SAFETY: the byte outlives `bound`; no vCPU runs at all.
        let _bound = unsafe { Bound::new(&cell, &raw mut byte) };
        let timer = TickTimer::new(&cell, Tick::Host).unwrap();
        timer.arm(monotonic_ns() + 3_600_000_000_000);
        timer.disarm();
        timer.arm(monotonic_ns() + 1_000_000);
        let limit = Instant::now() + Duration::from_secs(10);
        while cell.pending().is_empty() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(cell.take().contains(Reason::Tick));
        timer.disarm();
        assert_eq!(cell.totals().sent, 1);
    }
}
