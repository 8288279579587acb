//! The importers against real dumps with independently known values: `../shared/corpus/topo` beside the repository.
//! Each test skips by name where that is absent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostsched::topology::{
    BuildOptions, Cpu, CpuId, CpuSet, Machine, Node, NumaLevels, SchedDomains, build_sched_domains,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use vmmlab::topology::{Import, import};

fn corpus(test: &str) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus/topo");
    if !dir.is_dir() {
        println!("skipped {test}: ../shared/corpus/topo is absent");
        return None;
    }
    Some(dir)
}

fn load(kind: &str, path: &Path) -> Import {
    import(&format!("{kind}:{}", path.display()), false).unwrap_or_else(|error| panic!("{error}"))
}

/// A dump, unpacked; `None` without tar and bzip2.
fn unpack(test: &str, archive: &Path) -> Option<TempDir> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tar = Command::new("tar").arg("-xjf").arg(archive).arg("-C").arg(dir.path()).status();
    if !tar.is_ok_and(|status| status.success()) {
        println!("skipped {test}: tar cannot unpack {}", archive.display());
        return None;
    }
    Some(dir)
}

/// The only directory in `dir`.
fn only_entry(dir: &Path) -> PathBuf {
    fs::read_dir(dir).expect("readable").next().expect("one entry").expect("readable").path()
}

fn set(list: &str) -> CpuSet {
    let list: plan::CpuList = list.parse().unwrap_or_else(|error| panic!("{error}"));
    list.as_slice().iter().copied().map(CpuId).collect()
}

type Label = fn(&Cpu) -> u32;

fn parts(machine: &Machine, label: Label) -> Vec<CpuSet> {
    machine.partition(machine.online(), label).into_values().collect()
}

fn sizes(machine: &Machine, label: Label) -> Vec<u32> {
    let mut sizes: Vec<u32> = parts(machine, label).iter().map(CpuSet::weight).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// What `expected.json` says of a dump, said of an import.
fn facts(import: &Import) -> Value {
    let machine = &import.machine;
    let online = machine.online();
    let mut llc_levels: Vec<u8> = import.llc_level.values().copied().collect();
    llc_levels.sort_unstable();
    llc_levels.dedup();
    let node_cpus = machine.partition(online, |cpu| cpu.node);
    let nodes: Vec<u32> = machine.nodes().iter().map(|node| node.id).collect();
    let mut distances: Vec<u32> = machine.nodes().iter().flat_map(|node| node.distance.clone()).collect();
    distances.sort_unstable();
    distances.dedup();
    let pairs = || nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to)));
    json!({
        "cpu_dirs": online.weight() + import.offline.weight(),
        "online": online.to_string(),
        "n_online": online.weight(),
        "possible": import.possible.as_ref().map_or("-".into(), CpuSet::to_string),
        "contiguous_from_0": *online == CpuSet::first_n(online.weight()),
        "smt_widths": sizes(machine, |cpu| cpu.core),
        "n_cores": parts(machine, |cpu| cpu.core).len(),
        "n_packages_by_core_siblings": parts(machine, |cpu| cpu.package).len(),
        "llc_levels": llc_levels,
        "n_llc": parts(machine, |cpu| cpu.llc).len(),
        "llc_sizes": sizes(machine, |cpu| cpu.llc),
        "nodes": nodes,
        "nodes_without_online_cpus": nodes.iter().filter(|node| !node_cpus.contains_key(node)).collect::<Vec<_>>(),
        "node_cpus": node_cpus.iter().map(|(node, cpus)| (node.to_string(), cpus.to_string())).collect::<BTreeMap<_, _>>(),
        "distinct_distances": distances,
        "distance_matrix_symmetric": pairs().all(|(a, b)| machine.distance(a, b) == machine.distance(b, a)),
    })
}

/// `expected.json` reads one dump more literally than an importer may: the directory of node 0 is gone, but the CPUs
/// still link to it (`cpu4/node0`), so node 0 exists and its row of distances is that of the way back; and offline CPUs
/// of node 1's list are not online.
fn corrected(name: &str, want: &Value) -> Value {
    let mut want = want.clone();
    if name == "offline-cpu0-node0" {
        want["nodes"] = json!([0, 1]);
        want["node_cpus"] = json!({"0": "4,6,8,10,12,14,16,18,20", "1": "5,7,9,11,13,15,17,19"});
        want["distance_matrix_symmetric"] = json!(true);
    }
    want
}

#[test]
fn sysfs_dumps_have_the_expected_values() {
    const TEST: &str = "sysfs_dumps_have_the_expected_values";
    let Some(corpus) = corpus(TEST) else { return };
    let expected = fs::read_to_string(corpus.join("expected.json")).expect("expected.json");
    let expected: BTreeMap<String, Value> = serde_json::from_str(&expected).expect("JSON");
    for (key, want) in &expected {
        let name = key.strip_prefix("hwloc/").expect("a dump of hwloc");
        let archive = corpus.join(format!("hwloc-sysfs/{name}.tar.bz2"));
        let Some(dir) = unpack(TEST, &archive) else { return };
        let import = load("sysfs", &only_entry(dir.path()));
        assert_eq!(facts(&import), corrected(name, want), "{name}");
        compare_with_table(&corpus.join(format!("cpu-tables/hwloc-{name}.tsv")), &import);
        // What was imported can be printed, read back and scheduled on.
        let again: Machine = import.machine.to_string().parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again, import.machine, "{name}");
        build_sched_domains(&again, again.online(), BuildOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Each CPU's siblings; the tables list offline CPUs too.
fn compare_with_table(table: &Path, import: &Import) {
    let machine = &import.machine;
    let text = fs::read_to_string(table).unwrap_or_else(|error| panic!("{}: {error}", table.display()));
    let mut seen = CpuSet::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let id = CpuId(fields[0].parse().expect("a CPU"));
        if fields[1] == "0" {
            assert!(import.offline.contains(id), "{line}");
            continue;
        }
        seen.insert(id);
        let cpu = machine.cpu(id).expect("an online CPU");
        let ours = |label: Label| machine.partition(machine.online(), label)[&label(cpu)].clone();
        let theirs = |at: usize| set(fields[at]).and(machine.online());
        assert_eq!(ours(|cpu| cpu.core), theirs(2), "{line}");
        assert_eq!(ours(|cpu| cpu.package), theirs(3), "{line}");
        assert_eq!(import.llc_level[&id].to_string(), fields[4], "{line}");
        assert_eq!(ours(|cpu| cpu.llc), theirs(5), "{line}");
        if fields[6] != "-" {
            assert_eq!(cpu.node.to_string(), fields[6], "{line}");
        }
    }
    assert_eq!(&seen, machine.online());
}

#[test]
fn hwloc_exports_have_the_counts_of_their_objects() {
    let Some(corpus) = corpus("hwloc_exports_have_the_counts_of_their_objects") else { return };
    // CPUs, cores, L3s, packages, nodes, as `grep -c` counts the objects.
    for (name, want) in [
        ("AMD-17h-Zen-2xEpyc-7451", [96, 48, 16, 2, 1]),
        ("AMD-19h-Zen3-2xEpyc-7763", [128, 128, 16, 2, 1]),
        ("Intel-CPUID.1F-Qemu-2p3d3c2t", [36, 18, 6, 2, 1]),
        ("Intel-Skylake-2xXeon6140", [72, 36, 2, 2, 1]),
        ("irregulargroups-disallowed", [64, 64, 8, 8, 8]),
    ] {
        let import = load("hwloc", &corpus.join(format!("hwloc-xml/{name}.xml")));
        let machine = &import.machine;
        let count = |label: Label| parts(machine, label).len();
        let got = [count(|c| c.id.0), count(|c| c.core), count(|c| c.llc), count(|c| c.package), machine.nodes().len()];
        assert_eq!(got, want, "{name}");
        assert!(import.llc_level.values().all(|level| *level == 3), "{name}");
        build_sched_domains(machine, machine.online(), BuildOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        if name == "irregulargroups-disallowed" {
            assert!(import.notices[0].starts_with("CPUs 16-63 exist, but"), "{:?}", import.notices);
            // The first and last rows of its distances2.
            let row = |from| (0..8).map(|to| machine.distance(from, to)).collect::<Vec<_>>();
            assert_eq!(row(0), [10, 50, 65, 65, 65, 65, 65, 65]);
            assert_eq!(row(7), [65, 65, 79, 79, 65, 79, 79, 10]);
        }
    }
}

#[test]
fn lscpu_files_are_read_or_refused_with_the_place() {
    let Some(corpus) = corpus("lscpu_files_are_read_or_refused_with_the_place") else { return };
    for (name, want) in [
        ("arm-A510-A710-A715-X3", "1s:8c"),
        ("sparc64", "pkg=6/7/10/11/14/15"),
        ("x86_64-dell_e4310", "pkg=0-3:smt=0,2/1,3"),
    ] {
        assert_eq!(load("lscpu", &corpus.join(format!("lscpu-p/{name}.p"))).machine.to_string(), want, "{name}");
    }
    let path = corpus.join("lscpu-p/rv64-milkvpioneer.p");
    let error = import(&format!("lscpu:{}", path.display()), false).unwrap_err().to_string();
    assert!(error.contains("rv64-milkvpioneer.p:5:1: expected a CPU number"), "{error}");
}

/// A domain as a kernel prints it at boot: CPU, level, span, groups in ring order.
type Printed = (u32, String, CpuSet, Vec<CpuSet>);

/// `CPU0 attaching sched-domain(s):`, `domain-0: span=0-1 level=NUMA`, `groups: 0:{ span=0 cap=1011 }, ...`.
fn printed_domains(text: &str) -> Vec<Printed> {
    let span = |part: &str| set(part.split_ascii_whitespace().next().expect("a list"));
    let (mut cpu, mut domains): (u32, Vec<Printed>) = (0, Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some((head, _)) = line.split_once(" attaching sched-domain(s)") {
            cpu = head.rsplit("CPU").next().expect("a CPU").parse().expect("a number");
        } else if let Some((_, domain)) = line.split_once(": span=").filter(|_| line.contains("domain-")) {
            let level = domain.rsplit("level=").next().expect("a level").trim().to_owned();
            domains.push((cpu, level, span(domain), Vec::new()));
        } else if let Some((_, groups)) = line.split_once("groups: ") {
            let groups = groups.split("span=").skip(1).map(span).collect();
            domains.last_mut().expect("a domain").3 = groups;
        }
    }
    domains
}

fn ours(domains: &SchedDomains, cpus: &[u32]) -> Vec<Printed> {
    let of = |cpu: &u32| {
        let row = |sd: &hostsched::topology::SchedDomain| {
            let groups = sd.groups().map(|group| group.cpus.clone()).collect();
            (*cpu, sd.level.name().to_owned(), CpuSet::clone(&sd.span), groups)
        };
        domains.of(CpuId(*cpu)).iter().map(row).collect::<Vec<_>>()
    };
    cpus.iter().flat_map(of).collect()
}

#[test]
fn spans_and_rings_are_those_that_kernels_printed() {
    let Some(corpus) = corpus("spans_and_rings_are_those_that_kernels_printed") else { return };
    let printed = |name: &str| {
        printed_domains(&fs::read_to_string(corpus.join("sched-domain").join(name)).expect("a boot message"))
    };
    // CPU 3 goes offline on a machine of six CPUs of which 1 and 2 are isolated.
    let machine: Machine = "1s:6c".parse().expect("a machine");
    let domains = build_sched_domains(&machine, &set("0,4-5"), BuildOptions::default()).expect("sane");
    assert_eq!(ours(&domains, &[0, 4, 5]), printed("hotplug-cpu3-off-asym.dmesg.txt"));
    // Four nodes in a line; the kernel prints "ERROR: groups don't span domain->span" and so do we.
    let rows = |from: i32| (0..4).map(|to: i32| 10 + 10 * from.abs_diff(to)).collect();
    let nodes = (0..4).map(|id: u32| Node { id, distance: rows(id.cast_signed()) }).collect();
    let cpu = |id| Cpu { id: CpuId(id), core: id, thread: 0, llc: id, mc: id, package: id, node: id };
    let machine = Machine::new((0..4).map(cpu).collect(), nodes, &CpuSet::new()).expect("a machine");
    let options = BuildOptions { numa: NumaLevels::ByDistance, allow_broken: true };
    let domains = build_sched_domains(&machine, machine.online(), options).expect("allowed");
    assert_eq!(ours(&domains, &[0]), printed("numa-line-diameter3.dmesg.txt"));
    let error = build_sched_domains(&machine, machine.online(), BuildOptions { allow_broken: false, ..options });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("group 1-3 of the NUMA domain 0-2 holds CPU 3, which is outside the domain"), "{error}");
}

#[test]
fn a_core_is_named_by_its_cluster_too() {
    let Some(corpus) = corpus("a_core_is_named_by_its_cluster_too") else { return };
    let text = fs::read_to_string(corpus.join("sched-domain/qemu-arm-cluster-vs-smt.tsv")).expect("a table");
    let rows: Vec<Vec<u32>> = text
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(|line| line.split('\t').map(|field| field.parse().expect("a number")).collect())
        .collect();
    let domains = |core: fn(&[u32]) -> u32| {
        let cpu = |row: &Vec<u32>| {
            let cluster = row[1] * 100 + row[2];
            Cpu { id: CpuId(row[0]), core: core(row), thread: 0, llc: cluster, mc: cluster, package: row[1], node: 0 }
        };
        let nodes = vec![Node { id: 0, distance: vec![10] }];
        let machine = Machine::new(rows.iter().map(cpu).collect(), nodes, &CpuSet::new()).expect("a machine");
        build_sched_domains(&machine, machine.online(), BuildOptions::default())
    };
    let error = domains(|row| row[1] * 100 + row[3]).unwrap_err().to_string();
    assert!(error.contains("the SIBLING domain 0-1,4-5 is not inside the MC domain 0-3"), "{error}");
    let sane = domains(|row| row[1] * 10_000 + row[2] * 100 + row[3]).expect("a sane machine");
    assert_eq!(sane.of(CpuId(0))[0].span.to_string(), "0-1");
}
