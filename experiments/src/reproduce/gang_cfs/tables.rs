//! Which runs each published number needs, and what becomes of their answers.
use hostsched::policy::PleSwitches;
use plan::{Axes, Flush, HostPolicy, Mode, Spin, Workload};

use super::published::{Gains, Published};
use super::runs::{Answer, Asked, Question};
use crate::reproduce::{Cell, Table};

/// The columns of the gain tables, in the published order.
pub(super) const GAIN_COLUMNS: [&str; 4] = ["v1_vs_base", "v1_vs_pin", "v2_vs_base", "v2_vs_pin"];

/// All tables. Called twice: see [`Asked`].
pub(super) fn all(published: &Published, asked: &mut Asked) -> Vec<Table> {
    let mut tables = vec![pvflush(published, asked, true), pvflush(published, asked, false)];
    for gains in &published.gains {
        tables.push(gain_table(gains, asked));
    }
    tables.push(implied_pin(published, asked));
    tables.push(ple_parameters(published, asked));
    tables.push(ple_switches(published, asked));
    tables.push(yield_on_hlt(published, asked));
    tables.push(flush_wait(published, asked));
    tables.push(counters(published, asked));
    tables
}

fn row(vms: u32) -> String {
    format!("{vms} VMs")
}

/// A VM count as the published table gives it.
fn count(vms: f64) -> u32 {
    [1, 2, 4, 8, 16].into_iter().find(|n| (f64::from(*n) - vms).abs() < 0.5).unwrap_or(1)
}

/// The fitted table, and the strategies that nobody had measured then. Unstaggered, nothing is published.
fn pvflush(published: &Published, asked: &mut Asked, staggered: bool) -> Table {
    let machine = &published.rates.machine;
    let mut cells = Vec::new();
    for line in &published.rates.ebizzy {
        let [vms, base, gang, pv_flush] = *line;
        let vms = count(vms);
        let mut ask = |mode: Mode, halt_once| {
            asked.ask(Question { staggered, halt_once, ..Question::of(machine, mode.axes(), vms) })
        };
        let known = |figure: f64| staggered.then_some(figure);
        let posted = ask(Mode::HaltKick, true);
        for (column, figure, answer) in [
            ("base", known(base), ask(Mode::Base, false)),
            ("gang", known(gang), ask(Mode::Gang, false)),
            ("pv_flush", known(pv_flush), posted),
            ("halt-kick", None, ask(Mode::HaltKick, false)),
            ("on-enter", None, ask(Mode::OnEnter, false)),
            ("pvflush", None, ask(Mode::PvFlush, false)),
        ] {
            cells.push(Cell::new(&row(vms), column, figure, answer.rate));
        }
        cells.push(Cell::new(&row(vms), "pv_flush_stale_reads", None, posted.stale_reads));
    }
    let title = "ebizzy records/s, mean per VM";
    let posted =
        "pv_flush is halt-kick as posted: one halt, no second look. It is unsafe; its stale reads are counted.";
    if staggered {
        let fitted =
            "FITTED: base, gang and pv_flush, these nine numbers and nothing else; VM starts 6 % of a run apart.";
        Table::new(&published.rates.id, title, &[fitted, posted], cells)
    } else {
        let note = "All VMs start together: what a longer run would settle at. Nothing is published for it.";
        Table::new(&format!("{}-steady", published.rates.id), title, &[note, posted], cells)
    }
}

/// The axes of a published column on a machine: with pause-loop exiting every column ran with it.
fn column_axes(machine: &str, policy: HostPolicy, pin: bool) -> Axes {
    let ple = machine == "ple";
    let host_policy = match (policy, ple) {
        (HostPolicy::Cfs, true) => HostPolicy::Ple,
        (HostPolicy::Gang, true) => HostPolicy::GangPle,
        (HostPolicy::GangNext, true) => HostPolicy::GangNextPle,
        (policy, _) => policy,
    };
    let spin = if ple { Spin::Ple } else { Spin::Busy };
    Axes { host_policy, flush: Flush::Ipi, spin, pin }
}

/// The workloads of the gain tables: the one that everything else is about, then the others.
pub(super) const WORKLOADS: [Workload; 5] =
    [Workload::Ebizzy, Workload::Kernbench, Workload::Specjbb, Workload::Hackbench, Workload::Dbench];

/// Published in seconds, of which fewer are better: `100 (old - new) / old`, and a time is what a rate divides.
const TIMED: [Workload; 2] = [Workload::Hackbench, Workload::Kernbench];

/// A row of a gain table.
pub(super) fn gain_row(workload: Workload, vms: u32) -> String {
    format!("{workload}, {vms} VMs")
}

fn gain(workload: Workload, new: Answer, old: Answer) -> f64 {
    match (TIMED.contains(&workload), new.rate > 0.0, old.rate > 0.0) {
        (false, _, true) => 100.0 * (new.rate - old.rate) / old.rate,
        (true, true, _) => 100.0 * (1.0 - old.rate / new.rate),
        _ => 0.0,
    }
}

fn gain_table(gains: &Gains, asked: &mut Asked) -> Table {
    let mut cells = Vec::new();
    for workload in WORKLOADS {
        for line in gains.rows.get(&workload).into_iter().flatten() {
            let vms = count(line[0]);
            let mut ask = |policy, pin| {
                let axes = column_axes(&gains.machine, policy, pin);
                asked.ask(Question { workload, ..Question::of(&gains.machine, axes, vms) })
            };
            let [base, pin] = [ask(HostPolicy::Cfs, false), ask(HostPolicy::Cfs, true)];
            let [v1, v2] = [ask(HostPolicy::GangNext, true), ask(HostPolicy::Gang, true)];
            for (i, (new, old)) in [(v1, base), (v1, pin), (v2, base), (v2, pin)].into_iter().enumerate() {
                let (row, column) = (gain_row(workload, vms), GAIN_COLUMNS[i].to_owned());
                let ours = Some(gain(workload, new, old));
                cells.push(Cell { row, column, published: Some(line[i + 1]), ours, ratio: None });
            }
        }
    }
    let mut notes = vec!["Gains in per cent, positive is better. Not fitted."];
    if gains.machine == "ple" {
        notes.push(
            "Every column runs with PLE: base is the mode ple, V1 is gang-next-ple, V2 is gang-ple, pin is ple, pinned.",
        );
    }
    table_of(gains, &notes, cells)
}

fn table_of(gains: &Gains, notes: &[&str], cells: Vec<Cell>) -> Table {
    Table::new(&gains.id, "gain of gang scheduling, V1 and V2, against base and against pinned vCPUs", notes, cells)
}

/// What the gain tables imply without saying it: (1 + V2/base) / (1 + V2/pin).
fn implied_pin(published: &Published, asked: &mut Asked) -> Table {
    let mut cells = Vec::new();
    for gains in &published.gains {
        for line in gains.rows.get(&Workload::Ebizzy).into_iter().flatten() {
            let vms = count(line[0]);
            let implied = (1.0 + line[3] / 100.0) / (1.0 + line[4] / 100.0);
            let mut ask = |pin| {
                let axes = column_axes(&gains.machine, HostPolicy::Cfs, pin);
                asked.ask(Question::of(&gains.machine, axes, vms)).rate
            };
            let (base, pin) = (ask(false), ask(true));
            let ours = if base > 0.0 { pin / base } else { 0.0 };
            cells.push(Cell::new(&row(vms), &gains.machine, Some(implied), ours));
        }
    }
    Table::new("implied-pin", "ebizzy, pinned over base", &["Implied by the gain tables. Not fitted."], cells)
}

fn ple_parameters(published: &Published, asked: &mut Asked) -> Table {
    let p = &published.ple_parameters;
    let mut cells = Vec::new();
    for line in &p.rows {
        let question = Question {
            ple_gap: line.ple_gap,
            ple_window: line.ple_window,
            ..Question::of(&p.machine, Mode::Ple.axes(), p.vms)
        };
        let answer = asked.ask(question);
        let row = format!("gap {} window {}", line.ple_gap, line.ple_window);
        cells.push(Cell::new(&row, "ebizzy_rec_s", Some(line.rec_s), answer.rate));
        cells.push(Cell::new(&row, "pause_exits", Some(line.pause_exits), answer.pause_exits_per_s * p.seconds));
    }
    let notes = [
        "Base with PLE, 8 VMs; exits are given for the 60 s of the published runs.",
        "pause_gap was computed from the exits of the first row and the published profile; the other rows are checks.",
    ];
    Table::new(&p.id, "ebizzy records/s and pause-loop exits", &notes, cells)
}

/// What later kernels changed about who receives a directed yield, one switch at a time. Nothing is published for it.
fn ple_switches(published: &Published, asked: &mut Asked) -> Table {
    let p = &published.ple_parameters;
    let none = PleSwitches::default();
    let mut cells = Vec::new();
    for (row, ple) in [
        ("3.2", none),
        ("a spinner receives every second time (3.7)", PleSwitches { dy_eligible: true, ..none }),
        ("only the preempted receive (3.10)", PleSwitches { preempted_only: true, ..none }),
        ("CFS cannot refuse (2021)", PleSwitches { strict_boost: true, ..none }),
    ] {
        let answer = asked.ask(Question { ple, ..Question::of(&p.machine, Mode::Ple.axes(), p.vms) });
        for (column, ours) in [
            ("ebizzy_rec_s", answer.rate),
            ("pause_exits", answer.pause_exits_per_s * p.seconds),
            ("yields", answer.yields_per_s * p.seconds),
            ("flush_wait_percent", 100.0 * answer.flush_wait),
        ] {
            cells.push(Cell::new(row, column, None, ours));
        }
    }
    let note = "Base with PLE, 8 VMs, counts for 60 s. All other tables are those of 3.2.";
    Table::new("ple-switches", "ebizzy, directed yield as in 3.2 and as later kernels changed it", &[note], cells)
}

fn yield_on_hlt(published: &Published, asked: &mut Asked) -> Table {
    let y = &published.yield_on_hlt;
    let mut ask =
        |yield_on_hlt| asked.ask(Question { yield_on_hlt, ..Question::of(&y.machine, Mode::Gang.axes(), y.vms) }).rate;
    let [on, off] = [ask(true), ask(false)];
    let ours = if on > 0.0 { off / on } else { 0.0 };
    let cells = vec![Cell::new(&row(y.vms), "off_over_on", Some(y.off / y.on), ours)];
    Table::new(
        &y.id,
        "ebizzy under gang, yield_on_hlt = 0 over 1",
        &["Only the ratio is comparable. Not fitted."],
        cells,
    )
}

fn flush_wait(published: &Published, asked: &mut Asked) -> Table {
    let mut cells = Vec::new();
    for line in &published.flush_wait {
        for (policy, column, figure) in [(HostPolicy::Cfs, "base", line.base), (HostPolicy::Gang, "gang", line.gang)] {
            let pin = policy == HostPolicy::Gang;
            let answer = asked.ask(Question::of(&line.machine, column_axes(&line.machine, policy, pin), 8));
            cells.push(Cell::new(&line.machine, column, Some(figure), 100.0 * answer.flush_wait));
        }
    }
    let notes =
        ["Per cent of the guest's time, 8 VMs; published as profiles of flush_tlb_others_ipi and bitmap_empty."];
    Table::new("flush-wait", "ebizzy, share of time in the wait for flushes", &notes, cells)
}

/// How often the host is busy with itself: those of which something is published, then ours alone.
fn counters(published: &Published, asked: &mut Asked) -> Table {
    let mut cells = Vec::new();
    for line in published.counters.iter().filter(|line| WORKLOADS.contains(&line.workload)) {
        for (i, policy) in [HostPolicy::Cfs, HostPolicy::Gang].into_iter().enumerate() {
            let axes = column_axes(&line.machine, policy, policy == HostPolicy::Gang);
            let workload = line.workload;
            let answer = asked.ask(Question { workload, ..Question::of(&line.machine, axes, line.vms) });
            let row = format!("{workload}, {} VMs, {} {}", line.vms, line.machine, axes.host_policy);
            let switches = line.switches[i] / line.seconds / 8.0;
            cells.push(Cell::new(&row, "switches_per_s_cpu", Some(switches), answer.switches_per_s));
            cells.push(Cell::new(
                &row,
                "migrations_per_s",
                Some(line.migrations[i] / line.seconds),
                answer.migrations_per_s,
            ));
        }
    }
    for (machine, mode) in [("nonple", Mode::Base), ("nonple", Mode::Gang), ("ple", Mode::Ple), ("ple", Mode::GangPle)]
    {
        let answer = asked.ask(Question::of(machine, mode.axes(), 8));
        let row = format!("ebizzy, 8 VMs, {machine} {mode}");
        let mut alone = |column: &str, ours| {
            cells.push(Cell {
                row: row.clone(),
                column: column.into(),
                published: None,
                ours: Some(ours),
                ratio: None,
            });
        };
        alone("switches_per_s_cpu", answer.switches_per_s);
        alone("migrations_per_s", answer.migrations_per_s);
        alone("exits_per_s", answer.exits_per_s);
    }
    let notes = [
        "The published counts are of the whole host, its other threads included; those of ebizzy are of 32-bit guests.",
        "What specjbb and hackbench counted is not shown: over how long is not published.",
    ];
    Table::new("counters", "switches and migrations of the host, exits of the guests", &notes, cells)
}
