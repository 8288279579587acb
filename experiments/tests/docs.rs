//! The manual is tested: commands in it are run, tables in it are those of the program.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use plan::{Mode, metric};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The arguments of every `vmmlab ...` and `cargo run --release -- ...` in a fenced block of a page.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in page.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let line = line.split(" #").next().unwrap_or_default().trim();
        let arguments = line.strip_prefix("vmmlab ").or_else(|| line.strip_prefix("cargo run --release -- "));
        if let (true, Some(arguments)) = (fenced, arguments) {
            found.push(arguments.split_whitespace().map(str::to_owned).collect());
        }
    }
    found
}

#[test]
fn every_command_of_the_manual_is_one_that_the_program_takes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut count = 0;
    for page in ["README.md", "docs/modes.md", "docs/statistics.md", "docs/results.md"] {
        for arguments in commands(&read(page)) {
            // What runs guests is only planned, what changes the host is only parsed.
            let more = match arguments[0].as_str() {
                "run" if !arguments.iter().any(|word| word == "--dry-run") => "--dry-run",
                "gang" => "--help",
                _ => "--color=never",
            };
            let output = Command::cargo_bin("vmmlab")
                .unwrap()
                .current_dir(scratch.path())
                .args(&arguments)
                .arg(more)
                .output()
                .unwrap();
            // doctor answers 4 where there is no KVM.
            assert!(matches!(output.status.code(), Some(0 | 4)), "{page}: {arguments:?}: {output:?}");
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} commands were found in the manual");
}

#[test]
fn the_manual_has_every_mode_with_its_axes() {
    let page = read("docs/modes.md");
    for mode in Mode::ALL {
        let axes = mode.axes();
        let vcpus = if axes.pin { "pinned" } else { "free" };
        let row = format!("| `{mode}` | `{}` | `{}` | `{}` | {vcpus} |", axes.host_policy, axes.flush, axes.spin);
        assert!(page.contains(&row), "docs/modes.md lacks: {row}");
    }
}

#[test]
fn the_manual_has_every_counter_and_histogram() {
    let page = read("docs/results.md");
    for metric in metric::COUNTERS.iter().chain(metric::HISTOGRAMS) {
        let row = format!("| `{}` | {} | {} |", metric.id, metric.unit, metric.text.trim());
        assert!(page.contains(&row), "docs/results.md lacks: {row}");
    }
}
