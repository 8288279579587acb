//! The published schemas are those of the types, and what the program prints satisfies them.
//!
//! `VMMLAB_RENEW=1 cargo test -p vmmlab --test schema` writes the files anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use vmmlab::result::ResultFile;
use vmmlab::schema::PUBLISHED;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema")
}

fn schema(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(directory().join(file)).unwrap()).unwrap()
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    for published in PUBLISHED {
        let path = directory().join(published.file);
        if std::env::var_os("VMMLAB_RENEW").is_some() {
            fs::write(&path, published.text()).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == published.text(), "{} is out of date; VMMLAB_RENEW=1 writes it anew", path.display());
    }
    assert_eq!(fs::read_dir(directory()).unwrap().count(), PUBLISHED.len(), "a file that nothing makes");
}

/// The keywords that our schemas use; another one must not pass unseen.
const ANNOTATIONS: &[&str] = &["$schema", "$defs", "title", "description", "format", "default", "examples"];

/// What is wrong with `value`, by path; a checker for the keywords that schemars makes of our types.
fn faults(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        if schema == &json!(false) {
            found.push(format!("{at}: nothing is allowed here"));
        }
        return;
    };
    let passes = |part: &Value| {
        let mut inner = Vec::new();
        faults(root, part, value, at, &mut inner);
        inner.is_empty()
    };
    let list = |part: &Value| part.as_array().cloned().unwrap_or_default();
    for (keyword, part) in keywords {
        let good = match keyword.as_str() {
            "$ref" => {
                let pointer = part.as_str().unwrap().trim_start_matches('#');
                faults(root, root.pointer(pointer).expect("the reference leads somewhere"), value, at, found);
                true
            }
            "type" => match part {
                Value::Array(types) => types.iter().any(|t| is(value, t.as_str().unwrap())),
                one => is(value, one.as_str().unwrap()),
            },
            "const" => value == part,
            "enum" => list(part).contains(value),
            "anyOf" => list(part).iter().any(passes),
            "oneOf" => list(part).iter().filter(|part| passes(part)).count() == 1,
            "minimum" => value.as_f64().is_none_or(|n| n >= part.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|n| n <= part.as_f64().unwrap()),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= part.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= part.as_u64().unwrap()),
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    faults(root, part, item, &format!("{at}[{i}]"), found);
                }
                true
            }
            "prefixItems" => {
                for (i, (part, item)) in list(part).iter().zip(value.as_array().into_iter().flatten()).enumerate() {
                    faults(root, part, item, &format!("{at}[{i}]"), found);
                }
                true
            }
            "required" => {
                let lacks = |name: &Value| value.is_object() && value.get(name.as_str().unwrap()).is_none();
                found.extend(list(part).iter().filter(|name| lacks(name)).map(|name| format!("{at} lacks {name}")));
                true
            }
            "properties" => {
                for (name, part) in part.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        faults(root, part, value, &format!("{at}.{name}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = keywords.get("properties").and_then(Value::as_object);
                for (name, value) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|known| !known.contains_key(name)) {
                        faults(root, part, value, &format!("{at}.{name}"), found);
                    }
                }
                true
            }
            other if ANNOTATIONS.contains(&other) => true,
            other => panic!("{at}: the checker does not know the keyword {other}"),
        };
        if !good {
            found.push(format!("{at}: {value} does not satisfy {keyword} {part}"));
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("no such type: {other}"),
    }
}

fn check(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    faults(schema, schema, value, "$", &mut found);
    found
}

/// Runs vmmlab and reads what it prints.
fn json_of(directory: &Path, arguments: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmmlab"));
    let output = command.current_dir(directory).args(arguments.split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const RUN: &str = "run --engine sim --topology 1s:2c --vms 2 --vcpus 2 --mode base,gang,pvflush,ple --blocks 2 \
                   --duration 20ms --warmup 5ms --seed 1 --format json --out out";

#[test]
fn what_is_printed_satisfies_its_schema() {
    let root = tempfile::tempdir().unwrap();
    let result = json_of(root.path(), RUN);
    assert_eq!(check(&schema("vmmlab.result-1.json"), &result), Vec::<String>::new());
    let file = "name = \"x\"\n[run]\nengine = \"sim\"\nmode = [\"base\"]\nblocks = 1\nduration = \"20ms\"\nwarmup = \"5ms\"\n\
                seed = 1\n[axes]\nvms = [1, 2]\n";
    fs::write(root.path().join("x.toml"), file).unwrap();
    let sweep = json_of(root.path(), "sweep x.toml --format json --out sweep");
    assert_eq!(check(&schema("vmmlab.sweep-1.json"), &sweep), Vec::<String>::new());
    let traced = "run --engine sim --topology 1s:2c --vms 1 --vcpus 2 --mode base --blocks 1 --duration 20ms --warmup 5ms --seed 1 \
                  --trace trace.txt --format json --out traced";
    json_of(root.path(), traced);
    let summary = json_of(root.path(), "trace summary trace.txt --format json");
    assert_eq!(check(&schema("vmmlab.trace-summary-1.json"), &summary), Vec::<String>::new());
    let soak = json_of(root.path(), "soak --for 60s --plans 3 --seed 1 --engine sim --format json");
    assert_eq!(check(&schema("vmmlab.soak-1.json"), &soak), Vec::<String>::new());
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let root = tempfile::tempdir().unwrap();
    let schema = schema("vmmlab.result-1.json");
    let good = json_of(root.path(), RUN);
    for (pointer, wrong) in [
        ("/seed", json!("1")),
        ("/seed", json!(-1)),
        ("/status", json!("fine")),
        ("/runs/0/axes/flush", json!("none")),
        ("/runs/1/counters/flushes", json!(1.5)),
        ("/experiment", json!(null)),
        ("/summary/1/change/interval_percent", json!([1])),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).expect(pointer) = wrong;
        assert!(!check(&schema, &bad).is_empty(), "{pointer}");
    }
    let mut bad = good;
    bad.as_object_mut().unwrap().remove("engine");
    assert_eq!(check(&schema, &bad), ["$ lacks \"engine\""]);
}

#[test]
fn a_reader_ignores_what_it_does_not_know() {
    let root = tempfile::tempdir().unwrap();
    let written = json_of(root.path(), RUN);
    let known: ResultFile = serde_json::from_value(written.clone()).unwrap();
    let mut later = written.clone();
    add_to_all(&mut later);
    let read: ResultFile = serde_json::from_value(later).unwrap();
    assert_eq!(read, known);
    assert_eq!(serde_json::to_value(read).unwrap(), written, "nothing is lost in reading and writing");
}

/// Puts a field of a later version into every object whose keys are fields and not data.
fn add_to_all(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                // These are maps from names to numbers: a new name in them is data.
                if !["counters", "histograms", "guest_profile", "settings", "versions", "kvm_parameters"]
                    .contains(&name.as_str())
                {
                    add_to_all(value);
                }
            }
            fields.insert("of_a_later_version".into(), json!({ "x": [1] }));
        }
        Value::Array(items) => items.iter_mut().for_each(add_to_all),
        _ => {}
    }
}
