//! The committed pages of `vmmlab reproduce gang-cfs` are what the program would make, or a test says how to make them anew.
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use vmmlab::reproduce::Committed;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn file() -> (Committed, Value) {
    let text = fs::read_to_string(root().join(Committed::PATH)).unwrap();
    (serde_json::from_str(&text).unwrap(), serde_json::from_str(&text).unwrap())
}

#[test]
fn the_committed_pages_are_those_of_the_model_as_it_is() {
    let (committed, _) = file();
    let again = &committed.again;
    let texts: Vec<(&str, String)> =
        committed.pages.keys().map(|path| (&**path, fs::read_to_string(root().join(path)).unwrap())).collect();
    let pages: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, &**text)).collect();
    let now = Committed::now(&pages).unwrap();
    assert_eq!(now.pages, committed.pages, "a page was changed by hand: {again}");
    for (name, value) in &committed.settings {
        assert_eq!(now.settings.get(name), Some(value), "'{name}' has changed since the pages were made: {again}");
    }
    for (i, (now, then)) in now.canary.iter().zip(&committed.canary).enumerate() {
        // base at few VMs is metastable: a second of it says less.
        let margin = if i < 3 { 0.25 } else { 0.05 };
        assert!((now / then - 1.0).abs() <= margin, "headline number {i} is {now}, it was {then}: {again}");
    }
}

#[test]
fn the_committed_numbers_show_what_was_published() {
    let (_, file) = file();
    let reproduction = &file["reproduction"];
    assert_eq!(reproduction["protocol"], "full");
    let page = fs::read_to_string(root().join("docs/gang-cfs.md")).unwrap();
    for table in reproduction["tables"].as_array().unwrap() {
        let id = table["id"].as_str().unwrap();
        assert!(page.contains(&format!("## {id}\n")), "{id} is not on the page");
    }
    let cells = reproduction["tables"][0]["cells"].as_array().unwrap();
    assert_eq!((&cells[0]["column"], &cells[0]["published"]), (&"base".into(), &3979.5.into()));
    assert!(reproduction["score"]["signs_all"].as_u64().unwrap() >= 18);
}
