//! Speed of the scheduler under the golden event loop, one thread.
//!
//! | benchmark | load | aim |
//! |---|---|---|
//! | `hogs/8x64` | 64 hogs in 8 pinned groups on 8 CPUs, HZ 1000 | 2,000 simulated s per wall s: 16 M ticks/s |
//! | `sleepers/8x64` | 64 tasks that run 1 ms and sleep 7 ms on 8 CPUs | 5 M events/s |
//! | `hogs/128x1024`, `sleepers/128x1024` | the same per CPU on 128 | at most twice the cost per event |
//!
//! An event is a tick, the end of a run segment, or a timer. Throughput is in events; a line per benchmark before it says
//! how many simulated seconds that is.
#![forbid(unsafe_code)]
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hostsched::NoTrace;
use hostsched::testing::{Engine, GroupSpec, Scenario, Step, TaskPlan};

/// Simulated time per iteration.
const STEP_NS: u64 = 100_000_000;
const FOREVER_NS: u64 = 1_000_000_000_000_000;

/// One group per eight tasks of the whole host, a task of each on every CPU.
fn hogs(machine: &str, cpus: u32, groups: usize) -> Scenario {
    let mut s = Scenario::on(machine, FOREVER_NS);
    s.groups = vec![GroupSpec { parent: None, shares: 1024 }; groups];
    s.tasks = (0..groups).flat_map(|g| (0..cpus).map(move |c| TaskPlan::hog().in_group(g).pinned(c))).collect();
    s
}

fn sleepers(machine: &str, cpus: u32) -> Scenario {
    let mut s = Scenario::on(machine, FOREVER_NS);
    let task = |i| TaskPlan::repeat([Step::Run(1_000_000), Step::Sleep(7_000_000)]).on_cpu(i % cpus);
    s.tasks = (0..cpus * 8).map(task).collect();
    s
}

fn schedule(c: &mut Criterion) {
    let (small, large) = ("8s:1c", "2s:64c");
    for (load, size, scenario) in [
        ("hogs", "8x64", hogs(small, 8, 8)),
        ("hogs", "128x1024", hogs(large, 128, 8)),
        ("sleepers", "8x64", sleepers(small, 8)),
        ("sleepers", "128x1024", sleepers(large, 128)),
    ] {
        let mut engine = Engine::new(&scenario, scenario.host().expect("host"), NoTrace).expect("engine");
        let mut end_ns = 2_000_000_000;
        engine.run_until(end_ns).expect("warm up");
        let (start, before, begin_ns) = (Instant::now(), engine.events(), end_ns);
        while start.elapsed().as_millis() < 1000 {
            end_ns += STEP_NS;
            engine.run_until(end_ns).expect("run");
        }
        let (wall, events) = (start.elapsed().as_secs_f64(), engine.events() - before);
        let simulated = (end_ns - begin_ns) as f64 / 1e9;
        println!(
            "{load}/{size}: {:.0} simulated s per wall s, {:.2} M events/s, {:.1} ns per event",
            simulated / wall,
            events as f64 / wall / 1e6,
            wall * 1e9 / events as f64
        );
        let mut group = c.benchmark_group(load);
        group.throughput(Throughput::Elements(events / ((end_ns - begin_ns) / STEP_NS)));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter(|| {
                end_ns += STEP_NS;
                engine.run_until(end_ns).expect("run");
            });
        });
        group.finish();
    }
}

criterion_group!(benches, schedule);
criterion_main!(benches);
