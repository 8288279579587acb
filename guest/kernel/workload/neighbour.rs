//! The innocent neighbour: one vCPU that computes without end, or sleeps and computes in turn. It maps, flushes and locks
//! nothing.
//!
//! ```text
//!   spin      compute   record
//!   sleeper   Io: sleep   compute   record
//! ```
//! How late it wakes up is the host's to measure: the guest cannot know when its sleep was due.

use abi::call::Call;
use abi::params::Params;

use crate::cpu::Cpu;
use crate::work::compute;

/// A neighbour's constants in [`Params::args`]: microseconds of a sleep, and of the computing after it.
const SLEEP_US: usize = 0;
const BURST_US: usize = 1;

/// Runs for ever; without `sleeps` it computes only.
pub(crate) fn run(cpu: Cpu, params: &Params, sleeps: bool) -> ! {
    loop {
        if sleeps {
            cpu.call(Call::Io, params.args[SLEEP_US]);
        }
        compute(u64::from(params.args[BURST_US]) * 1000);
        cpu.counters().records.add(1);
        cpu.counters().progress.add(1);
    }
}
