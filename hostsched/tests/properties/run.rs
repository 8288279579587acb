//! Runs a world and checks it between events.
use std::collections::BTreeMap;
use std::sync::Mutex;

use hostsched::Checker;
use hostsched::policy::{HookCx, Hooks, Policy, elect, install};
use hostsched::testing::{Engine, RunError, ScenarioError};
use hostsched::weight::Nice;
use hostsched::{CpuId, GroupId, Host, Ipi, Nanos, TaskError, TaskId, Vruntime};
use proptest::prelude::*;

use super::observer::Observer;
use super::world::{Act, MS, World};

/// The scheduler's clock at time 0 of a scenario.
pub(crate) const EPOCH: Nanos = Nanos(1_000_000_000);

pub(crate) type Run<'a> = Engine<'a, Observer>;

/// A policy that does nothing but notice requests that reach a CPU that is not there.
#[derive(Debug, Default)]
struct Watch {
    absent: Mutex<Vec<CpuId>>,
}

impl Policy for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }
    fn hooks(&self) -> Hooks {
        Hooks::IPI_RECEIVED.union(Hooks::AFTER_PICK)
    }
    fn after_pick(&self, cx: &mut HookCx<'_>, picked: Option<TaskId>) {
        // Requests that this pick gave rise to: the gang policy has seen it already.
        let absent = cx.fx.ipis.iter().filter(|(cpu, _)| !cx.host.online().contains(*cpu));
        self.absent.lock().unwrap().extend(absent.map(|(cpu, _)| *cpu));
        if picked.is_some() && !cx.host.online().contains(cx.rq.cpu()) {
            self.absent.lock().unwrap().push(cx.rq.cpu());
        }
    }
    fn counters(&self, _now: Nanos, report: &mut dyn FnMut(&'static str, u64)) {
        report("absent", self.absent.lock().unwrap().len() as u64);
    }
}

/// The host of a world, with its policy and any others.
pub(crate) fn host(world: &World, extra: Vec<Box<dyn Policy>>) -> Host {
    let mut host = world.scenario.host().unwrap();
    host.config_mut().switches = world.switches;
    install(&mut host, world.kind, &world.settings);
    extra.into_iter().for_each(|p| host.add_policy(p));
    host
}

/// An engine at the start of the world, with its gangs flagged.
pub(crate) fn start(world: &World, extra: Vec<Box<dyn Policy>>) -> Run<'_> {
    let host = host(world, extra);
    let observer = Observer::new(EPOCH, host.machine().cpu_slots(), world.scenario.tasks.len());
    let mut engine = Engine::new(&world.scenario, host, observer).unwrap();
    for (g, gang) in world.gangs.iter().enumerate() {
        engine.sched().group_set_gang(GroupId::from_index(g + 1), *gang).unwrap();
    }
    engine
}

/// Does an act; what the scheduler refuses is refused.
pub(crate) fn act(engine: &mut Run<'_>, act: &Act) {
    let id = TaskId::from_index;
    match *act {
        Act::Offline(c) => return drop(engine.hotplug(CpuId(c), false).unwrap()),
        Act::Online(c) => return drop(engine.hotplug(CpuId(c), true).unwrap()),
        Act::Ring(t, kernel) => return engine.host().guest_ring(id(t), kernel),
        _ => {}
    }
    let groups = engine.host().limits().groups;
    let generations: Vec<u32> = (0..groups).map(|g| engine.host().group_generation(GroupId(g))).collect();
    let done = engine.act(|s| match act.clone() {
        Act::Affinity(t, cpus) => s.task_set_affinity(id(t), &cpus).is_ok(),
        Act::Nice(t, nice) => s.task_set_nice(id(t), Nice::new(nice).unwrap()).is_ok(),
        Act::Move(t, g) => s.task_set_group(id(t), GroupId(g)).is_ok(),
        Act::Exit(t) => s.task_exit(id(t)).is_ok(),
        Act::Shares(g, shares) => s.group_set_shares(GroupId(g), shares).is_ok(),
        Act::Gang(g, on) => s.group_set_gang(GroupId(g), on).is_ok(),
        Act::Renew(g) => {
            let removed = s.group_remove(GroupId(g)).is_ok();
            assert!(!removed || s.group_create(GroupId::ROOT, 1024, true) == Ok(GroupId(g)));
            removed
        }
        Act::Yield(c) => {
            s.yield_current(CpuId(c));
            true
        }
        Act::YieldTo(c, t) => s.yield_to(CpuId(c), id(t)),
        Act::Spin(c) => s.spin_detected(CpuId(c)),
        Act::Request(c, g, late) => generations.get(g as usize).is_some_and(|generation| {
            let generation = generation.wrapping_sub(u32::from(late));
            s.ipi_received(CpuId(c), Ipi::Gang { group: GroupId(g), generation });
            true
        }),
        Act::GuestMode(c, on) => {
            s.guest_mode(CpuId(c), on);
            true
        }
        Act::Offline(_) | Act::Online(_) | Act::Ring(..) => false,
    });
    done.unwrap();
}

/// What is compared from one check to the next.
#[derive(Default)]
pub(crate) struct Checks {
    inside: Checker,
    min_vruntime: BTreeMap<CpuId, Vruntime>,
}

impl Checks {
    /// Everything that must hold at rest.
    pub(crate) fn check(&mut self, engine: &mut Run<'_>, now_ns: u64) -> Result<(), TestCaseError> {
        self.inside.check(engine.host(), engine.rqs()).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let mut books = engine.trace().clone();
        books.close(EPOCH + Nanos(now_ns));
        prop_assert!(books.wrong.is_empty(), "{:?}", books.wrong);
        let (host, rqs) = (engine.host(), engine.rqs());
        let mut runnable = 0;
        for task in 0..engine.task_count() {
            let Some((cpu, info)) = engine.task(task) else { continue };
            // Runtime, three ways.
            prop_assert_eq!(info.sum_exec_runtime.0, books.ran_ns[task], "runtime of task {}", task);
            prop_assert_eq!(books.charged_ns[task], books.ran_ns[task], "charges of task {}", task);
            if host.task_cpu(TaskId::from_index(task)).is_none() {
                continue;
            }
            // Nobody is lost, and nobody is where it may not be.
            prop_assert!(info.on_rq || !engine.wants_to_run(task), "task {} should be queued", task);
            if info.on_rq {
                runnable += 1;
                prop_assert!(host.online().contains(cpu), "task {} is queued on CPU {}, which is off", task, cpu);
                let may = info.affinity.contains(cpu);
                prop_assert!(may, "task {} may use CPUs {} and is on CPU {}", task, info.affinity, cpu);
            }
        }
        let queued: u32 = rqs.iter().map(|rq| rq.nr_running_in(GroupId::ROOT)).sum();
        prop_assert_eq!(queued, runnable, "queued tasks and tasks that know it");
        for rq in rqs {
            let cpu = rq.cpu();
            prop_assert_eq!(rq.stats().idle.0, books.idle_ns[cpu.index()], "idle time of CPU {}", cpu);
            prop_assert!(rq.current().is_some() || rq.nr_running_in(GroupId::ROOT) == 0, "CPU {} idles with work", cpu);
            let (new, old) = (rq.min_vruntime(GroupId::ROOT), self.min_vruntime.get(&cpu).copied());
            prop_assert!(old.is_none_or(|old| !new.before(old)), "min_vruntime of CPU {} fell", cpu);
            self.min_vruntime.insert(cpu, new);
        }
        check_spans(host)?;
        let absent = host.policy_counters(EPOCH + Nanos(now_ns)).into_iter().find(|(n, _)| *n == "absent");
        prop_assert_eq!(absent.map_or(0, |(_, n)| n), 0, "a CPU that is off line was asked or picked");
        Ok(())
    }
}

/// Every on-line CPU has one leader, which is on line.
fn check_spans(host: &Host) -> Result<(), TestCaseError> {
    for gang_cpus in [1, 2, 4, 8] {
        let spans = elect(host.domains(), gang_cpus);
        let mut seen = Vec::new();
        for span in &spans {
            prop_assert_eq!(span.cpus.first(), Some(span.leader));
            seen.extend(span.cpus.iter());
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, host.online().iter().collect::<Vec<_>>());
    }
    Ok(())
}

/// Runs up to an instant. A task that cannot start because its group or all its CPUs are gone does not start.
pub(crate) fn run_until(engine: &mut Run<'_>, now_ns: u64) -> Result<(), TestCaseError> {
    loop {
        match engine.run_until(now_ns) {
            Ok(()) => return Ok(()),
            Err(RunError::Scenario(ScenarioError::Task(_, TaskError::NoCpu(_) | TaskError::NoGroup(_)))) => {
                engine.act(|_| ()).map_err(|e| TestCaseError::fail(e.to_string()))?;
            }
            Err(e) => return Err(TestCaseError::fail(e.to_string())),
        }
    }
}

/// Runs the world to its end and checks it before and after each act and every few ms.
pub(crate) fn run(world: &World) -> Result<(), TestCaseError> {
    let mut engine = start(world, vec![Box::new(Watch::default())]);
    let mut checks = Checks::default();
    let mut now = 0;
    let mut acts = world.acts.iter().peekable();
    while now < world.scenario.duration_ns {
        let next_act = acts.peek().map_or(u64::MAX, |(at, _)| *at);
        now = (now + 3 * MS + 17).min(next_act.max(now)).min(world.scenario.duration_ns);
        run_until(&mut engine, now)?;
        checks.check(&mut engine, now)?;
        while let Some((_, what)) = acts.next_if(|(at, _)| *at <= now) {
            act(&mut engine, what);
            run_until(&mut engine, now)?;
            checks.check(&mut engine, now)?;
        }
    }
    Ok(())
}
