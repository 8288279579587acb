//! The tables: which cells there are, and what each asks the simulator.
use hostsched::CpuId;
use hostsched::config::IdleSibling::{self, Buddy, FirstIdle, Off, Traverse};
use hostsched::topology::{BuildOptions, build_sched_domains};
use plan::EngineError;
use sim::tasks::{Governor, Load};

use super::super::host_runs::{Answer, Question, Runs, host_machine, mean};
use super::super::{Cell, Table, broken};
use super::kernel;
use super::published::{Published, TcpRr};

/// `up_threshold` of mainline 3.4, and what the thread's second kernel is assumed to use.
const MAINLINE: u64 = 80;
const LOWERED: u64 = 40;
/// Client counts of the counters' table.
const COUNTED: [u32; 4] = [1, 4, 8, 32];

/// All tables. Called twice: see [`Runs`].
pub(super) fn all(published: &Published, runs: &mut Runs) -> Result<Vec<Table>, EngineError> {
    Ok(vec![
        tbench_e5620(published, runs),
        tcp_rr("tcp-rr-performance", &published.tcp_rr_performance, Governor::Performance, runs),
        tcp_rr("tcp-rr-ondemand", &published.tcp_rr_ondemand, Governor::Ondemand { up_threshold: LOWERED }, runs),
        ctx_switch(published, runs)?,
        bw_tcp(published, runs),
        tbench_westmere_ex(published, runs),
        aim7(published, runs),
        pipe_test(published, runs),
        one_to_many(runs),
        bounce(runs),
        buddy_map(published)?,
    ])
}

/// The answer of a kernel on a machine under that load.
fn ask(runs: &mut Runs, machine: &'static str, load: Load, idle_sibling: IdleSibling) -> Answer {
    runs.ask(question(machine, load, idle_sibling))
}

fn question(machine: &'static str, load: Load, idle_sibling: IdleSibling) -> Question {
    let length = match load {
        Load::Tbench { clients: 64.. } => "full",
        Load::Tbench { clients: 8.. } | Load::Aim7 { .. } | Load::Server { .. } => "busy",
        _ => "light",
    };
    Question { length, ..Question::of(machine, load, kernel(idle_sibling)) }
}

/// `new` over `old`, 0 if there is no old.
fn over(new: f64, old: f64) -> f64 {
    if old > 0.0 { new / old } else { 0.0 }
}

/// Two kernels and their ratio.
fn pair(row: &str, published: [f64; 2], ours: [f64; 2]) -> [Cell; 3] {
    [
        Cell::new(row, "traverse", Some(published[0]), ours[0]),
        Cell::new(row, "buddy", Some(published[1]), ours[1]),
        Cell::new(row, "buddy/traverse", Some(over(published[1], published[0])), over(ours[1], ours[0])),
    ]
}

fn clients(n: u32) -> String {
    format!("{n} clients")
}

/// A client count of a published row.
fn count(clients: f64) -> u32 {
    [1, 2, 4, 8, 16, 32, 64, 128].into_iter().find(|n| (f64::from(*n) - clients).abs() < 0.5).unwrap_or(1)
}

fn tbench_e5620(published: &Published, runs: &mut Runs) -> Table {
    let mut cells = Vec::new();
    for [n, traverse, buddy] in published.tbench_e5620.rows.iter().copied() {
        let load = Load::Tbench { clients: count(n) };
        let ours = [Traverse, Buddy].map(|kind| ask(runs, "e5620", load, kind).rate() / 1e6);
        cells.extend(pair(&clients(count(n)), [traverse, buddy], ours));
    }
    let ondemand = &published.tbench_e5620_ondemand;
    for (row, figures, up_threshold) in
        [("1, ondemand 80 %", ondemand.mainline, MAINLINE), ("1, ondemand 40 %", ondemand.lowered, LOWERED)]
    {
        let governor = Governor::Ondemand { up_threshold };
        let load = Load::Tbench { clients: 1 };
        let ours =
            [Traverse, Buddy].map(|kind| runs.ask(Question { governor, ..question("e5620", load, kind) }).rate() / 1e6);
        cells.extend(pair(row, figures, ours));
    }
    let notes = [
        "MB/s. tcp_send, tcp_recv and c1_exit of the host were fitted, to bound TCP_RR and to lmbench's pipe; nothing to \
         these figures. The difference of the columns is the refill of the core that the task lands on.",
        "ondemand: rows by the load from which the governor goes to full clock; 80 is mainline's.",
    ];
    Table::new("tbench-e5620", "tbench on 4 cores with SMT", &notes, cells)
}

fn tcp_rr(id: &str, published: &TcpRr, governor: Governor, runs: &mut Runs) -> Table {
    let mut cells = Vec::new();
    for (row, bound, figures) in [("unbound", false, published.unbound), ("bound", true, published.bound)] {
        let load = Load::TcpRr { bound };
        let ours =
            [Traverse, Buddy].map(|kind| runs.ask(Question { governor, ..question("e5620", load, kind) }).rate());
        cells.extend(pair(row, figures, ours));
    }
    let notes = [
        "Transactions/s. Bound is both ends on one CPU, which is assumed; there the two kernels cannot differ, and the \
         thread wonders about the 3.8 per cent that it found. The bound rate was fitted.",
    ];
    Table::new(id, "netperf TCP_RR on the E5620", &notes, cells)
}

/// lmbench subtracts what one process needs to write and read a pipe by itself.
fn ctx_switch(published: &Published, runs: &mut Runs) -> Result<Table, EngineError> {
    let costs = host_machine("e5620")?.costs;
    let overhead = micros(2 * (costs.syscall + costs.pipe_op));
    let hop = |rate: f64| if rate > 0.0 { 1e6 / rate / 2.0 - overhead } else { 0.0 };
    let ours = [Traverse, Buddy].map(|kind| hop(ask(runs, "e5620", Load::CtxSwitch, kind).rate()));
    let p = &published.ctx_switch;
    let cells = pair("2p/0K", [mean(&p.traverse), mean(&p.buddy)], ours).into();
    Ok(Table::new("lmbench-ctxsw", "lmbench context switch, us, smaller is better", &["Means of three."], cells))
}

#[expect(clippy::cast_precision_loss, reason = "a cost is far below 2^53")]
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn bw_tcp(published: &Published, runs: &mut Runs) -> Table {
    let ours = [Traverse, Buddy].map(|kind| ask(runs, "e5620", Load::BwTcp, kind).rate() / 1e6);
    let p = &published.bw_tcp;
    let cells = pair("bw_tcp", [mean(&p.traverse), mean(&p.buddy)], ours).into();
    let notes =
        ["MB/s; published: means of three that scatter by 20 per cent. Two that stream do not bounce: no kernel wins."];
    Table::new("lmbench-bw-tcp", "lmbench TCP bandwidth on the E5620", &notes, cells)
}

fn tbench_westmere_ex(published: &Published, runs: &mut Runs) -> Table {
    let mut cells = Vec::new();
    for [n, stock, traverse, buddy] in published.tbench_westmere_ex.rows.iter().copied() {
        let (row, load) = (clients(count(n)), Load::Tbench { clients: count(n) });
        let ours = [FirstIdle, Traverse, Buddy].map(|kind| ask(runs, "westmere-ex", load, kind).rate() / 1e6);
        cells.push(Cell::new(&row, "stock", Some(stock), ours[0]));
        cells.extend(pair(&row, [traverse, buddy], [ours[1], ours[2]]));
    }
    let notes = [
        "MB/s. Nothing was fitted to this table; the idle states are those of the kernel's own table.",
        "Why traverse collapses: a lone pair walks round ten cores. Each visit first leaves C6, so the walk is slow, so each \
         core rests for a millisecond, so it sleeps in C6. Four cores (E5620) cannot rest that long, and more pairs in a \
         package end it.",
    ];
    Table::new("tbench-westmere-ex", "tbench on 40 cores with SMT", &notes, cells)
}

fn aim7(published: &Published, runs: &mut Runs) -> Table {
    let load = Load::Aim7 { tasks: 64 };
    let ours = [Traverse, Buddy].map(|kind| ask(runs, "westmere-ex", load, kind).rate() * 60.0);
    let mut cells: Vec<Cell> = pair("64 tasks", published.aim7.rows, ours).into();
    // A job here is not one of theirs.
    cells.iter_mut().filter(|cell| cell.column != "buddy/traverse").for_each(|cell| cell.ratio = None);
    Table::new(
        "aim7",
        "AIM7 at low load on 40 cores",
        &["Jobs/min; a job here is not theirs: only the ratio compares."],
        cells,
    )
}

fn pipe_test(published: &Published, runs: &mut Runs) -> Table {
    let mut cells = Vec::new();
    for (machine, known) in [("q6600", None), ("q6600-broken", Some(published.pipe_test_broken.buddy))] {
        for (column, kind, published) in [("traverse", Traverse, None), ("buddy", Buddy, known), ("off", Off, None)] {
            let rate = ask(runs, machine, Load::PipeTest, kind).rate();
            cells.push(Cell::new(machine, column, published, if rate > 0.0 { 1e6 / rate } else { 0.0 }));
        }
    }
    let notes = [
        "us a loop, smaller is better. Broken: one MC domain of four CPUs over the pairs 0-3 and 1-2, so that buddies \
                  0-1 and 2-3 are in different caches.",
    ];
    Table::new("pipe-test-q6600", "pipe-test, sane and broken sched groups", &notes, cells)
}

/// The load for which the buddies were reverted.
fn one_to_many(runs: &mut Runs) -> Table {
    let mut cells = Vec::new();
    for (machine, workers) in [("e5620", 4), ("e5620", 8), ("westmere-ex", 8), ("westmere-ex", 16)] {
        let row = format!("{machine} 1:{workers}");
        let load = Load::Server { workers };
        for (column, kind) in [("traverse", Traverse), ("buddy", Buddy), ("off", Off)] {
            cells.push(Cell::new(&row, column, None, ask(runs, machine, load, kind).rate()));
        }
    }
    let notes = [
        "Requests/s; nothing is published. One dispatcher wakes many workers: its one buddy cannot take them all, the \
         others queue behind the dispatcher. The buddies were reverted before 3.6 because pgbench, which has this shape, lost.",
    ];
    Table::new("one-to-many", "one dispatcher and its workers", &notes, cells)
}

/// What the bouncing is made of.
fn bounce(runs: &mut Runs) -> Table {
    let mut cells = Vec::new();
    for n in COUNTED {
        for (name, kind) in [("traverse", Traverse), ("buddy", Buddy)] {
            let a = ask(runs, "westmere-ex", Load::Tbench { clients: n }, kind);
            let row = format!("{n} {name}");
            for (column, ours) in [
                ("other core, %", 100.0 * a.per("wakeups_other_core", "wakeups")),
                ("deep idle, %", 100.0 * a.per("wakeups_deep", "wakeups")),
                ("idle exit, us", a.per("idle_exit_ns", "wakeups") / 1000.0),
                ("refill, us", a.per("refill_ns", "wakeups") / 1000.0),
                ("CPUs asked", a.per("idle_asked", "wakeups")),
                ("migrations/s", a.per_s("migrations")),
            ] {
                cells.push(Cell::new(&row, column, None, ours));
            }
        }
    }
    let notes = [
        "Per wake-up: how often it lands on another core than the last, how often on one in C3 or C6, what leaving \
                  the idle state and fetching the task's lines takes, and how many CPUs are asked whether they are idle.",
    ];
    Table::new("bounce", "what bounces, tbench on westmere-ex", &notes, cells)
}

fn buddy_map(published: &Published) -> Result<Table, EngineError> {
    let topology = host_machine("six-core")?.topology;
    let domains = build_sched_domains(&topology, topology.online(), BuildOptions::default());
    let domains = domains.map_err(|_| broken("the six-core host has no sched domains"))?;
    let mut cells = Vec::new();
    for (cpu, buddy) in (0..).zip(&published.buddy_map.six_core) {
        let top = domains.llc_index(CpuId(cpu)).map(|at| &domains.of(CpuId(cpu))[at]);
        let ours = top.and_then(|sd| sd.idle_buddy).ok_or_else(|| broken("a CPU of the six-core host has no buddy"))?;
        cells.push(Cell { ratio: None, ..Cell::new(&format!("CPU {cpu}"), "buddy", Some(*buddy), f64::from(ours.0)) });
    }
    Ok(Table::new("buddy-map", "who is whose buddy, six cores without SMT", &[], cells))
}
