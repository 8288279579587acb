//! `docs/comparing.md` is executed: its commands run in their order, in one directory.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

#[test]
fn the_commands_of_the_page_run_as_they_stand() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/comparing.md")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let (mut shell, mut count) = (false, 0);
    for line in page.lines() {
        if line.starts_with("```") {
            shell = line == "```sh";
        }
        let command = line.split(" #").next().unwrap_or_default().trim();
        let Some(arguments) = command.strip_prefix("vmmlab ").filter(|_| shell) else { continue };
        let output = Command::cargo_bin("vmmlab")
            .unwrap()
            .current_dir(scratch.path())
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        // A verdict is not an error.
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{command}: {output:?}");
        assert!(!output.stdout.is_empty(), "{command}: {output:?}");
        if command == "vmmlab compare old new" {
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!((output.status.code(), text.matches("IDENTICAL").count()), (Some(0), 2), "{text}");
        }
        count += 1;
    }
    assert!(count >= 10, "only {count} commands were found");
}
