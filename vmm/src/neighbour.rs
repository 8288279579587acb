//! The innocent neighbour: a VM of one vCPU after those of the plan, scheduled like any other.
//!
//! # Why a VM, and not a thread of the host
//! The lab's scheduler must treat it as it treats whoever shares a host with gangs: as a task in a group of its own, that
//! ticks, halts, wakes up, is preempted and balanced. A vCPU thread is all that already, on both schedulers and under every
//! policy, its exits are kicked and counted, and the simulator has the same VM; a second kind of task would need all of it
//! again.
//!
//! # What is measured
//! ```text
//!   guest: Io(10 ms) ──► host: halt until due ──► due: the timer wakes it ──► picked ──► first instruction
//!                                                  └──────── neighbour_wake ─────────────────┘
//! ```
//! The timer is the control loop's: a few tens of microseconds of the latency are its way, the same in every mode.

use abi::params::{ARGS, Flush, Params, Workload};
use plan::{Neighbour, RunPlan};

use crate::calibrate::loops_per_ms;

/// What the neighbour's guest is told; `None` if the plan has no neighbour.
#[must_use]
pub fn params(plan: &RunPlan) -> Option<Params> {
    let workload = match plan.neighbour {
        Neighbour::None => return None,
        Neighbour::Spin => Workload::Spin,
        Neighbour::Sleeper => Workload::Sleeper,
    };
    let word = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let mut args = [0; ARGS];
    args[..2].copy_from_slice(&[word(Neighbour::SLEEP_NS / 1000), word(Neighbour::BURST_NS / 1000)]);
    Some(Params {
        vcpus: 1,
        workload: workload as u32,
        flush: Flush::Ipi as u32,
        args,
        loops_per_ms: loops_per_ms(),
        seed: plan.seed,
        ..Params::MINIMAL
    })
}
