//! Gang coverage against a reference that keeps whole sets and adds up from scratch at every event.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hostsched::policy::{GangSettings, HookCx, Hooks, Policy, PolicyKind, Span, counter, elect};
use hostsched::{CpuId, GroupId, Host, Nanos, TaskId};
use proptest::prelude::*;

use super::run::{self, EPOCH};
use super::world::{World, world};

#[derive(Debug, Default)]
struct State {
    spans: Vec<Span>,
    runnable: BTreeMap<TaskId, CpuId>,
    running: BTreeMap<CpuId, TaskId>,
    picked_last: BTreeMap<CpuId, Option<TaskId>>,
    in_guest: BTreeMap<CpuId, bool>,
    /// Gang that the leader runs.
    open: BTreeMap<CpuId, GroupId>,
    now: Nanos,
    window_ns: u64,
    covered_ns: u64,
}

#[derive(Debug)]
struct Reference {
    settings: GangSettings,
    state: Arc<Mutex<State>>,
}

fn groups_of(host: &Host, task: TaskId) -> Vec<GroupId> {
    std::iter::successors(Some(host.task_group(task)), |g| host.group_parent(*g)).collect()
}

impl State {
    fn advance(&mut self, host: &Host, settings: GangSettings, now: Nanos) {
        let ns = (now - self.now).0;
        self.now = now;
        if ns == 0 {
            return;
        }
        for span in &self.spans {
            let Some(gang) = self.open.get(&span.leader) else { continue };
            let here = |(t, cpu): &(&TaskId, &CpuId)| span.cpus.contains(**cpu) && groups_of(host, **t).contains(gang);
            let members: Vec<_> = self.runnable.iter().filter(here).collect();
            let runs = |(t, cpu): &(&TaskId, &CpuId)| {
                let told = !settings.guest_mode_told || self.in_guest.get(cpu) == Some(&true);
                self.running.get(cpu) == Some(*t) && told
            };
            if members.len() >= 2 {
                self.window_ns += ns;
                self.covered_ns += if members.iter().all(runs) { ns } else { 0 };
            }
        }
    }
}

impl Policy for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }
    fn hooks(&self) -> Hooks {
        Hooks::AFTER_PICK.union(Hooks::QUEUED).union(Hooks::GUEST_MODE)
    }
    fn after_pick(&self, cx: &mut HookCx<'_>, picked: Option<TaskId>) {
        let mut s = self.state.lock().unwrap();
        s.advance(cx.host, self.settings, cx.now);
        let cpu = cx.rq.cpu();
        if s.picked_last.insert(cpu, picked).flatten() != picked {
            s.in_guest.insert(cpu, false);
        }
        match picked {
            Some(task) => s.running.insert(cpu, task),
            None => s.running.remove(&cpu),
        };
        if s.spans.iter().any(|span| span.leader == cpu) {
            let gang = picked.and_then(|t| groups_of(cx.host, t).into_iter().find(|g| cx.host.is_gang(*g)));
            match gang {
                Some(gang) => s.open.insert(cpu, gang),
                None => s.open.remove(&cpu),
            };
        }
    }
    fn queued(&self, cx: &mut HookCx<'_>, task: TaskId, on: bool) {
        let mut s = self.state.lock().unwrap();
        s.advance(cx.host, self.settings, cx.now);
        if on {
            s.runnable.insert(task, cx.rq.cpu());
        } else {
            s.runnable.remove(&task);
        }
    }
    fn guest_mode(&self, cx: &mut HookCx<'_>, in_guest: bool) {
        let mut s = self.state.lock().unwrap();
        s.advance(cx.host, self.settings, cx.now);
        s.in_guest.insert(cx.rq.cpu(), in_guest);
    }
    fn cpu_changed(&mut self, host: &Host, cpu: CpuId, _online: bool, now: Nanos) {
        let mut s = self.state.lock().unwrap();
        s.advance(host, self.settings, now);
        s.running.remove(&cpu);
        s.picked_last.insert(cpu, None);
        s.in_guest.insert(cpu, false);
        s.open.clear();
        s.spans = elect(host.domains(), self.settings.gang_cpus);
    }
    fn group_removed(&self, host: &Host, group: GroupId, now: Nanos) {
        let mut s = self.state.lock().unwrap();
        s.advance(host, self.settings, now);
        s.open.retain(|_, gang| *gang != group);
    }
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let settings = world.settings.gang;
    let state = Arc::new(Mutex::new(State { now: EPOCH, ..State::default() }));
    let reference = Reference { settings, state: Arc::clone(&state) };
    let mut engine = run::start(world, vec![Box::new(reference)]);
    state.lock().unwrap().spans = elect(engine.host().domains(), settings.gang_cpus);
    let compare = |engine: &run::Run<'_>, now_ns| {
        let now = EPOCH + Nanos(now_ns);
        let counters: BTreeMap<_, _> = engine.host().policy_counters(now).into_iter().collect();
        let mut s = state.lock().unwrap();
        s.advance(engine.host(), settings, now);
        prop_assert_eq!(counters[counter::GANG_WINDOW_NS], s.window_ns, "window time at {}", now_ns);
        prop_assert_eq!(counters[counter::GANG_COVERED_NS], s.covered_ns, "covered time at {}", now_ns);
        Ok(())
    };
    for (at, what) in &world.acts {
        run::run_until(&mut engine, *at)?;
        run::act(&mut engine, what);
        compare(&engine, *at)?;
    }
    run::run_until(&mut engine, world.scenario.duration_ns)?;
    compare(&engine, world.scenario.duration_ns)
}

proptest! {
    #![proptest_config(super::config(200))]

    #[test]
    fn coverage_is_what_whole_sets_say(mut world in world(), v2: bool) {
        world.kind = if v2 { PolicyKind::Gang } else { PolicyKind::GangNext };
        check(&world)?;
    }
}
