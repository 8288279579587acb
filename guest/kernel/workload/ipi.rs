//! `ipi`: every vCPU sends an interrupt to each sibling in turn, and waits until its handler has run.
//!
//! ```text
//!   sender   generation += 1 ─► SendIpi(one target) ─► spin until the target's handler has published that generation    record
//! ```
//! One record is one round trip. It measures the way there (doorbell, scheduler, injection) and the way back (a cache line), to
//! targets that run, that have lost their CPU, or that halt: by `ipi_senders` only the first vCPUs send, and the others halt
//! and answer. The times are in `ipi_round_trip`, and by what the target did in `flush_ack_running`, `_preempted`, `_idle`.
//! The vector is the flush's, because the count that its handler publishes tells whose interrupt it has answered; so a round
//! trip includes a load of CR3. Nothing is flushed that anybody uses. Sent as an interrupt in every mode; no halting.

use abi::call::{Call, Report};
use abi::params::Params;
use abi::vcpu::Phase;

use crate::cpu::{Cpu, page, rdtsc};
use crate::flush::{Pages, SPACE, SpinHint};

/// Runs until the record limit, or for ever.
pub(super) fn run(cpu: Cpu, params: &Params) {
    let [senders, ..] = params.args;
    if cpu.index >= senders {
        answer(cpu);
    }
    let counters = cpu.counters();
    for step in 0.. {
        if params.record_limit != 0 && counters.progress.get() >= params.record_limit {
            return;
        }
        let target = (cpu.index + 1 + step % (params.vcpus - 1).max(1)) % params.vcpus;
        round_trip(cpu, target, params.ple_window_cycles);
    }
}

/// Has nothing to do, and is never done; as far as the record limit goes it has had its share.
fn answer(cpu: Cpu) -> ! {
    cpu.call(Call::Report, Report::Done as u32);
    cpu.phase(Phase::Idle);
    loop {
        cpu.call(Call::Halt, 0);
    }
}

fn round_trip(cpu: Cpu, target: u32, ple_window_cycles: u64) {
    let mut round = SPACE.begin(cpu.index).among(1 << target);
    // One that has not come online yet, or the sender itself if it is alone.
    if round.missing() == 0 {
        return;
    }
    let doing = page(target).doing();
    let begin = rdtsc();
    cpu.call_mask(Call::SendIpi, round.missing());
    ipi_wait(cpu, &mut || round.look(&Pages) != 0, ple_window_cycles);
    let cycles = rdtsc().saturating_sub(begin);
    for histogram in [&cpu.results.ipi_round_trip, &cpu.results.record_time, cpu.results.ack(doing)] {
        histogram.record(cycles);
    }
    cpu.counters().records.add(1);
    cpu.counters().progress.add(1);
}

/// A function of its own: the guest profile finds the time spent here by its name.
#[inline(never)]
fn ipi_wait(cpu: Cpu, answered: &mut dyn FnMut() -> bool, ple_window_cycles: u64) {
    let mut hint = SpinHint::new(ple_window_cycles);
    while !answered() {
        hint.spin(cpu);
    }
}
