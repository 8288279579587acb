//! What tracing costs, and what reading a trace costs. Bars: recording an event at most 20 ns; a summary and a timeline of
//! a million events under 3 s, in memory that does not grow with the trace.
//!
//! `Kelem/s` is thousands of events a second. Read them on an idle host.
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hostsched::{CpuId, TaskId};
use trace::summary::Summary;
use trace::timeline::{Timeline, Window};
use trace::{Buffer, Event, ExitReason, Names, PrevState, Recorder, Task, Trace, What, Who, ftrace, pftrace};

const EVENTS: u32 = 1_000_000;
const CPUS: u32 = 8;
const TASKS: u32 = 64;

/// Eight CPUs that switch between 64 vCPUs, which flush now and then.
fn event(i: u32) -> Event {
    let cpu = CpuId(i % CPUS);
    let task = |turn: u32| TaskId((turn % (TASKS / CPUS)) * CPUS + cpu.0);
    let (turn, step) = (i / CPUS / 8, i / CPUS % 8);
    let (now, next) = (task(turn), task(turn + 1));
    let what = match step {
        0 => What::Entry { task: now },
        1 => What::FlushBegin { task: now, targets: Some(7) },
        2 | 3 => What::GuestIpi { from: now, to: TaskId((now.0 + step) % TASKS) },
        4 => What::GuestIrq { task: now },
        5 => What::FlushEnd { task: now },
        6 => What::Exit { task: now, reason: ExitReason::ExternalInterrupt },
        _ => What::Switch { prev: Who::task(now), state: PrevState::Runnable, next: Who::task(next) },
    };
    Event { at_ns: u64::from(i) * 300, cpu, what }
}

fn sample() -> Trace {
    let mut buffer = Buffer::new(EVENTS as usize);
    (0..EVENTS).for_each(|i| buffer.push(event(i)));
    let names = Names::new((0..TASKS).map(|task| Task::vcpu(task / 8, task % 8, task + 1)).collect());
    Trace::new([buffer], names, (0..CPUS).map(CpuId).collect())
}

fn million(criterion: &mut Criterion) {
    let trace = sample();
    let mut text = Vec::new();
    ftrace::write(&trace, &mut text).expect("memory takes it");
    let mut group = criterion.benchmark_group("million-events");
    group.sample_size(10);
    group.throughput(Throughput::Elements(EVENTS.into()));
    let mut recorder = Recorder::new(EVENTS as usize);
    group.bench_function("record", |b| {
        b.iter(|| {
            recorder.clear();
            (0..EVENTS).map(event).for_each(|event| recorder.record(event.at_ns, event.cpu, event.what));
        });
    });
    group.bench_function("write/txt", |b| b.iter(|| ftrace::write(&trace, &mut std::io::sink())));
    group.bench_function("write/pftrace", |b| b.iter(|| pftrace::write(&trace, &mut std::io::sink())));
    group.bench_function("read/summary", |b| b.iter(|| Summary::read(text.as_slice())));
    group.bench_function("read/timeline", |b| b.iter(|| Timeline::read(text.as_slice(), Window::default())));
    group.finish();
}

criterion_group!(benches, million);
criterion_main!(benches);
