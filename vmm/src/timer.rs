//! A timer descriptor for the control loop. Non-blocking: setting a timer takes back an expiry that epoll has already
//! announced, and a blocking read would then wait for the next one.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A timer on CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// The errno of `timerfd_create`.
    pub fn new() -> Result<Self, Errno> {
        timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).map(Self)
    }

    /// Expires once at `at_ns`, at once if that has passed.
    ///
    /// # Errors
    /// The errno of `timerfd_settime`.
    pub fn at(&self, at_ns: u64) -> Result<(), Errno> {
        self.set(TimerfdTimerFlags::ABSTIME, Duration::ZERO, Duration::from_nanos(at_ns.max(1)))
    }

    /// Expires every `period`.
    ///
    /// # Errors
    /// The errno of `timerfd_settime`.
    pub fn every(&self, period: Duration) -> Result<(), Errno> {
        self.set(TimerfdTimerFlags::empty(), period, period)
    }

    /// Takes the expiries that are there, if any.
    pub fn acknowledge(&self) {
        // EAGAIN: the timer was set again since epoll saw it.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    fn set(&self, flags: TimerfdTimerFlags, interval: Duration, value: Duration) -> Result<(), Errno> {
        let spec = |time: Duration| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        timerfd_settime(&self.0, flags, &Itimerspec { it_interval: spec(interval), it_value: spec(value) }).map(drop)
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_was_set_again_does_not_block_its_reader() {
        let timer = Timer::new().unwrap();
        timer.at(1).unwrap();
        timer.every(Duration::from_secs(3600)).unwrap();
        timer.acknowledge();
    }
}
