//! What files and texts can say about CPUs: lists, topologies, the exports of other tools, copies of sysfs.

use std::fs;

use fuzz::{LIST_WORDS, Scratch, Script, bytes, mutate, target, text};
use hostsched::topology::{BuildOptions, Machine, build_sched_domains};
use plan::CpuList;
use vmmlab::topology::import;

const LISTS: &[&str] = &["0-3,8", "0-15:2", "8191", "0,2,4-7:3,9", "", "0-8191"];

target!(cpulist, bytes(LISTS), |lists, input| {
    let text = text(lists, LIST_WORDS, input);
    if let Ok(list) = text.parse::<CpuList>() {
        assert!(list.as_slice().is_sorted_by(|a, b| a < b) && list.as_slice().last().is_some_and(|last| *last < 8192));
        assert_eq!(list.to_string().parse::<CpuList>().as_ref(), Ok(&list), "what is printed reads back");
    }
});

const TOPOLOGIES: &[&str] = &[
    "2s:4c:2t",
    "1s:8c",
    "e5620",
    "pkg=0-3/4-7:smt=0,1/2,3/4,5/6,7:llc=0-3/4-7:node0=0-3:node1=4-7:dist=10,21/21,10:offline=3",
    "pkg=1-3:smt=1-2/3:llc=1-2/3:node2=1-3:node5=:dist=10,17/17,10",
    "2n:2s:2m:2l:2c:2t",
];
const TOPOLOGY_WORDS: &[&str] = &[
    "pkg=",
    ":smt=",
    ":llc=",
    ":mc=",
    ":node1=",
    ":dist=",
    ":offline=",
    "/",
    ",",
    "-",
    "s",
    ":",
    "c",
    "t",
    "8191",
    "20",
];

/// Machines up to this size are built; the largest take a second, and differ in nothing.
const BUILT_MAX: usize = 64;

fn build(machine: &Machine) {
    if machine.cpus().len() <= BUILT_MAX {
        let _ = build_sched_domains(machine, machine.online(), BuildOptions::default());
    }
}

target!(topology_text, bytes(TOPOLOGIES), |documents, input| {
    let text = text(documents, TOPOLOGY_WORDS, input);
    // What begins like a file's name is read by the other targets.
    if let Ok(machine) = text.parse::<Machine>() {
        let normal = machine.to_string();
        assert_eq!(normal.parse::<Machine>().as_ref(), Ok(&machine), "what is printed reads back: {normal}");
        build(&machine);
    }
});

const LSCPU: &[&str] = &[
    "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3,Online\n0,0,0,0,,0,0,0,0,Y\n1,1,0,0,,1,1,1,0,Y\n2,0,0,0,,0,0,0,0,Y\n3,-,-,-,,,,,,N\n",
    "# Socket,CPU\n0,4\n0,5\n1,6\n",
    "0,0,0,0,,0,0,0,0\n1,0,0,0,,0,0,0,0\n",
];
const LSCPU_WORDS: &[&str] = &["# CPU,", "Core", "Socket", "Node", "L3", "Online", "-", ",", "\n", "Y", "N", "8191"];

/// Imports the damaged file by its reader.
fn read_file(state: &(Scratch, Vec<Vec<u8>>), words: &[&str], kind: &str, input: &[u8]) {
    let (scratch, documents) = state;
    let path = scratch.write("file", &mutate(documents, words, &mut Script::new(input)));
    if let Ok(found) = import(&format!("{kind}:{}", path.display()), false) {
        build(&found.machine);
    }
}

target!(lscpu, (Scratch::default(), bytes(LSCPU)), |state, input| read_file(state, LSCPU_WORDS, "lscpu", input));

const HWLOC: &[&str] = &[
    r#"<?xml version="1.0"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" allowed_cpuset="0x0000000f" nodeset="0x3">
    <object type="Package" os_index="0" cpuset="0x3">
      <object type="NUMANode" os_index="0" nodeset="0x1"/>
      <object type="L3Cache" depth="3" cpuset="0x3">
        <object type="Core" os_index="0"><object type="PU" os_index="0"/><object type="PU" os_index="1"/></object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0xc">
      <object type="NUMANode" os_index="1" nodeset="0x2"/>
      <object type="Core" os_index="0"><object type="PU" os_index="2"/></object>
      <object type="Core" os_index="1"><object type="PU" os_index="3"/></object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5"><indexes length="4">0 1 </indexes>
  <u64values length="12">10 21 21 10 </u64values></distances2>
</topology>"#,
    r#"<topology><object type="System"><distances nbobjs="2" relative_depth="1" latency_base="10.0"><latency value="1.0"/>
<latency value="2.1"/><latency value="2.1"/><latency value="1.0"/></distances><object type="NUMANode" os_index="0">
<object type="Socket" os_index="0"><object type="Cache" depth="2"><object type="Core"><object type="PU" os_index="0"/>
</object></object></object></object></object></topology>"#,
];
const HWLOC_WORDS: &[&str] = &[
    "<object type=\"PU\" os_index=\"9\"/>",
    "<object type=\"Group\">",
    "</object>",
    "<object type=\"NUMANode\" os_index=\"8191\"/>",
    "cpuset=\"0xffffffff,0xffffffff\"",
    "&amp;",
    "<!ENTITY a \"&b;&b;\">",
    "&a;",
    "<!--",
    "]]>",
    "<distances2>",
    "0x",
];

target!(hwloc, (Scratch::default(), bytes(HWLOC)), |state, input| read_file(state, HWLOC_WORDS, "hwloc", input));

/// A machine of two packages, an offline CPU, and every file that is read.
const SYSFS: &[(&str, &str)] = &[
    ("cpu/online", "0-2\n"),
    ("cpu/possible", "0-3\n"),
    ("cpu/cpu0/topology/core_cpus_list", "0-1\n"),
    ("cpu/cpu0/topology/package_cpus_list", "0-1\n"),
    ("cpu/cpu0/topology/physical_package_id", "0\n"),
    ("cpu/cpu0/cache/index0/level", "3\n"),
    ("cpu/cpu0/cache/index0/type", "Unified\n"),
    ("cpu/cpu0/cache/index0/shared_cpu_list", "0-1\n"),
    ("cpu/cpu1/topology/core_cpus_list", "0-1\n"),
    ("cpu/cpu1/topology/package_cpus_list", "0-1\n"),
    ("cpu/cpu1/cache/index0/level", "3\n"),
    ("cpu/cpu1/cache/index0/shared_cpu_map", "00000000,00000003\n"),
    ("cpu/cpu2/topology/thread_siblings", "4\n"),
    ("cpu/cpu2/topology/core_siblings", "4\n"),
    ("cpu/cpu3/online", "0\n"),
    ("node/node0/cpulist", "0-1\n"),
    ("node/node0/distance", "10 21\n"),
    ("node/node1/cpulist", "2\n"),
    ("node/node1/distance", "21 10\n"),
];
const SYSFS_WORDS: &[&str] = &["0", "-", ",", "\n", " ", "ffffffff", "8191", "0-8191", "Data", "10 20 30", "\0"];

/// One or two files of the tree hold something else, for one look.
fn read_tree(scratch: &Scratch, input: &[u8]) {
    let mut script = Script::new(input);
    let mut changed = Vec::new();
    for _ in 0..=script.below(2) {
        let (path, text) = *script.pick(SYSFS);
        let name = format!("sys/devices/system/{path}");
        let other = script.pick(SYSFS).1;
        match script.byte() % 6 {
            0 => fs::remove_file(scratch.dir().join(&name)).unwrap_or(()),
            _ => drop(scratch.write(&name, &mutate(&bytes(&[text, other]), SYSFS_WORDS, &mut script))),
        }
        changed.push((name, text));
    }
    if let Ok(found) = import(&format!("sysfs:{}", scratch.dir().display()), script.one_in(2)) {
        build(&found.machine);
    }
    changed.iter().for_each(|(name, text)| drop(scratch.write(name, text.as_bytes())));
}

fn tree() -> Scratch {
    let scratch = Scratch::default();
    SYSFS.iter().for_each(|(path, text)| drop(scratch.write(&format!("sys/devices/system/{path}"), text.as_bytes())));
    assert!(import(&format!("sysfs:{}", scratch.dir().display()), false).is_ok(), "the undamaged tree is a machine");
    scratch
}

target!(sysfs_tree, tree(), |scratch, input| read_tree(scratch, input));
