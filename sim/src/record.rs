//! From integers to the result: the only place of the simulator with floats, and nothing comes back from here.
#![allow(clippy::float_arithmetic, reason = "rates and shares are computed once, after the last event")]

use std::collections::BTreeMap;

use hostsched::policy::counter;
use plan::metric;
use plan::{Failure, HistogramSummary, Neighbour, NeighbourRecord, RunPlan, RunRecord, RunStatus, VmRecord, Workload};

use crate::machine::Machine;
use crate::vcpu::Phase;
use crate::world::World;

/// A count as a float; exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}

/// Names of the phases in the guest profile.
const SYMBOLS: [(Phase, &str); Phase::COUNT] = [
    (Phase::Fetch, "kernel"),
    (Phase::Work, "work"),
    (Phase::FlushSpin, "flush_wait_spin"),
    (Phase::FlushHalt, "flush_wait_halt"),
    (Phase::Idle, "idle"),
    (Phase::LockSpin, "lock_wait_spin"),
    (Phase::LockHalt, "lock_wait_halt"),
];

/// What a run that has ended measured.
pub(crate) fn record(
    world: &World,
    machine: &Machine,
    plan: &RunPlan,
    policies: &BTreeMap<&str, u64>,
    ended: bool,
) -> RunRecord {
    let mut record = RunRecord::empty(plan);
    record.duration_ns = plan.duration_ns;
    let seconds = float(plan.duration_ns) / 1e9;
    for (vm, data) in world.vms.iter().take(world.tested).enumerate() {
        let vcpus = || world.vcpus_of(vm).map(|v| &world.vcpus[v.i()]);
        record.vms.push(VmRecord {
            records: data.records,
            records_per_s: float(data.records) / seconds,
            cpu_ns: vcpus().map(|v| v.cpu_ns).sum(),
            entitled_ns: 0,
            stale_reads: data.stale_reads,
            soft_stale_reads: 0,
            vcpu_records: vcpus().map(|v| v.records).collect(),
        });
        record.placement.last_cpu.push(vcpus().map(|v| v.last_cpu.0).collect());
    }
    if let Some(beside) = world.vms.get(world.tested) {
        let cpu_ns = world.vcpus_of(world.tested).map(|v| world.vcpus[v.i()].cpu_ns).sum();
        let records_per_s = float(beside.records) / seconds;
        record.neighbour = Some(NeighbourRecord { records: beside.records, records_per_s, cpu_ns, entitled_ns: 0 });
    }
    record.records_per_s = record.vms.iter().map(|vm| vm.records_per_s).sum();
    record.stale_reads = record.vms.iter().map(|vm| vm.stale_reads).sum();
    // VMs that come and go one after the other are entitled to something else at every moment.
    if world.options.stagger_ns == 0 {
        record.entitle(plan);
    }
    counters(world, &mut record.counters);
    record.counters.extend(policies.iter().map(|(name, value)| ((*name).to_owned(), *value)));
    if plan.axes.host_policy.is_gang() {
        gang(world, plan, policies, &mut record);
    }
    histograms(world, &mut record.histograms);
    of_workload(world, plan.workload, &mut record);
    profile(world, &mut record.guest_profile);
    settings(world, machine, plan, &mut record.settings);
    if !ended {
        record.status = RunStatus::Partial;
    } else if record.stale_reads > 0 {
        record.status = RunStatus::Failed;
        let message = format!("{} pieces of work began with a translation whose flush was over", record.stale_reads);
        record.failures.push(Failure { check: "stale-read".into(), message });
    }
    record.notices.extend(world.notices.iter().cloned());
    record.notices.push(format!("simulated: {}", machine.title));
    record
}

fn counters(world: &World, into: &mut BTreeMap<String, u64>) {
    let c = &world.stats.counters;
    for (name, value) in [
        (metric::FLUSHES, c.flushes),
        (metric::FLUSH_TARGETS, c.flush_targets),
        (metric::FLUSH_IPIS, c.flush_ipis),
        (metric::FLUSH_MARKS, c.flush_marks),
        (metric::FLUSH_WAIT_NS, c.flush_wait_ns),
        (metric::GUEST_HALTS, c.guest_halts),
        (metric::GUEST_KICKS, c.guest_kicks),
        (metric::EXITS, c.exits),
        (metric::GUEST_NS, c.guest_ns),
        (metric::SWITCHES, c.switches),
        (metric::MIGRATIONS, c.migrations),
        (metric::WAKEUPS, c.wakeups),
        (metric::TICKS, c.ticks),
        ("flush_early_returns", c.early_returns),
        ("flush_empty_acks", c.empty_acks),
        ("sim_events", world.events),
        ("sim_digest", world.digest),
    ] {
        into.insert(name.into(), value);
    }
}

/// What only some workloads have: locks, threads that move, a disk.
fn of_workload(world: &World, workload: Workload, record: &mut RunRecord) {
    let (c, s) = (&world.stats.counters, &world.stats);
    let locks = [
        (metric::LOCK_HOLDER_PREEMPTIONS, c.lock_holder_preemptions),
        (metric::LOCK_WAITER_PREEMPTIONS, c.lock_waiter_preemptions),
        (metric::LOCK_ACQUISITIONS, c.lock_acquisitions),
        (metric::LOCK_CONTENDED, c.lock_contended),
        (metric::LOCK_WAIT_NS, c.lock_wait_ns),
        (metric::LOCK_HALTS, c.lock_halts),
        (metric::LOCK_KICKS, c.lock_kicks),
    ];
    if workload.has_locks() {
        record.counters.extend(locks.map(|(name, value)| (name.into(), value)));
        record.histograms.insert(metric::LOCK_WAIT.into(), HistogramSummary::of(&s.lock_wait));
    }
    if world.guest_balances {
        record.counters.insert(metric::GUEST_MIGRATIONS.into(), c.guest_migrations);
    }
    if workload == Workload::Ipi {
        record.histograms.insert(metric::IPI_ROUND_TRIP.into(), HistogramSummary::of(&s.ipi_round_trip));
    }
    if workload == Workload::Dbench {
        record.counters.insert(metric::DISK_ACCESSES.into(), c.disk_accesses);
        record.histograms.insert(metric::DISK_WAIT.into(), HistogramSummary::of(&s.disk_wait));
    }
}

/// How well the gangs ran, and where.
fn gang(world: &World, plan: &RunPlan, policies: &BTreeMap<&str, u64>, record: &mut RunRecord) {
    let of = |name| policies.get(name).copied().unwrap_or_default();
    let window = of(counter::GANG_WINDOW_NS);
    record.gang_coverage = (window > 0).then(|| float(of(counter::GANG_COVERED_NS)) / float(window));
    let spans = world.online.iter().map(|cpu| world.host.domains().gang_span(*cpu, plan.gang_cpus));
    let mut spans: Vec<Vec<u32>> = spans.map(|span| span.iter().map(|cpu| cpu.0).collect()).collect();
    spans.dedup();
    record.placement.gang_span = spans;
}

fn histograms(world: &World, into: &mut BTreeMap<String, HistogramSummary>) {
    let s = &world.stats;
    for (name, histogram) in [
        (metric::FLUSH_WAIT, &s.flush_wait),
        (metric::IPI_DELIVERY, &s.ipi_delivery),
        (metric::RUNQUEUE_WAIT, &s.runqueue_wait),
        (metric::DISPATCH, &s.dispatch),
    ] {
        into.insert(name.into(), HistogramSummary::of(histogram));
    }
    // By `Doing`, in its order; states that no target was in are left out.
    let acks = [
        metric::FLUSH_ACK_RUNNING,
        metric::FLUSH_ACK_PREEMPTED,
        metric::FLUSH_ACK_HALTED,
        metric::FLUSH_ACK_HALTED_IRQS_OFF,
        metric::FLUSH_ACK_IDLE,
    ];
    for (name, histogram) in acks.into_iter().zip(&s.flush_ack).filter(|(_, histogram)| !histogram.is_empty()) {
        into.insert(name.into(), HistogramSummary::of(histogram));
    }
    if !s.neighbour_wake.is_empty() {
        into.insert(metric::NEIGHBOUR_WAKE.into(), HistogramSummary::of(&s.neighbour_wake));
    }
}

fn profile(world: &World, into: &mut BTreeMap<String, f64>) {
    let all: u64 = world.stats.phase_ns.iter().sum();
    for (phase, name) in SYMBOLS.iter().filter(|_| all > 0) {
        into.insert((*name).into(), float(world.stats.phase_ns[*phase as usize]) / float(all));
    }
}

fn settings(world: &World, machine: &Machine, plan: &RunPlan, into: &mut BTreeMap<String, u64>) {
    let sysctls = &world.host.config().sysctls;
    let mut set = |name: &str, value: u64| {
        into.insert(name.into(), value);
    };
    set("hz", plan.hz.into());
    set("sched_latency_ns", sysctls.latency.0);
    set("sched_min_granularity_ns", sysctls.min_granularity.0);
    set("sched_wakeup_granularity_ns", sysctls.wakeup_granularity.0);
    for info in plan.workload.params() {
        set(info.id, plan.params.get(info.id).unwrap_or_default().into());
    }
    if !plan.neighbour.is_none() {
        set("neighbour_sleep_ns", if plan.neighbour == Neighbour::Sleeper { Neighbour::SLEEP_NS } else { 0 });
        set("neighbour_burst_ns", Neighbour::BURST_NS);
    }
    set("lock_pv", plan.lock.is_paravirt().into());
    set("guest_hz", world.options.guest_hz);
    set("stagger_ns", world.options.stagger_ns);
    for info in crate::machine::COSTS {
        set(&format!("cost_{}", info.id), machine.costs.get(info.id).unwrap_or_default());
    }
}
