//! What can be asked for: experiment files, machine files, command lines.

use clap::Parser;
use fuzz::{LIST_WORDS, Script, bytes, committed, target, text};
use vmmlab::cli::Cli;
use vmmlab::sweep::{ExperimentFile, Overrides};

/// Short: each option goes through the parser of the command line, which takes the time.
const EXPERIMENT: &str = "name = \"x\"\ntitle = \"t\"\ncaveats = [\"c\"]\n[run]\nmode = [\"base\", \"gang\"]\npin = true\n\
    duration = \"1s\"\nseed = 7\n[axes]\nvms = [2, 4]\nslice = [\"1ms\", \"4ms\"]\n[metrics]\nprimary = [\"records_per_s\"]\n\
    margin_percent = 2\nmargins = { fairness_jain = 1.0 }\n";
const TOML_WORDS: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    "=",
    "\"",
    "\"\"\"",
    "'''",
    "{",
    "}",
    "inf",
    "nan",
    "1979-05-27T07:32:00Z",
    "\\u",
    "#",
    "vms",
    ".",
];

/// Points whose experiment is made from one file: they differ in the values alone.
const POINTS_LOOKED_AT: usize = 4;

fn ask(text: &str) {
    let Ok(file) = ExperimentFile::parse(text) else { return };
    let _ = file.metrics();
    let Ok(points) = file.points(&Overrides::default()) else { return };
    for point in points.iter().take(POINTS_LOOKED_AT) {
        if let Ok(experiment) = point.args.experiment(&[0, 1, 2, 3]) {
            assert!(experiment.plans.iter().all(|plan| plan.validate().is_ok()));
            let _ = (experiment.digest(), experiment.estimate());
        }
    }
}

target!(
    experiment_toml,
    vec![
        EXPERIMENT.as_bytes().to_vec(),
        b"name = \"y\"\n[run]\nengine = \"sim\"\nvms = 3\n[axes]\nblocks = [1, 2]\n".to_vec(),
        b"name = \"z\"\n[run]\nslice = \"1ms\"\n[metrics]\nmargin_percent = 1.5\n".to_vec(),
        committed("experiments/slices.toml").into()
    ],
    |documents, input| ask(&text(documents, TOML_WORDS, input))
);

target!(
    machine_toml,
    vec![committed("experiments/machines/generic.toml").into(), committed("experiments/machines/ple.toml").into()],
    |documents, input| {
        let text = text(documents, TOML_WORDS, input);
        let _ = sim::Machine::from_toml(&text);
    }
);

/// Options and values that the command line of a run is made of.
const OPTIONS: &[&str] = &[
    "--mode",
    "--host-policy",
    "--flush",
    "--spin",
    "--pin",
    "--lock",
    "--vms",
    "--vcpus",
    "--pcpus",
    "--duration",
    "--warmup",
    "--blocks",
    "--seed",
    "--engine",
    "--topology",
    "--machine",
    "--stagger",
    "--ple-gap",
    "--sched",
    "--slice",
    "--sched-latency",
    "--sched-min-granularity",
    "--hz",
    "--gang-cpus",
    "--ple-window",
    "--workload",
    "--spin-budget",
    "--chunk-pages",
    "--search-passes",
    "--threads-per-vcpu",
    "--param",
    "--inject",
    "--format",
    "--cgroup",
    "--dry-run",
    "--window",
    "--trace",
    "--shard",
    "--jobs",
    "--ignore",
    "--metric",
];
const VALUES: &[&str] = &[
    "base,gang",
    "base+flush=on-enter",
    "gang-next+pin=no+sched=host",
    "cfs",
    "pvflush",
    "halt",
    "yes",
    "ticket",
    "2",
    "8",
    "0-3",
    "1s",
    "4ms",
    "100us",
    "0ns",
    "1e3s",
    "auto",
    "sim",
    "1s:8c",
    "generic",
    "ebizzy",
    "flush",
    "chunk_pages=4",
    "lost-flush",
    "json",
    "lab",
    "host",
    "1..2",
    "10ms..20ms",
    "1/2",
    "18446744073709551615",
    "-1",
    "",
    "=",
    ",",
    "99999999999d",
];

/// Words of a command line: names, values, damaged values, anything.
fn command(input: &[u8]) -> Vec<String> {
    let mut script = Script::new(input);
    let mut words =
        vec!["vmmlab".to_owned(), (*script.pick(&["run", "run", "sweep", "compare", "report", "trace"])).to_owned()];
    for _ in 0..=script.below(8) {
        let value = match script.byte() % 4 {
            0 => String::from_utf8_lossy(script.bytes(12)).into_owned(),
            1 => text(&bytes(VALUES), LIST_WORDS, script.bytes(24)),
            _ => (*script.pick(VALUES)).to_owned(),
        };
        words.push(format!("{}={value}", script.pick(OPTIONS)));
    }
    words
}

target!(plan_options, (), |_state, input| {
    match Cli::try_parse_from(command(input)) {
        Ok(Cli { command: vmmlab::cli::Command::Run(args), .. }) => {
            if let Ok(experiment) = args.experiment(&[0, 1, 2, 3, 4, 5, 6, 7]) {
                assert!(experiment.plans.iter().all(|plan| plan.validate().is_ok()));
                let _ = (experiment.digest(), experiment.estimate(), experiment.block(0), experiment.block(1));
            }
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
