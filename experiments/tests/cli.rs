//! The command line as a user meets it: the binary, its two streams, its exit code.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use clap::CommandFactory;
use vmmlab::cli::Cli;

fn vmmlab(directory: &Path, arguments: &[&str]) -> Output {
    Command::cargo_bin("vmmlab").unwrap().current_dir(directory).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A CPU that no machine of these tests has.
const NO_SUCH_CPU: &str = "8191";

#[test]
fn what_cannot_be_simulated_is_refused_before_anything_is_written() {
    let root = tempfile::tempdir().unwrap();
    for (words, said) in [
        ("--workload gup", "workload gup walks real page tables: it needs --engine kvm"),
        ("--fault 1ms:cpu-off=99", "--fault 1ms:cpu-off=99 happens to nothing: there is no CPU 99 among 8, from 0"),
        ("--fault 1ms:vcpu-killed=1.8", "there is no vCPU 8 among 8, from 0"),
        ("--fault 1ms:group-gone=2", "there is no VM 2 among 2, from 0"),
    ] {
        let words = format!("run --engine sim --vms 2 --blocks 1 {words}");
        let output = vmmlab(root.path(), &words.split_whitespace().collect::<Vec<_>>());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {error}");
        assert!(error.contains(said), "{words}: {error}");
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn bad_input_is_answered_on_stderr_with_exit_code_2_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let occupied = root.path().join("occupied");
    fs::create_dir(&occupied).unwrap();
    fs::write(occupied.join("file"), "x").unwrap();
    for (arguments, wants) in [
        (&["--vms", "0"][..], &["--vms 0", "1 to 256"][..]),
        (&["--vms", "1000000"], &["--vms 1000000", "1 to 256"]),
        (&["--vcpus", "65"], &["--vcpus 65", "1 to 64"]),
        (&["--vcpus", "many"], &["'many' for '--vcpus", "whole number"]),
        (&["--blocks", "0"], &["--blocks 0", "1 to 1000"]),
        (&["--pcpus", NO_SUCH_CPU], &["--pcpus 8191: CPU 8191 is not there", "it may use CPUs"]),
        (&["--pcpus", "0,0"], &["'0,0'", "position 3"]),
        (&["--mode", "pvflsh"], &["'pvflsh'", "did you mean 'pvflush'?"]),
        (&["--mode", ""], &["''", "base, pin, gang-next"]),
        (&["--duration", "100ms"], &["--duration 100ms", "--warmup of 500ms"]),
        (&["--duration", "0s", "--warmup", "0s"], &["--duration 0ns", "1ms to 24h"]),
        (&["--out", "/proc/vmmlab/x"], &["--out /proc/vmmlab/x", "name a new directory"]),
        (&["--out", "occupied"], &["--out occupied", "exists and is not empty", "name a new directory"]),
        (&["--flush", "ipi", "--spin", "halt"], &["--flush ipi", "--spin halt", "'busy' or 'ple'"]),
        (&["--hz", "0"], &["--hz 0", "10 to 10000"]),
        (&["--nonsense"], &["--nonsense"]),
    ] {
        let output = vmmlab(root.path(), &[&["run"], arguments].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(wants.iter().all(|want| stderr.contains(want)), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["occupied"]);
}

#[test]
fn a_limit_that_is_too_low_is_named_with_the_way_to_raise_it() {
    let root = tempfile::tempdir().unwrap();
    let script = format!("ulimit -n 100; exec '{}' run --vms 8 --vcpus 8", env!("CARGO_BIN_EXE_vmmlab"));
    let output = Command::new("sh").current_dir(root.path()).args(["-c", &script]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("--vms 8 x --vcpus 8 need about 152 open files") && stderr.contains("ulimit -n"),
        "{stderr}"
    );
}

/// The names of all commands.
fn commands() -> Vec<String> {
    Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn short_help_is_one_screen_and_long_help_has_examples_defaults_and_ranges() {
    let root = tempfile::tempdir().unwrap();
    let help = |arguments: &[&str]| {
        let output = vmmlab(root.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let help = text(&output.stdout);
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{arguments:?}: {line}");
        }
        help
    };
    assert!(help(&["-h"]).lines().count() <= 40);
    for command in commands() {
        let short = help(&[&command, "-h"]);
        assert!(short.lines().count() <= 40, "{command}: {} lines\n{short}", short.lines().count());
        let long = help(&[&command, "--help"]);
        assert!(long.len() >= short.len(), "{command}");
    }
    for command in ["run", "sweep", "merge", "completions", "man"] {
        assert!(help(&[command, "--help"]).contains("\nExamples:\n"), "{command}");
    }
    let run = help(&["run", "--help"]);
    assert!(run.contains("[1 to 256]") && run.contains("[default: 500ms]"), "{run}");
}

#[test]
fn progress_is_a_bar_on_a_terminal_and_is_gone_before_the_result() {
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped progress_is_a_bar_on_a_terminal_and_is_gone_before_the_result: no script(1)");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let run = format!(
        "'{}' run --engine sim --topology 1s:2c --vms 1 --vcpus 2 --mode base,gang --duration 20ms --warmup 5ms \
         --blocks 3 --seed 3 --color never",
        env!("CARGO_BIN_EXE_vmmlab")
    );
    let mut command = Command::new("script");
    let output = command.current_dir(root.path()).args(["-qec", &run, "/dev/null"]).output().unwrap();
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert!(page.contains("] 0/6 runs") && !page.contains("] block 0: "), "{page:?}");
    // The result comes after the bar has been cleared, and without colours.
    let result = page.rsplit("\x1b[2K").next().unwrap();
    assert!(result.contains("records/s") && result.contains("again") && !result.contains('\x1b'), "{page:?}");
}

#[test]
fn the_examples_of_the_help_are_plans_that_can_be_made() {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_MANIFEST_DIR"), root.path().join("experiments")).unwrap();
    for (command, least) in [("run", 5), ("sweep", 3)] {
        let help = text(&vmmlab(root.path(), &[command, "--help"]).stdout);
        let prefix = format!("vmmlab {command} ");
        let examples = help.lines().filter_map(|line| line.trim().strip_prefix(&prefix));
        // What is resumed is there already, and has its plan.
        let examples: Vec<&str> = examples.filter(|example| !example.contains("--resume")).collect();
        assert!(examples.len() >= least, "{help}");
        for example in examples {
            let arguments: Vec<&str> = [command, "--dry-run"].into_iter().chain(example.split(' ')).collect();
            let output = vmmlab(root.path(), &arguments);
            assert_eq!(output.status.code(), Some(0), "{example}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn completions_and_man_pages_know_every_command() {
    let root = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = vmmlab(root.path(), &["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        for word in commands().iter().map(String::as_str).chain(["flush-per-mille", "resume"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(vmmlab(root.path(), &["man", "a/man1"]).status.code(), Some(0));
    for command in commands() {
        let page = fs::read_to_string(root.path().join(format!("a/man1/vmmlab-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let output = vmmlab(root.path(), &["man", "/proc/none"]);
    assert!(output.status.code() != Some(0) && text(&output.stderr).contains("/proc/none"));
}

#[test]
fn progress_is_one_line_a_block_on_stderr_and_stdout_is_the_result_alone() {
    let root = tempfile::tempdir().unwrap();
    let arguments = "run --engine sim --topology 1s:2c --vms 1 --vcpus 2 --mode base,gang --duration 20ms --warmup 5ms \
                     --blocks 3 --seed 3 --format json";
    let mut command = Command::cargo_bin("vmmlab").unwrap();
    let output = command.current_dir(root.path()).args(arguments.split_whitespace()).output().unwrap();
    let stderr = text(&output.stderr);
    let lines: Vec<&str> = stderr.lines().filter(|line| line.contains("] block ")).collect();
    assert_eq!(lines.len(), 3, "{stderr}");
    assert!(
        lines[2].starts_with("[3/3] ") && lines[2].contains("base ") && lines[2].contains(" records/s"),
        "{stderr}"
    );
    assert!(!stderr.contains('\x1b') && !stderr.contains('\r'), "{stderr:?}");
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
}

#[test]
fn a_dry_run_says_the_order_the_time_and_the_seed_and_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let output = vmmlab(root.path(), &["run", "--dry-run", "--mode", "base,gang", "--blocks", "2", "--seed", "7"]);
    let page = text(&output.stdout);
    assert!(page.contains("2 modes x 2 blocks, about 15s; seed 7"), "{page}");
    assert!(page.contains("block 0: base gang\nblock 1: gang base\n"), "{page}");
    assert!(page.ends_with("again    vmmlab run --mode base,gang --blocks 2 --seed 7\n"), "{page}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn the_lists_name_every_mode_and_workload() {
    let root = tempfile::tempdir().unwrap();
    let page = text(&vmmlab(root.path(), &["list"]).stdout);
    for name in plan::Mode::ALL.iter().map(|m| m.name()).chain(plan::Workload::ALL.iter().map(|w| w.name())) {
        assert!(page.contains(&format!("\n  {name} ")), "{name}: {page}");
    }
    let machines: Vec<&str> = vmmlab::simulator::names().collect();
    let presets: Vec<&str> = hostsched::topology::PRESETS.iter().map(|preset| preset.name).collect();
    for name in machines.iter().chain(&presets) {
        assert!(page.contains(&format!("\n  {name} ")), "{name}: {page}");
        let kind = if presets.contains(name) { "--topology" } else { "--machine" };
        let output = vmmlab(root.path(), &["run", "--engine", "sim", kind, name, "--vms", "1", "--dry-run"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
    }
    for line in page.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn doctor_answers_with_0_or_4_and_names_each_topic() {
    let root = tempfile::tempdir().unwrap();
    let output = vmmlab(root.path(), &["doctor", "--format", "json"]);
    assert!(matches!(output.status.code(), Some(0 | 4)));
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let topics: Vec<&str> = findings.iter().filter_map(|f| f["topic"].as_str()).collect();
    assert_eq!(topics, ["host", "CPUs", "KVM", "kernel", "PLE", "cgroups", "files", "signals", "noise"]);
    let page = text(&vmmlab(root.path(), &["doctor"]).stdout);
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn the_simulator_gives_the_same_bytes_again() {
    let root = tempfile::tempdir().unwrap();
    let run = |out: &str| {
        let args = "run --engine sim --topology 1s:4c --vms 2 --vcpus 4 --mode base,pvflush --duration 100ms --warmup 10ms \
                    --blocks 1 --seed 3 --out";
        let output = vmmlab(root.path(), &args.split_whitespace().chain([out]).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        fs::read(root.path().join(out).join("blocks/0000.json")).unwrap()
    };
    assert_eq!(run("a"), run("b"));
}

#[test]
fn a_topology_is_for_the_simulator_and_must_be_one() {
    let root = tempfile::tempdir().unwrap();
    for (args, why) in [
        (["run", "--engine", "kvm", "--topology", "1s:2c"], "add --engine sim"),
        (["run", "--engine", "sim", "--topology", "1s:x"], "--topology"),
    ] {
        let output = vmmlab(root.path(), &args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "no run directory is left");
}

#[test]
fn a_gang_must_be_a_cgroup() {
    let root = tempfile::tempdir().unwrap();
    let output = vmmlab(root.path(), &["gang", "set", ".", "on"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no cgroup v2 directory"));
}
