//! The policy that `docs/writing-a-policy.md` builds, and a run that shows what it does. Every block of Rust on that page is a
//! part of this file; `tests/guide.rs` compares them and tests the policy.
//!
//!     cargo run -p hostsched --example urgent_wake
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hostsched::policy::{HookCx, Hooks, Policy};
use hostsched::testing::{Engine, GroupSpec, Recorder, Scenario, Step, TaskPlan};
use hostsched::{GroupId, Host, Nanos, TaskId};

/// A vCPU that an interrupt woke runs soon, if that is not too unfair.
#[derive(Debug)]
pub(crate) struct UrgentWake {
    /// Instant from which a CPU may boost again, by CPU.
    next_boost: Vec<AtomicU64>,
    boosts: AtomicU64,
}

impl UrgentWake {
    /// The policy on that host. Add it before the first task.
    pub(crate) fn new(host: &Host) -> Self {
        let cpus = host.machine().cpu_slots();
        Self { next_boost: (0..cpus).map(|_| AtomicU64::new(0)).collect(), boosts: AtomicU64::new(0) }
    }
}

impl Policy for UrgentWake {
    fn name(&self) -> &'static str {
        "urgent-wake"
    }

    fn hooks(&self) -> Hooks {
        Hooks::WOKEN
    }

    fn woken(&self, cx: &mut HookCx<'_>, task: TaskId) {
        if cx.host.task_group(task) == GroupId::ROOT || cx.rq.need_resched() {
            return;
        }
        let next_boost = &self.next_boost[cx.rq.cpu().index()];
        if cx.now.0 < next_boost.load(Relaxed) {
            return;
        }
        if cx.rq.set_next_buddy_task(cx.host, task) {
            cx.rq.resched_curr(cx.fx);
            next_boost.store((cx.now + cx.host.config().sysctls.min_granularity).0, Relaxed);
            self.boosts.fetch_add(1, Relaxed);
        }
    }

    fn counters(&self, _now: Nanos, report: &mut dyn FnMut(&'static str, u64)) {
        report("urgent_wake_boosts", self.boosts.load(Relaxed));
    }
}

/// What a run showed.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Mean time from an interrupt until its vCPU ran.
    pub(crate) latency_ns: u64,
    /// Runtime of each VM.
    pub(crate) vms_ns: [u64; 3],
    /// Boosts of the policy.
    pub(crate) boosts: u64,
}

/// Three VMs on one CPU: the first has a vCPU that answers an interrupt every `every_ns` and one that computes, the others
/// compute.
pub(crate) fn measure(urgent: bool, every_ns: u64) -> Result<Measured, Box<dyn Error>> {
    let group = GroupSpec { parent: None, shares: 1024 };
    let tasks = vec![
        TaskPlan::repeat([Step::Run(50_000), Step::Sleep(every_ns)]).in_group(0),
        TaskPlan::hog().in_group(0),
        TaskPlan::hog().in_group(1),
        TaskPlan::hog().in_group(2),
    ];
    let scenario = Scenario { groups: vec![group; 3], tasks, ..Scenario::on("1s:1c", 10_000_000_000) };
    let mut host = scenario.host()?;
    if urgent {
        let policy = UrgentWake::new(&host);
        host.add_policy(Box::new(policy));
    }
    let mut engine = Engine::new(&scenario, host, Recorder::default())?;
    engine.run_until(scenario.duration_ns)?;
    let t = engine.outcome().tasks;
    Ok(Measured {
        latency_ns: t[0].wakeup_latency_sum_ns / t[0].wakeups.max(1),
        vms_ns: [t[0].exec_ns + t[1].exec_ns, t[2].exec_ns, t[3].exec_ns],
        boosts: engine.host().policy_counters(Nanos(0)).iter().map(|(_, n)| n).sum(),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    for (name, urgent) in [("cfs", false), ("urgent-wake", true)] {
        let Measured { latency_ns, vms_ns, boosts } = measure(urgent, 7_300_000)?;
        println!("{name}: {latency_ns} ns from interrupt to turn, the VMs ran {vms_ns:?} ns, {boosts} boosts");
    }
    Ok(())
}
