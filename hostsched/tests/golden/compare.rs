//! The verdict on one file: the first difference, or none.
use std::fmt::Display;

use hostsched::testing::{Outcome, run};

use super::file::{Class, Golden, Published, Spread};

/// Reads a golden file, runs its scenario and compares. `Ok(Err(d))` is a difference, `Err` a file that cannot be run.
pub fn judge(json: &[u8], demand_exact: bool) -> Result<Result<(), String>, String> {
    let golden: Golden = serde_json::from_slice(json).map_err(|e| format!("not a golden file: {e}"))?;
    if golden.format != 1 {
        return Err(format!("format {} is unknown: it must be 1", golden.format));
    }
    let outcome = run(&golden.scenario.scenario()?).map_err(|e| e.to_string())?;
    Ok(invariant(&golden, &outcome).and_then(|()| match golden.scenario.compare {
        _ if demand_exact => exact(&golden.outcome, &outcome).and_then(|()| figures(&golden.outcome, &outcome)),
        Class::Exact => exact(&golden.outcome, &outcome),
        Class::Placement => placement(&golden, &outcome),
        Class::Statistical => statistical(&golden, &outcome),
    }))
}

fn same<T: PartialEq + Display>(what: impl Display, want: T, got: T) -> Result<(), String> {
    if want == got { Ok(()) } else { Err(format!("{what}: {got}, golden {want}")) }
}

/// Runtimes and idle times add up.
fn invariant(golden: &Golden, got: &Outcome) -> Result<(), String> {
    let exec: u64 = got.tasks.iter().map(|t| t.exec_ns).sum();
    let idle: u64 = got.cpus.iter().map(|c| c.idle_ns).sum();
    same("runtime + idle", u64::from(golden.scenario.ncpu) * golden.scenario.duration_ns, exec + idle)
}

/// What the data calls exact, the log first: it names the earliest difference.
fn exact(want: &Published, got: &Outcome) -> Result<(), String> {
    if let Some(log) = &want.switch_log {
        for (i, line) in log.iter().enumerate() {
            let Some(s) = got.switches.get(i) else {
                return Err(format!("switch {i}: none, golden {line:?}"));
            };
            let mut ours = vec![i64::try_from(s.at_ns).unwrap_or(i64::MAX), i64::from(s.cpu), s.next];
            if line.len() > 3 {
                ours.push(s.vruntime.0.cast_signed());
            }
            // Idle and the stopper have no vruntime.
            let width = if s.next < 0 { 3 } else { ours.len() };
            if line.get(..width) != ours.get(..width) {
                return Err(format!("switch {i}: {ours:?}, golden {line:?}"));
            }
        }
        same("switches logged", log.len(), got.switches.len())?;
    }
    for (i, (w, g)) in want.tasks.iter().zip(&got.tasks).enumerate() {
        same(format!("task {i} exec_ns"), w.exec_ns, g.exec_ns)?;
        same(format!("task {i} switches_in"), w.switches_in, g.switches_in)?;
        same(format!("task {i} vruntime"), w.vruntime, g.vruntime.0.cast_signed())?;
    }
    Ok(())
}

/// All other figures, bit for bit.
fn figures(want: &Published, got: &Outcome) -> Result<(), String> {
    if let Some(log) = &want.migration_log {
        for (i, line) in log.iter().enumerate() {
            let ours = got.migrations.get(i).map(|m| [m.at_ns, m.task as u64, m.from.into(), m.to.into()]);
            if ours != Some(*line) {
                return Err(format!("migration {i}: {ours:?}, golden {line:?}"));
            }
        }
        same("migrations logged", log.len(), got.migrations.len())?;
    }
    for (i, (w, g)) in want.tasks.iter().zip(&got.tasks).enumerate() {
        same(format!("task {i} migrations"), w.migrations, g.migrations)?;
        same(format!("task {i} wakeups"), w.wakeups, g.wakeups)?;
        same(format!("task {i} wakeup_latency_sum_ns"), w.wakeup_latency_sum_ns, g.wakeup_latency_sum_ns)?;
        same(format!("task {i} wakeup_latency_max_ns"), w.wakeup_latency_max_ns, g.wakeup_latency_max_ns)?;
        same(format!("task {i} wait_sum_ns"), w.wait_sum_ns, g.wait_sum_ns)?;
        same(format!("task {i} final_cpu"), w.final_cpu, g.final_cpu)?;
        same(format!("task {i} on_rq"), w.on_rq != 0, g.on_rq)?;
        same(format!("task {i} running"), w.running != 0, g.running)?;
    }
    for (c, (w, g)) in want.cpus.iter().zip(&got.cpus).enumerate() {
        same(format!("cpu {c} idle_ns"), w.idle_ns, g.idle_ns)?;
        same(format!("cpu {c} switches"), w.switches, g.switches)?;
        same(format!("cpu {c} min_vruntime"), w.min_vruntime, g.min_vruntime.0.cast_signed())?;
    }
    Ok(())
}

/// Tasks per CPU at the end, the fullest first.
fn crowd(cpus: usize, final_cpus: impl Iterator<Item = u32>) -> Vec<usize> {
    let mut crowd = vec![0; cpus];
    final_cpus.for_each(|c| crowd[c as usize] += 1);
    crowd
}

fn placement(golden: &Golden, got: &Outcome) -> Result<(), String> {
    let want = &golden.outcome;
    let cpus = want.cpus.len();
    let busy = |idle: &mut dyn Iterator<Item = u64>| idle.filter(|i| *i < golden.scenario.duration_ns).count();
    same("busy CPUs", busy(&mut want.cpus.iter().map(|c| c.idle_ns)), busy(&mut got.cpus.iter().map(|c| c.idle_ns)))?;
    let (w, g) = (
        crowd(cpus, want.tasks.iter().filter(|t| t.on_rq != 0).map(|t| t.final_cpu)),
        crowd(cpus, got.tasks.iter().filter(|t| t.on_rq).map(|t| t.final_cpu)),
    );
    if w != g {
        return Err(format!("tasks by CPU at the end: {g:?}, golden {w:?}"));
    }
    let idle: u64 = got.cpus.iter().map(|c| c.idle_ns).sum();
    let ensemble = golden.ensemble.as_ref().ok_or("the file has no ensemble")?;
    within("total idle", idle as f64, f64::MIN, ensemble.total_idle_ns.max + 5e6)
}

fn within(what: impl Display, got: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&got) { Ok(()) } else { Err(format!("{what}: {got}, golden {low} to {high}")) }
}

fn widened(what: impl Display, got: u64, spread: Spread, part: f64) -> Result<(), String> {
    within(what, got as f64, spread.min * (1.0 - part), spread.max * (1.0 + part))
}

fn statistical(golden: &Golden, got: &Outcome) -> Result<(), String> {
    let e = golden.ensemble.as_ref().ok_or("the file has no ensemble")?;
    let mut exec: Vec<u64> = got.tasks.iter().map(|t| t.exec_ns).collect();
    let sum: u64 = exec.iter().sum();
    widened("total exec", sum, e.total_exec_ns, 0.005)?;
    let mut by_group = vec![0; e.exec_ns_per_group.len()];
    for (group, exec) in golden.scenario.task_groups().zip(&exec) {
        if let Some(total) = group.and_then(|g| by_group.get_mut(g)) {
            *total += exec;
        }
    }
    for (g, (got, spread)) in by_group.into_iter().zip(&e.exec_ns_per_group).enumerate() {
        widened(format!("group {g} exec"), got, *spread, 0.03)?;
    }
    exec.sort_unstable();
    for (rank, (got, spread)) in exec.iter().zip(&e.exec_ns_sorted_rank).enumerate() {
        widened(format!("exec of rank {rank}"), *got, *spread, 0.1)?;
    }
    let migrations: u64 = got.tasks.iter().map(|t| t.migrations).sum();
    within("migrations", migrations as f64, e.total_migrations.min * 0.5, e.total_migrations.max * 2.0)?;
    let idle: u64 = got.cpus.iter().map(|c| c.idle_ns).sum();
    within("total idle", idle as f64, f64::MIN, e.total_idle_ns.max * 2.0)
}
