//! From what a run saw to its [`RunRecord`].

use std::collections::BTreeMap;

use abi::results::{Counters as GuestCounters, Results};
use abi::vcpu::Phase as GuestPhase;
use plan::metric;
use plan::{
    Failure, HistogramSummary, Neighbour, NeighbourRecord, RunPlan, RunRecord, RunStatus, Sched, VmRecord, Workload,
};

use crate::clock::cycles_to_ns;
use crate::control::Outcome;
use crate::guests::{Guests, Vm};
use crate::kick::KickTotals;
use crate::latch::LatchTotals;
use crate::leave::Leave;
use crate::outbox::Ended;
use crate::profile::{resolve, shares};
use crate::run_shared::RunShared;
use crate::snapshot::{Snapshot, VcpuSnapshot, histogram_between};
use crate::stats::{Counter, histogram};
use crate::sync::Ordering;
use crate::watchdog::progress;

/// Measured time, less what others took of it, after which a VM that has never made any progress is a failure.
const NOTHING_DONE_NS: u64 = 1_000_000_000;

/// What the engine has in hand when a run is over.
#[derive(Debug)]
pub struct Made<'a> {
    /// The run's shared state; its threads have ended.
    pub shared: &'a RunShared,
    /// CLOCK_MONOTONIC ns before the first VM was created.
    pub began_ns: u64,
    /// After the last VM was ready to be entered.
    pub booted_ns: u64,
    /// What the control loop saw.
    pub outcome: Outcome,
}

/// Guest counters by name.
fn guest_counter(counters: &[u64; GuestCounters::NAMES.len()], name: &str) -> u64 {
    GuestCounters::NAMES.iter().position(|n| *n == name).map_or(0, |index| counters[index])
}

/// Writes the record.
#[must_use]
pub fn record(plan: &RunPlan, made: Made<'_>) -> RunRecord {
    let Made { shared, began_ns, booted_ns, mut outcome } = made;
    let guests = &shared.guests;
    let mut record = RunRecord::empty(plan);
    record.startup_ns = outcome.all_online_ns.map_or(0, |at| at.saturating_sub(began_ns));
    record.counters.insert("startup_boot_ns".to_owned(), booted_ns - began_ns);
    if let Some(ready_ns) = outcome.all_ready_ns {
        record.counters.insert("startup_threads_ns".to_owned(), ready_ns - booted_ns);
    }
    settings(plan, guests, &mut record);
    shared.sched.describe(&mut record);
    if outcome.stalled_ns > 0 {
        let ms = outcome.stalled_ns / 1_000_000;
        record.notices.push(format!(
            "the whole process stood still for {ms} ms (SIGSTOP, or a suspended host): the figures of this run are no measurement"
        ));
    }
    if let Some((from, to)) = outcome.window.take() {
        measured(plan, guests, &from, &to, &mut record);
        shared.sched.measured(from.lab.as_ref(), to.lab.as_ref(), &mut record);
        recorded_by_threads(plan, guests, &outcome, &mut record);
    } else {
        let vms = guests.vms.iter().take(plan.vms as usize);
        record.vms = vms.map(|vm| VmRecord { vcpu_records: vec![0; vm.vcpus.len()], ..no_vm() }).collect();
    }
    record.entitle(plan);
    if let Some(end) = &outcome.end {
        stale_reads(guests, end, &mut record);
    }
    kicks(guests, &mut record);
    failures(guests, &outcome, plan.pcpus.as_slice().len() as u64, &mut record);
    record.status = match (record.failures.is_empty(), outcome.aborted) {
        (false, _) => RunStatus::Failed,
        (true, true) => RunStatus::Partial,
        (true, false) => RunStatus::Ok,
    };
    record
}

const fn no_vm() -> VmRecord {
    VmRecord {
        records: 0,
        records_per_s: 0.0,
        cpu_ns: 0,
        entitled_ns: 0,
        stale_reads: 0,
        soft_stale_reads: 0,
        vcpu_records: Vec::new(),
    }
}

fn settings(plan: &RunPlan, guests: &Guests, record: &mut RunRecord) {
    let tsc_khz = guests.vms.first().map_or(0, |vm| vm.tsc_khz);
    record.settings = BTreeMap::from(
        [
            ("hz", plan.hz.into()),
            ("spin_budget", plan.spin_budget.into()),
            ("ple_window_cycles", plan.ple_window_cycles),
            ("tsc_khz", tsc_khz.into()),
            ("guest_digest", guest::DIGEST),
        ]
        .map(|(name, value): (&str, u64)| (name.to_owned(), value)),
    );
    if let Some(vm) = guests.vms.first().filter(|vm| vm.params.kthreads > 0) {
        record.settings.insert("guest_hz".to_owned(), vm.params.guest_hz.into());
        record.settings.insert("loops_per_ms".to_owned(), vm.params.loops_per_ms.into());
    }
    let params = plan.workload.params();
    let params = params.map(|info| (info.id.to_owned(), plan.params.get(info.id).unwrap_or_default().into()));
    record.settings.extend(params);
    if !plan.neighbour.is_none() {
        let sleep_ns = if plan.neighbour == Neighbour::Sleeper { Neighbour::SLEEP_NS } else { 0 };
        record.settings.insert("neighbour_sleep_ns".to_owned(), sleep_ns);
        record.settings.insert("neighbour_burst_ns".to_owned(), Neighbour::BURST_NS);
    }
}

/// Everything that is a difference of the two snapshots.
fn measured(plan: &RunPlan, guests: &Guests, from: &Snapshot, to: &Snapshot, record: &mut RunRecord) {
    record.duration_ns = to.at_ns - from.at_ns;
    record.foreign_cpu_ns = to.cpu.foreign_since(&from.cpu);
    let changes: Vec<VcpuChange> = from.vcpus.iter().zip(&to.vcpus).map(VcpuChange::between).collect();
    let mut rest = changes.as_slice();
    for vm in guests.vms.iter().take(plan.vms as usize) {
        let (own, others) = rest.split_at(vm.vcpus.len());
        rest = others;
        let vcpu_records: Vec<u64> = own.iter().map(|vcpu| guest_counter(&vcpu.guest, "records")).collect();
        let records = vcpu_records.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        record.vms.push(VmRecord {
            records,
            records_per_s: per_second(records, record.duration_ns),
            cpu_ns: own.iter().map(|vcpu| vcpu.cpu_ns).sum(),
            vcpu_records,
            ..no_vm()
        });
    }
    record.neighbour = rest.first().map(|vcpu| {
        let records = guest_counter(&vcpu.guest, "records");
        let records_per_s = per_second(records, record.duration_ns);
        NeighbourRecord { records, records_per_s, cpu_ns: vcpu.cpu_ns, entitled_ns: 0 }
    });
    record.records_per_s = record.vms.iter().map(|vm| vm.records_per_s).sum();
    counters(plan, guests, &changes, record);
    for (number, name) in Results::HISTOGRAMS.iter().enumerate() {
        let values = histogram_between(guests, from, to, number);
        // What every workload has, and what this one has.
        if ALWAYS.contains(name) || !values.is_empty() {
            record.histograms.insert((*name).to_owned(), HistogramSummary::of(&values));
        }
    }
}

/// Histograms that stand in every result, empty or not.
const ALWAYS: [&str; 3] = [metric::FLUSH_WAIT, "flush_ack", "record_time"];

// Counts of records and lengths of runs are far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

struct VcpuChange {
    host: [u64; Counter::NAMES.len()],
    guest: [u64; GuestCounters::NAMES.len()],
    cpu_ns: u64,
}

impl VcpuChange {
    fn between((from, to): (&VcpuSnapshot, &VcpuSnapshot)) -> Self {
        Self {
            host: std::array::from_fn(|i| to.host[i].saturating_sub(from.host[i])),
            guest: std::array::from_fn(|i| to.guest[i].saturating_sub(from.guest[i])),
            cpu_ns: to.cpu_ns.saturating_sub(from.cpu_ns),
        }
    }
}

/// Host counters, and of the VMs under test those of the guest's that the tables know under their own names, other guest
/// counters as `guest_*`. Counters of locks only where there are any, and of preempted holders only where the lab preempts.
fn counters(plan: &RunPlan, guests: &Guests, changes: &[VcpuChange], record: &mut RunRecord) {
    let absent = |name: &str| {
        if name == metric::DISK_ACCESSES {
            return plan.workload != Workload::Dbench;
        }
        let by_lab = [metric::LOCK_HOLDER_PREEMPTIONS, metric::LOCK_WAITER_PREEMPTIONS].contains(&name);
        let of_locks = name.starts_with("lock_") || name.starts_with("guest_lock_");
        of_locks && !plan.workload.has_locks() || by_lab && plan.sched == Sched::Host
    };
    let mut add = |name: String, value: u64| {
        if absent(&name) {
            return;
        }
        let sum = record.counters.entry(name).or_insert(0);
        *sum = sum.saturating_add(value);
    };
    for (index, vcpu) in guests.indices().zip(changes) {
        for (name, value) in Counter::NAMES.iter().zip(vcpu.host) {
            add((*name).to_owned(), value);
        }
        if guests.locate(index).0.number >= plan.vms {
            continue;
        }
        for (name, value) in GuestCounters::NAMES.iter().zip(vcpu.guest) {
            let known = metric::COUNTERS.iter().any(|metric| metric.id == *name);
            add(if known { (*name).to_owned() } else { format!("guest_{name}") }, value);
        }
        for (cycles, ns) in [("flush_wait_cycles", metric::FLUSH_WAIT_NS), ("lock_wait_cycles", metric::LOCK_WAIT_NS)] {
            let cycles = guest_counter(&vcpu.guest, cycles);
            add(ns.to_owned(), cycles_to_ns(cycles, guests.locate(index).0.tsc_khz));
        }
        add(metric::GUEST_KICKS.to_owned(), vcpu.host[Counter::CallKickCpu as usize]);
    }
}

/// What the threads recorded themselves in the measured time.
fn recorded_by_threads(plan: &RunPlan, guests: &Guests, outcome: &Outcome, record: &mut RunRecord) {
    if let Some(waits) = &outcome.disk_wait {
        record.histograms.insert(metric::DISK_WAIT.to_owned(), HistogramSummary::of(waits));
    }
    let mut ipi_delivery = histogram();
    let mut samples = Vec::new();
    for ended in outcome.ended.iter().flatten() {
        if guests.locate(ended.index).0.number >= plan.vms {
            // A neighbour that does not sleep never waits for a time.
            if !ended.stats.io_wake.is_empty() {
                record.histograms.insert(metric::NEIGHBOUR_WAKE.to_owned(), HistogramSummary::of(&ended.stats.io_wake));
            }
            continue;
        }
        // Cannot fail: same bounds.
        let _ = ipi_delivery.add(&ended.stats.ipi_delivery);
        samples.extend_from_slice(&ended.stats.samples);
    }
    record.histograms.insert(metric::IPI_DELIVERY.to_owned(), HistogramSummary::of(&ipi_delivery));
    record.guest_profile = shares(guest::symbols(), &samples);
    record.counters.insert("profile_samples".to_owned(), samples.len() as u64);
}

/// Stale reads of the whole run: one in the warm-up is as bad as one in the measured time.
fn stale_reads(guests: &Guests, end: &Snapshot, record: &mut RunRecord) {
    for (index, vcpu) in guests.indices().zip(&end.vcpus) {
        let Some(of_vm) = record.vms.get_mut(guests.locate(index).0.number as usize) else { continue };
        let real =
            guest_counter(&vcpu.guest, "stale_reads").saturating_add(guest_counter(&vcpu.guest, "walk_stale_reads"));
        let soft = guest_counter(&vcpu.guest, "soft_stale_reads");
        of_vm.stale_reads = of_vm.stale_reads.saturating_add(real);
        of_vm.soft_stale_reads = of_vm.soft_stale_reads.saturating_add(soft);
        record.stale_reads = record.stale_reads.saturating_add(real);
        record.soft_stale_reads = record.soft_stale_reads.saturating_add(soft);
    }
}

/// Kick accounts of the whole run. The threads have ended and took what was left, so every account must be balanced.
fn kicks(guests: &Guests, record: &mut RunRecord) {
    let (mut cells, mut latches) = (KickTotals::default(), LatchTotals::default());
    for index in guests.indices() {
        guests.cell(index).take();
        let (cell, latch) = (guests.cell(index).totals(), guests.shared(index).latch.totals());
        if cell.sent != cell.consumed + cell.coalesced || !latch.balanced() {
            let (vm, vcpu) = guests.locate(index);
            let message = format!("VM {} vCPU {vcpu}: kicks do not add up: {cell:?}, {latch:?}", vm.number);
            record.failures.push(Failure { check: "lost-kick".into(), message });
        }
        cells.sent += cell.sent;
        cells.consumed += cell.consumed;
        cells.coalesced += cell.coalesced;
        cells.signals += cell.signals;
        latches.sent += latch.sent;
        latches.consumed += latch.consumed;
        latches.coalesced += latch.coalesced;
        latches.set += latch.set;
    }
    for (name, value) in [
        (metric::KICKS_SENT, cells.sent),
        (metric::KICKS_CONSUMED, cells.consumed),
        (metric::KICKS_COALESCED, cells.coalesced),
        ("kick_signals", cells.signals),
        ("latch_kicks_sent", latches.sent),
        ("latch_kicks_consumed", latches.consumed),
        ("latch_kicks_coalesced", latches.coalesced),
        ("latches_set_at_end", latches.set),
    ] {
        record.counters.insert(name.to_owned(), value);
    }
}

fn failures(guests: &Guests, outcome: &Outcome, cpus: u64, record: &mut RunRecord) {
    let mut fail = |check: &str, message: String| {
        record.failures.push(Failure { check: check.to_owned(), message });
    };
    for (index, ended) in guests.indices().zip(&outcome.ended) {
        let (vm, vcpu) = guests.locate(index);
        match ended {
            None => fail(
                "vcpu-thread",
                format!("VM {} vCPU {vcpu}: its thread did not leave KVM_RUN and was given up", vm.number),
            ),
            Some(Ended { why: Leave::Stopped, .. }) => {}
            Some(ended) => {
                let console = outcome.console_tails.get(vm.number as usize).filter(|tail| !tail.is_empty());
                let said = console.map_or_else(String::new, |tail| format!("; its console says: {tail}"));
                let message = format!("{}: {}{said}", place(vm, vcpu, Some(ended)), ended.why);
                fail(ended.why.check().unwrap_or("vcpu-thread"), message);
            }
        }
    }
    for number in &outcome.stuck {
        let vm = &guests.vms[*number as usize];
        let (vcpu, ended) = suspect(vm, outcome);
        fail(
            "watchdog",
            format!("{}: the VM made no progress; this vCPU is {}", place(vm, vcpu, ended), phase(vm, vcpu)),
        );
    }
    for failure in &outcome.failures {
        record.failures.push(failure.clone());
    }
    // A run shorter than the watchdog's patience: measured for a second or more, and nothing was done.
    let others_ns = record.foreign_cpu_ns / cpus.max(1);
    if record.duration_ns.saturating_sub(others_ns) >= NOTHING_DONE_NS && outcome.stuck.is_empty() {
        for vm in guests.vms.iter().filter(|vm| progress(vm) == 0) {
            let message = format!("VM {} did nothing in {} ms", vm.number, record.duration_ns / 1_000_000);
            record.failures.push(Failure { check: "watchdog".into(), message });
        }
    }
    if let Some(end) = &outcome.end {
        let errors = end.vcpus.iter().map(|vcpu| guest_counter(&vcpu.guest, "work_errors"));
        let errors = errors.fold(0, u64::saturating_add);
        if errors > 0 {
            let message = format!(
                "the workload's own check found {errors} times that work was lost, done twice or out of order, or a context damaged"
            );
            record.failures.push(Failure { check: "work".to_owned(), message });
        }
        let hazards = end.vcpus.iter().map(|vcpu| guest_counter(&vcpu.guest, "gup_hazards"));
        let hazards = hazards.fold(0, u64::saturating_add);
        if hazards > 0 {
            let message = format!("{hazards} walks with interrupts off found their frame reused before they ended");
            record.failures.push(Failure { check: "gup-hazard".to_owned(), message });
        }
    }
    for (check, count, what) in [
        ("stale-read", record.stale_reads, "the real TLB"),
        ("soft-stale-read", record.soft_stale_reads, "the soft TLB"),
    ] {
        if count > 0 {
            let message = format!("{count} reads through {what} used a translation whose flush had completed");
            record.failures.push(Failure { check: check.to_owned(), message });
        }
    }
}

/// The vCPU to name when a whole VM is stuck: one that waits for the others is not the culprit, so the first that does
/// not, else the first.
fn suspect<'a>(vm: &Vm, outcome: &'a Outcome) -> (u32, Option<&'a Ended>) {
    let waiting = [
        GuestPhase::FlushSpin,
        GuestPhase::FlushHalt,
        GuestPhase::LockSpin,
        GuestPhase::LockHalt,
        GuestPhase::LockHaltIrqsOff,
        GuestPhase::Idle,
    ];
    let waits = |vcpu: &u32| {
        let phase = vm.page(*vcpu).call.0.phase.load(Ordering::Relaxed);
        waiting.iter().any(|waiting| *waiting as u32 == phase)
    };
    let vcpu = (0..vm.params.vcpus).find(|vcpu| !waits(vcpu)).unwrap_or(0);
    (vcpu, outcome.ended[(vm.first.0 + vcpu) as usize].as_ref())
}

fn phase(vm: &Vm, vcpu: u32) -> &'static str {
    GuestPhase::name(vm.page(vcpu).call.0.phase.load(Ordering::Relaxed))
}

/// "VM 0 vCPU 3 at RIP 0x201234 (flush_wait)".
fn place(vm: &Vm, vcpu: u32, ended: Option<&Ended>) -> String {
    let rip = ended.and_then(|ended| ended.rip).map_or_else(String::new, |rip| {
        let symbol = resolve(guest::symbols(), rip).map_or_else(String::new, |name| format!(" ({name})"));
        format!(" at RIP {rip:#x}{symbol}")
    });
    format!("VM {} vCPU {vcpu}{rip}", vm.number)
}
