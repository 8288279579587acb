//! TLB shootdown: every strategy of docs/guest-abi.md section 6.
//!
//! ```text
//!   cleared entries ─► own flush ─► g = TLB_GEN += 1 ─► mark, IPI ─► wait until flushed_gen >= g for every target left
//! ```
//!
//! All of it runs in ring 3, with interrupts on, so that initiators acknowledge each other while they wait.

use core::hint::spin_loop;

use abi::call::Call;
use abi::params::{Flush, Params};
use abi::shootdown::{Round, Shootdown, Vcpus, bits};
use abi::state::StateWord;
use abi::vcpu::{Doing, FlushLine, KickLine, Phase};

use crate::cpu::{Cpu, page, rdtsc};
use crate::stubs::gate_flush;

/// The one address space. The flush handler reads its generation.
pub(crate) static SPACE: Shootdown = Shootdown::new();

/// Every vCPU's page.
pub(crate) struct Pages;

impl Vcpus for Pages {
    fn state(&self, vcpu: u32) -> &StateWord {
        &page(vcpu).state.0
    }
    fn flush(&self, vcpu: u32) -> &FlushLine {
        &page(vcpu).flush.0
    }
    fn kick(&self, vcpu: u32) -> &KickLine {
        &page(vcpu).kick.0
    }
}

/// Iterations of a wait between two rescans for targets that stopped after their IPI. An iteration takes about 0.1 us, an
/// IPI to a running target 50 us: often enough to save a time slice, too seldom to be felt by the target's word.
const RESCAN: u32 = 256;

/// One way to flush, fixed at boot.
#[derive(Clone, Copy)]
pub(crate) struct Flusher {
    strategy: Flush,
    spin_budget: u32,
    ple_window_cycles: u64,
}

impl Flusher {
    pub(crate) fn new(params: &Params) -> Option<Self> {
        Some(Self {
            strategy: params.flush()?,
            spin_budget: params.spin_budget,
            ple_window_cycles: params.ple_window_cycles,
        })
    }

    fn marks(&self) -> bool {
        matches!(self.strategy, Flush::OnEnter | Flush::PvFlush)
    }

    fn halts(&self) -> bool {
        matches!(self.strategy, Flush::HaltKick | Flush::PvFlush)
    }

    /// Begins a flush of all vCPUs: entries have been cleared; this vCPU's own TLB is flushed.
    pub(crate) fn begin(&self, cpu: Cpu) -> Pending<'_> {
        let begin = rdtsc();
        gate_flush();
        Pending { flusher: self, cpu, begin }
    }
}

/// A flush of all vCPUs that has reached only its initiator.
#[must_use = "the other vCPUs are not flushed before `finish`"]
pub(crate) struct Pending<'a> {
    flusher: &'a Flusher,
    cpu: Cpu,
    begin: u64,
}

impl Pending<'_> {
    /// Flushes the other vCPUs. When it returns, no translation that was removed before `begin` is used again.
    pub(crate) fn finish(self) {
        self.finish_on(u64::MAX);
    }

    /// The same for a part of the address space that only the vCPUs of `mask` have used (`mm_cpumask`).
    pub(crate) fn finish_on(self, mask: u64) {
        let cpu = self.cpu;
        let counters = cpu.counters();
        let round = SPACE.begin(cpu.index).among(mask);
        let targets = round.missing();
        if targets != 0 {
            counters.flush_targets.add(u64::from(targets.count_ones()));
            cpu.phase(Phase::FlushSpin);
            if self.flusher.strategy == Flush::Hypercall {
                cpu.call_mask(Call::FlushOnEnter, targets);
            } else {
                self.flusher.flush_others(Wait { cpu, round, doing: [0; Doing::ALL.len()], sent: 0 });
            }
            cpu.phase(Phase::Work);
            let cycles = rdtsc().saturating_sub(self.begin);
            cpu.results.flush_wait.record(cycles);
            counters.flush_wait_cycles.add(cycles);
        }
        counters.flushes.add(1);
    }
}

impl Flusher {
    fn flush_others(&self, mut wait: Wait) {
        let counters = wait.cpu.counters();
        if self.marks() {
            wait.mark_stopped();
        }
        let running = wait.round.missing();
        if running == 0 {
            return;
        }
        counters.flush_ipis.add(u64::from(running.count_ones()));
        wait.sample(running);
        wait.sent = rdtsc();
        wait.cpu.call_mask(Call::SendIpi, running);
        flush_wait(self, &mut wait);
    }
}

/// Waits until every missing target has acknowledged or was marked. A function of its own: the guest profile finds the
/// time spent here by its name.
#[inline(never)]
fn flush_wait(flusher: &Flusher, wait: &mut Wait) {
    let mut spins = 0;
    let mut hint = SpinHint::new(flusher.ple_window_cycles);
    while wait.look() != 0 {
        // Past the budget it halts after every look: a wake-up with targets missing goes straight back.
        let halt = flusher.halts() && spins >= flusher.spin_budget;
        if flusher.marks() && (halt || spins.is_multiple_of(RESCAN)) {
            let late = wait.mark_stopped();
            wait.cpu.counters().flush_marks_late.add(late);
        }
        if halt {
            flush_wait_halt(wait);
        } else {
            spins += 1;
            hint.spin(wait.cpu);
        }
    }
}

/// Halts once, unless a target acknowledges before it can; the last handler kicks. See "Halting" in the ABI page.
#[inline(never)]
fn flush_wait_halt(wait: &mut Wait) {
    let (acknowledged, halt) = wait.round.arm_halt(&Pages);
    wait.delivered(acknowledged);
    if !halt {
        return;
    }
    let counters = wait.cpu.counters();
    wait.cpu.phase(Phase::FlushHalt);
    counters.guest_halts.add(1);
    wait.cpu.call(Call::Halt, 0);
    wait.cpu.phase(Phase::FlushSpin);
    if wait.look() != 0 {
        counters.early_wakes.add(1);
    }
}

/// A flush that waits for acknowledgements.
struct Wait {
    cpu: Cpu,
    round: Round,
    /// By [`Doing`]: the targets that did that just before the IPI was sent.
    doing: [u64; Doing::ALL.len()],
    /// When the IPI was sent.
    sent: u64,
}

impl Wait {
    /// Drops the targets that have acknowledged; returns those left.
    fn look(&mut self) -> u64 {
        let acknowledged = self.round.look(&Pages);
        self.delivered(acknowledged);
        self.round.missing()
    }

    /// Notes what the targets do.
    fn sample(&mut self, targets: u64) {
        for target in bits(targets) {
            self.doing[page(target).doing() as usize] |= 1 << target;
        }
    }

    fn delivered(&self, acknowledged: u64) {
        if acknowledged == 0 {
            return;
        }
        let cycles = rdtsc().saturating_sub(self.sent);
        for (doing, targets) in Doing::ALL.into_iter().zip(self.doing) {
            for _ in bits(acknowledged & targets) {
                self.cpu.results.ipi_delivery.record(cycles);
                self.cpu.results.ack(doing).record(cycles);
            }
        }
    }

    /// Marks and drops the targets that do not run; returns how many.
    fn mark_stopped(&mut self) -> u64 {
        let marked = u64::from(self.round.mark_stopped(&Pages).count_ones());
        self.cpu.counters().flush_marks.add(marked);
        marked
    }
}

/// Tells the host about every full window of spinning, as a processor with pause-loop exiting would.
pub(crate) struct SpinHint {
    window: u64,
    begin: u64,
}

impl SpinHint {
    /// Begins a wait; window 0 never tells.
    pub(crate) fn new(window: u64) -> Self {
        Self { window, begin: if window == 0 { 0 } else { rdtsc() } }
    }

    /// One iteration of the wait.
    pub(crate) fn spin(&mut self, cpu: Cpu) {
        spin_loop();
        if self.window != 0 && rdtsc() - self.begin >= self.window {
            cpu.counters().spin_hints.add(1);
            cpu.call(Call::SpinHint, 0);
            self.begin = rdtsc();
        }
    }
}
