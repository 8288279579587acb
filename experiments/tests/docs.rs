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

/// The text of every fenced block of shell commands.
fn scripts(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    for line in page.lines() {
        match (&mut block, line) {
            (None, "```sh") => block = Some(String::new()),
            (Some(_), "```") => found.extend(block.take()),
            (Some(text), line) => text.extend([line, "\n"]),
            (None, _) => {}
        }
    }
    found
}

/// Runs a script of the manual with our program in its path.
fn bash(directory: &Path, script: &str) {
    let binary = Path::new(env!("CARGO_BIN_EXE_vmmlab")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.current_dir(directory).env("PATH", path).args(["-euo", "pipefail", "-c", script]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_guide_works_as_written_from_top_to_bottom() {
    let scratch = tempfile::tempdir().unwrap();
    let scripts = scripts(&read("docs/guide.md"));
    assert!(scripts.len() >= 10, "{} scripts", scripts.len());
    for script in scripts {
        bash(scratch.path(), &script);
    }
}

#[test]
fn files_that_the_manual_names_are_there() {
    for page in ["README.md", "docs/guide.md", "docs/sweeps.md", "docs/results.md"] {
        for name in read(page).split('`').skip(1).step_by(2) {
            let is_path = name.contains('/')
                && ["docs/", "plan/", "sim/", "vmm/", "guest/", "experiments/", "results/"]
                    .iter()
                    .any(|top| name.starts_with(top));
            assert!(!is_path || name.contains(char::is_whitespace) || root().join(name).exists(), "{page}: {name}");
        }
    }
}

/// The scripts of the manual of sweeps that need no cluster: those that name a file of the repository.
#[test]
fn the_manual_of_sweeps_works_as_written() {
    let scratch = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("experiments"), scratch.path().join("experiments")).unwrap();
    let page = read("docs/sweeps.md");
    let scripts: Vec<_> = scripts(&page).into_iter().filter(|script| script.contains("experiments/")).collect();
    assert_eq!(scripts.len(), 2);
    for script in scripts {
        bash(scratch.path(), &script);
    }
    let start = page.find("```toml\n").unwrap() + 8;
    let file = &page[start..start + page[start..].find("```").unwrap()];
    fs::write(scratch.path().join("x.toml"), file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmmlab"));
    let output = command.current_dir(scratch.path()).args(["sweep", "x.toml", "--dry-run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_command_of_the_manual_is_one_that_the_program_takes() {
    let scratch = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("experiments"), scratch.path().join("experiments")).unwrap();
    let mut count = 0;
    for page in ["README.md", "docs/modes.md", "docs/statistics.md", "docs/results.md", "docs/tracing.md"] {
        for arguments in commands(&read(page)) {
            // What runs guests is only planned; what takes long, changes the host or needs files is only looked up.
            let more = match arguments[0].as_str() {
                "run" | "sweep" if !arguments.iter().any(|word| word == "--dry-run") => "--dry-run",
                "run" | "sweep" | "doctor" | "list" | "topology" => "--color=never",
                _ => "--help",
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
