//! From a result to the sections of its page. Those with drawings of their own are made elsewhere: `comparison`,
//! `latency`, `guest_time`, `schedule`.

use std::collections::BTreeMap;

use plan::RunStatus;
use plan::metric::{Family, METRICS};

use super::page::{Block, Cell, Ids, Page, Section, Table};
use super::source::Measured;
use super::{caveats, comparison, guest_time, latency};
use crate::compare::{self, CompareError, Comparison, Request};
use crate::result::{ResultFile, RowSummary};
use crate::table::words;
use crate::table::{self, figure, notes};
use stats::BLOCKS_MIN;

/// The page of a measured result.
pub(super) fn page(measured: &Measured, schedule: Section) -> Page {
    let result = &measured.result;
    let mut ids = Ids::default();
    let compared = compare::compare(&[("", result)], &Request::default());
    let asked = table::asked(result);
    let lede = asked.iter().find(|(key, _)| *key == "run").map_or_else(|| "No plans.".into(), |(_, text)| text.clone());
    Page {
        title: title(result),
        lede: format!("{lede}; begun {}.", result.started),
        alarms: alarms(result),
        sections: vec![
            Section { id: "verdict", heading: "Verdict", blocks: verdict(result, &compared) },
            Section { id: "forest", heading: "Changes and their intervals", blocks: forests(&compared, &mut ids) },
            Section { id: "latency", heading: "Latency", blocks: latency::section(measured, &mut ids) },
            Section {
                id: "profile",
                heading: "Where the guests' time went",
                blocks: guest_time::section(result, &mut ids),
            },
            schedule,
            Section { id: "limits", heading: "What this does not measure", blocks: limits(measured) },
            Section { id: "host", heading: "Host and settings", blocks: host(measured) },
            Section { id: "again", heading: "How to reproduce it", blocks: again(result) },
        ],
    }
}

fn title(result: &ResultFile) -> String {
    let modes: Vec<&str> = result.experiment.plans.iter().map(|plan| plan.mode.as_str()).collect();
    let workload = result.experiment.plans.first().map_or("", |plan| plan.workload.name());
    format!("{workload}: {}", modes.join(", "))
}

fn alarms(result: &ResultFile) -> Vec<[String; 2]> {
    let mut alarms = Vec::new();
    for run in result.runs.iter().filter(|run| run.status == RunStatus::Failed) {
        for failure in &run.failures {
            let text = format!("{} block {}: {}: {}", run.mode, run.block, failure.check, failure.message);
            alarms.push(["FAILED".into(), text]);
        }
    }
    let planned = result.experiment.plans.len() as u64 * u64::from(result.experiment.blocks);
    let whole = result.runs.iter().filter(|run| run.status != RunStatus::Partial).count() as u64;
    if whole < planned {
        let text = format!("Stopped before its end: {whole} of {planned} runs are whole and are shown.");
        alarms.push(["PARTIAL".into(), text]);
    }
    alarms
}

type Compared = Result<Comparison, CompareError>;

fn forests(compared: &Compared, ids: &mut Ids) -> Vec<Block> {
    compared.as_ref().map_or_else(|_| Vec::new(), |compared| comparison::forests(compared, ids))
}

fn verdict(result: &ResultFile, compared: &Compared) -> Vec<Block> {
    let row = |row: &RowSummary| {
        let change = match &row.change {
            Some(change) => format!("{} %", figure::signed(change.percent)),
            None if result.experiment.reference(&row.mode) == Some(&row.mode) => "reference".into(),
            None => figure::MISSING.into(),
        };
        let interval = row.change.as_ref().and_then(|change| change.interval_percent);
        vec![
            Cell::words(&row.mode),
            Cell::maybe(row.records_per_s.map(figure::rate)),
            Cell::figure(change),
            Cell::maybe(interval.map(|[low, high]| format!("[{}, {}] %", figure::signed(low), figure::signed(high)))),
            Cell::figure(row.blocks.to_string()),
            comparison::word(row.change.as_ref().and_then(|change| change.verdict)),
        ]
    };
    let records = result.experiment.plans.first().map_or("records", |plan| plan.workload.about().records);
    let rate = format!("{records}/s");
    let head = [rate.as_str(), "change", "interval", "blocks"].map(Cell::figure);
    let mut blocks = vec![Block::Table(Table {
        caption: format!(
            "{} per second, all VMs together: median over the blocks, and the paired change",
            capital(records)
        ),
        head: [Cell::words("mode")].into_iter().chain(head).chain([Cell::words("verdict")]).collect(),
        rows: result.summary.iter().map(row).collect(),
    })];
    match compared {
        Ok(compared) => {
            blocks.extend(comparison::verdicts(compared));
            blocks.extend((!compared.notices.is_empty()).then(|| Block::Notes(compared.notices.clone())));
        }
        Err(_) if result.summary.len() < 2 => blocks.push(Block::Text(comparison::NOTHING.into())),
        Err(error) => blocks.push(Block::Text(format!("Nothing is compared: {error}."))),
    }
    blocks.extend(scaling(result));
    blocks.extend(medians(result));
    blocks
}

/// How a VM's throughput falls with the number of VMs.
fn scaling(result: &ResultFile) -> Option<Block> {
    let scaling = table::scaling::scaling(result)?;
    let row = |(label, shares): (String, Vec<Option<String>>)| {
        [Cell::words(label)].into_iter().chain(shares.into_iter().map(Cell::maybe)).collect()
    };
    Some(Block::Table(Table {
        caption: format!(
            "{}: median of the ratios in the blocks; the last line is what an even share of the CPUs would give",
            capital(&scaling.title)
        ),
        head: [Cell::words("mode")].into_iter().chain(scaling.head.into_iter().map(Cell::figure)).collect(),
        rows: scaling.rows.into_iter().map(row).collect(),
    }))
}

/// Every metric of the bands COST and WHY as a row, every mode as a column.
fn medians(result: &ResultFile) -> Option<Block> {
    let modes = modes(result);
    let mut rows = Vec::new();
    for metric in METRICS.iter().filter(|metric| metric.family != Family::Primary) {
        let median = |mode: &&str| {
            let values: Vec<f64> = result.good_runs(mode).filter_map(|run| metric.value(run)).collect();
            stats::median(&values)
        };
        let values: Vec<Option<f64>> = modes.iter().map(median).collect();
        if values.iter().any(|value| value.is_some_and(|value| value != 0.0)) {
            let head = [Cell::words(&*metric.title), Cell::words(metric.family.name())];
            rows.push(
                head.into_iter().chain(values.iter().map(|v| Cell::figure(words::value(&metric.unit, *v)))).collect(),
            );
        }
    }
    let head = ["metric", "band"].map(Cell::words);
    (!rows.is_empty()).then(|| {
        Block::Table(Table {
            caption: "What a mode costs and why it is as fast as it is: medians over its blocks (vmmlab list explains the metrics)"
                .into(),
            head: head.into_iter().chain(modes.iter().map(|mode| Cell::figure(*mode))).collect(),
            rows,
        })
    })
}

/// The modes in their order, each once.
pub(super) fn modes(result: &ResultFile) -> Vec<&str> {
    result.summary.iter().map(|row| row.mode.as_str()).collect()
}

/// With a capital first letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn limits(measured: &Measured) -> Vec<Block> {
    let result = &measured.result;
    let mut blocks = vec![Block::Notes(caveats::sentences(result))];
    let remarks = notes::remarks(result);
    if !remarks.is_empty() {
        blocks.push(Block::Heading("What the runs say about themselves".into()));
        blocks.push(Block::Facts(remarks.into_iter().map(|(key, text)| [key.to_owned(), text]).collect()));
    }
    blocks
}

fn host(measured: &Measured) -> Vec<Block> {
    let result = &measured.result;
    let host = &result.host;
    let mut facts: Vec<[String; 2]> =
        table::asked(result).into_iter().map(|(key, text)| [key.to_owned(), text]).collect();
    for (name, value) in [
        ("processor", &host.cpu),
        ("microcode", &host.microcode),
        ("CPUs online", &host.cpus_online),
        ("kernel", &host.kernel),
        ("KVM", &host.kvm),
        ("topology", &host.topology),
        ("guest image, SHA-256", &host.guest_digest),
    ] {
        facts.extend(value.as_ref().map(|value| [name.to_owned(), value.clone()]));
    }
    facts.extend(host.kvm_parameters.iter().map(|(name, value)| [name.clone(), value.clone()]));
    facts.extend(result.versions.iter().map(|(name, version)| [format!("version of {name}"), version.clone()]));
    facts.push(["experiment, SHA-256".into(), result.experiment_digest.clone()]);
    facts.push(["this result, SHA-256".into(), measured.digest.clone()]);
    let mut settings: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (name, value) in result.runs.iter().flat_map(|run| &run.settings) {
        let values = settings.entry(name).or_default();
        if !values.contains(value) {
            values.push(*value);
        }
    }
    let mut blocks = vec![Block::Facts(facts)];
    if !settings.is_empty() {
        let show = |values: &[u64]| {
            let values: Vec<String> = values.iter().map(|value| figure::grouped(&value.to_string())).collect();
            values.join(" or ")
        };
        blocks.push(Block::Heading("Settings in force".into()));
        blocks.push(Block::Text("As the engine reports them; names that end in _ns are nanoseconds.".into()));
        blocks.push(Block::Compact(settings.iter().map(|(name, v)| [(*name).to_owned(), show(v)]).collect()));
    }
    blocks
}

fn again(result: &ResultFile) -> Vec<Block> {
    let mut blocks = vec![Block::Command(result.command.clone())];
    let same = if result.engine == "sim" {
        "The simulator gives the same figures again, on every machine."
    } else {
        "On the same host the figures come out alike, within their intervals; the seed fixes the order of the runs and all that \
         is drawn at random."
    };
    blocks.push(Block::Text(same.into()));
    let fewest = result.summary.iter().map(|row| row.blocks).min().unwrap_or(0);
    if fewest < BLOCKS_MIN {
        blocks.push(Block::Text(format!("With --blocks {BLOCKS_MIN} or more there would be intervals.")));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use plan::{Mode, RunRecord};
    use proptest::prelude::*;

    use super::super::histograms::Latencies;
    use super::*;
    use crate::experiment::tests::sample;
    use crate::host::Fingerprint;

    /// A result in which every text that a file can hold is `text`, or `text` with more behind it.
    fn page_of(text: &str) -> String {
        let mut experiment = sample(&[Mode::Base, Mode::Gang], 6);
        experiment.plans[1].mode = format!("{text}1");
        let mut latencies = Latencies::default();
        let mut runs = Vec::new();
        for block in 0..6 {
            for (at, plan) in experiment.block(block).iter().enumerate() {
                let mut run = RunRecord::empty(plan);
                run.records_per_s = 10.0 + f64::from(block) + f64::from(u32::try_from(at).unwrap());
                run.guest_profile.insert(text.into(), 0.5);
                run.settings.insert(text.into(), 7);
                run.notices.push(text.into());
                let mut waits = hdrhistogram::Histogram::<u64>::new(3).unwrap();
                waits.record_n(1000, 50).unwrap();
                run.histograms.insert(text.into(), plan::HistogramSummary::of(&waits));
                latencies.add(&run);
                runs.push(run);
            }
        }
        runs[0].status = RunStatus::Failed;
        runs[0].failures.push(plan::Failure { check: text.into(), message: text.into() });
        let mut result = ResultFile {
            schema: text.into(),
            status: RunStatus::Ok,
            engine: text.into(),
            seed: 1,
            command: text.into(),
            started: text.into(),
            experiment_digest: text.into(),
            experiment,
            host: Fingerprint {
                cpu: Some(text.into()),
                kvm_parameters: BTreeMap::from([(text.into(), text.into())]),
                ..Fingerprint::default()
            },
            versions: BTreeMap::from([(text.into(), text.into())]),
            runs,
            summary: Vec::new(),
        };
        result.summarize();
        let schedule = Section { id: "schedule", heading: "s", blocks: Vec::new() };
        let measured = Measured { result, digest: text.into(), latencies, gaps: vec![text.into()] };
        super::super::page::html(&page(&measured, schedule)).unwrap()
    }

    /// Everything that could end a text and begin markup.
    fn marks(page: &str) -> [usize; 4] {
        ["<", ">", "\"", "</script"].map(|mark| page.matches(mark).count())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn no_text_of_a_file_leaves_its_place(text in any::<String>()) {
            prop_assert_eq!(marks(&page_of(&text)), marks(&page_of("plain")));
        }

        #[test]
        fn nor_does_one_made_of_markup(pieces in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "\"", "'", "&", "</title>", "</style>", "<script>", "-->", "{{", "{%", "</svg>", "]]>", "&lt;", " ", "\n", "x",
        ]), 0..12)) {
            prop_assert_eq!(marks(&page_of(&pieces.concat())), marks(&page_of("plain")));
        }
    }

    #[test]
    fn equal_results_are_equal_pages() {
        assert_eq!(page_of("a"), page_of("a"));
    }
}
