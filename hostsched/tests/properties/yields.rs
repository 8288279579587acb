//! A yield touches the yielder's queue and the target's, and no other.
use hostsched::{CpuId, Rq, TaskId};
use proptest::prelude::*;

use super::run::{self, Run};
use super::world::{Act, World, world};

/// Everything about a queue, as text.
fn text(rqs: &[Rq]) -> Vec<String> {
    rqs.iter().map(|rq| format!("{rq:?}")).collect()
}

/// Lets `cpu` yield to a task or spin, and tells which queues changed.
fn touched(engine: &mut Run<'_>, cpu: u32, target: Option<usize>) -> (bool, Vec<CpuId>) {
    // Clocks first, so that only what the yield does is left.
    for c in 0..engine.rqs().len() {
        engine.sched().sync(CpuId(u32::try_from(c).unwrap()));
    }
    let before = text(engine.rqs());
    let yielded = match target {
        Some(task) => engine.sched().yield_to(CpuId(cpu), TaskId::from_index(task)),
        None => engine.sched().spin_detected(CpuId(cpu)),
    };
    let after = text(engine.rqs());
    let changed = before.iter().zip(&after).zip(0..).filter(|((b, a), _)| b != a).map(|(_, c)| CpuId(c)).collect();
    engine.act(|_| ()).unwrap();
    (yielded, changed)
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let mut engine = run::start(world, Vec::new());
    for (at, what) in &world.acts {
        run::run_until(&mut engine, *at)?;
        let (cpu, target) = match what {
            Act::YieldTo(cpu, task) => (*cpu, Some(*task)),
            Act::Spin(cpu) => (*cpu, None),
            other => {
                run::act(&mut engine, other);
                continue;
            }
        };
        let there = target.and_then(|t| engine.host().task_cpu(TaskId::from_index(t)));
        let (yielded, changed) = touched(&mut engine, cpu, target);
        let others = changed.iter().filter(|c| **c != CpuId(cpu)).collect::<Vec<_>>();
        prop_assert!(yielded || changed.is_empty(), "a refused yield changed CPUs {:?}", changed);
        prop_assert!(others.len() <= 1, "the yield of CPU {} changed CPUs {:?}", cpu, changed);
        prop_assert!(target.is_none() || others.iter().all(|c| Some(**c) == there), "CPUs {:?} changed", changed);
    }
    Ok(())
}

proptest! {
    #![proptest_config(super::config(300))]

    #[test]
    fn a_yield_touches_only_the_yielders_queue_and_the_targets(world in world()) {
        check(&world)?;
    }
}
