//! The scheduling domains of every golden scenario: level, name, span, flags, groups and power, as the kernel printed
//! them. Reads `../shared/golden` beside the repository and skips where that is absent.

use std::fs;
use std::path::Path;

use hostsched::topology::{BuildOptions, CpuSet, Machine, build_sched_domains};
use serde_json::{Value, json};

/// `cores_per_pkg` CPUs to a package, no SMT, no NUMA: what the oracle's kernel was told.
fn machine(scenario: &Value) -> Machine {
    let number = |key: &str| scenario[key].as_u64().expect("a number");
    let text = format!("{}s:{}c", number("ncpu") / number("cores_per_pkg"), number("cores_per_pkg"));
    text.parse().expect("a machine")
}

fn mask(set: &CpuSet) -> u64 {
    set.iter().map(|cpu| 1 << cpu.0).sum()
}

/// Our domains in the form of the golden files.
fn domains(machine: &Machine) -> Vec<Value> {
    let domains = build_sched_domains(machine, machine.online(), BuildOptions::default()).expect("a sane machine");
    let mut rows = Vec::new();
    for cpu in machine.online() {
        for (level, sd) in domains.of(cpu).iter().enumerate() {
            rows.push(json!({
                "cpu": cpu.0, "level": level, "name": sd.level.name(), "span": mask(&sd.span),
                "flags": sd.params.flags.0, "ngroups": sd.group_count(),
                "cpu_power": domains.initial_power(sd.local_group().sgp),
            }));
        }
    }
    rows
}

#[test]
fn domains_are_those_of_the_golden_kernel() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/golden/linux-3.4");
    let Ok(entries) = fs::read_dir(&dir) else {
        println!("skipped domains_are_those_of_the_golden_kernel: ../shared/golden is absent");
        return;
    };
    let mut compared = 0;
    for path in entries.map(|entry| entry.expect("a readable directory").path()) {
        let text = fs::read_to_string(&path).expect("a readable file");
        let file: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // index.json and unit_vectors.json are not scenarios.
        if let Some(want) = file["outcome"]["domains"].as_array() {
            assert_eq!(&domains(&machine(&file["scenario"])), want, "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 0, "no scenario in {}", dir.display());
}
