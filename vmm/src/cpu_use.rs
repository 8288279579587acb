//! CPU time: of one vCPU thread, of this process, and of everybody on the run's CPUs.
//!
//! What others took from a run is `busy - own`: the time that the run's CPUs were not idle (steal included, since the
//! host above takes that too) less what this process used. The kernel counts the first in clock ticks (USER_HZ, 10 ms),
//! so the result is good to some ticks, and zero where it would be negative.

use std::fs;

use plan::CpuList;

const NS_PER_S: u64 = 1_000_000_000;
/// Kernel thread ids are below this (PID_MAX_LIMIT of 64-bit Linux); a larger one would encode some other clock.
const TID_LIMIT: i32 = 1 << 22;

/// CPU time so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Not idle, or stolen, summed over the run's CPUs.
    pub busy_ns: u64,
    /// This process, all threads.
    pub own_ns: u64,
}

impl CpuUse {
    /// Reads both; zero where `/proc/stat` cannot be read.
    #[must_use]
    pub fn now(cpus: &CpuList) -> Self {
        let tick_ns = NS_PER_S / u64::max(rustix::param::clock_ticks_per_second(), 1);
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self { busy_ns: busy_ticks(&text, cpus) * tick_ns, own_ns: clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) }
    }

    /// What others took between `earlier` and now.
    #[must_use]
    pub const fn foreign_since(&self, earlier: &Self) -> u64 {
        let busy = self.busy_ns.saturating_sub(earlier.busy_ns);
        busy.saturating_sub(self.own_ns.saturating_sub(earlier.own_ns))
    }
}

/// Ticks of the given CPUs in all states but idle and iowait (proc(5): user nice system idle iowait irq softirq steal;
/// guest time is part of user).
fn busy_ticks(stat: &str, cpus: &CpuList) -> u64 {
    let busy_of = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu: u32 = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|state| ticks.get(*state)).sum::<u64>();
        cpus.as_slice().contains(&cpu).then_some(busy)
    };
    stat.lines().filter_map(busy_of).sum()
}

/// CPU time of the thread with kernel id `tid`; 0 if it has ended.
#[must_use]
pub fn thread_cpu_ns(tid: u32) -> u64 {
    // The kernel's encoding of a thread's CPU-time clock (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED, as glibc's
    // pthread_getcpuclockid computes it from the same id).
    i32::try_from(tid).ok().filter(|tid| *tid < TID_LIMIT).map_or(0, |tid| clock_ns(!tid << 3 | 6))
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local that lives through the call; an unknown clock is an error, not a fault. Unsafe
    // because libc has no safe wrapper.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    u64::try_from(time.tv_sec).unwrap_or(0) * NS_PER_S + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_everything_but_idle_and_iowait_of_the_named_cpus() {
        let stat =
            "cpu  99 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 1 0\ncpu1 10 0 0 7 0 0 0 0 0 0\ncpu2 1000\nintr 5\n";
        assert_eq!(busy_ticks(stat, &"0-1".parse().unwrap()), 21 + 10);
        assert_eq!(busy_ticks("", &"0".parse().unwrap()), 0);
    }

    #[test]
    fn a_spinning_thread_uses_cpu_and_an_absent_one_none() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let before = thread_cpu_ns(tid);
        while thread_cpu_ns(tid) == before {}
        // No thread has either: the second would encode CLOCK_MONOTONIC_COARSE.
        assert_eq!([(1 << 22) - 1, 0x7fff_ffff].map(thread_cpu_ns), [0, 0]);
    }

    #[test]
    fn more_own_than_busy_time_is_no_foreign_time() {
        let earlier = CpuUse::default();
        assert_eq!(CpuUse { busy_ns: 10, own_ns: 30 }.foreign_since(&earlier), 0);
        assert_eq!(CpuUse { busy_ns: 30, own_ns: 10 }.foreign_since(&earlier), 20);
    }
}
