//! A `/sys` tree, live or copied: `devices/system/cpu` and `devices/system/node`.
//!
//! ```text
//!   cpu/online                            4-20          else cpu/cpuN/online, else every cpuN
//!   cpu/cpuN/topology/core_cpus_list      threads of the core        (before 5.x: thread_siblings_list)
//!   cpu/cpuN/topology/package_cpus_list   CPUs of the package        (before 5.x: core_siblings_list)
//!   cpu/cpuN/cache/indexK/{level,type,shared_cpu_list}
//!   cpu/cpuN/nodeM                        the CPU's node
//!   node/nodeM/{cpulist,distance}
//! ```
//!
//! Kernels before 2.6.26 write masks only (`thread_siblings`, `shared_cpu_map`). What the tree says of offline CPUs is
//! ignored: siblings are those of the online CPUs. Sets are taken from these lists and never from `core_id`, which
//! repeats in every cluster of some machines.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hostsched::topology::{CPUS_MAX, Cpu, CpuId, CpuSet, LOCAL_DISTANCE, Machine, NODES_MAX, Node, REMOTE_DISTANCE};

use super::masks::Masks;
use super::{Import, ImportError, read};

/// Entries of a directory that are looked at; `devices/system/cpu` has one a CPU and some more.
const ENTRIES_MAX: usize = 4 * CPUS_MAX as usize;

/// Reads the tree below `root`: a `/sys`, a directory that holds one as `sys`, or a `devices/system`.
pub(super) fn import(root: &Path, allow_broken: bool) -> Result<Import, ImportError> {
    let system = [root.join("devices/system"), root.join("sys/devices/system"), root.to_owned()]
        .into_iter()
        .find(|dir| dir.join("cpu").is_dir())
        .ok_or_else(|| ImportError::content(root, "no devices/system/cpu in it; name a copy of /sys"))?;
    Tree::read(system)?.import(allow_broken)
}

/// What was found.
struct Tree {
    cpu_dir: PathBuf,
    node_dir: PathBuf,
    online: CpuSet,
    present: CpuSet,
    nodes: Vec<u32>,
}

impl Tree {
    fn read(system: PathBuf) -> Result<Self, ImportError> {
        let (cpu_dir, node_dir) = (system.join("cpu"), system.join("node"));
        let present: CpuSet = numbered(&cpu_dir, "cpu", CPUS_MAX)?.into_iter().map(CpuId).collect();
        let nodes = if node_dir.is_dir() { numbered(&node_dir, "node", NODES_MAX)? } else { Vec::new() };
        let online = match read::list(&cpu_dir.join("online"))? {
            Some(online) => online,
            None => {
                let mut online = CpuSet::new();
                for cpu in &present {
                    // CPU 0 often has no such file: it cannot go offline.
                    if read::number(&cpu_dir.join(format!("cpu{cpu}/online")), "0 or 1")?.is_none_or(|on| on != 0) {
                        online.insert(cpu);
                    }
                }
                online
            }
        };
        if let Some(cpu) = online.and_not(&present).first() {
            let what = format!("CPU {cpu} is online but has no directory cpu{cpu}; copy the whole tree");
            return Err(ImportError::content(&cpu_dir, what));
        }
        Ok(Self { cpu_dir, node_dir, online, present, nodes })
    }

    fn import(&self, allow_broken: bool) -> Result<Import, ImportError> {
        let mut notices = Vec::new();
        let (mut cores, mut packages, mut llcs) = (Masks::new("core"), Masks::new("package"), Masks::new("cache"));
        let mut llc_level = BTreeMap::new();
        for cpu in &self.online {
            let dir = self.cpu_dir.join(format!("cpu{cpu}/topology"));
            let core = siblings(&dir, [("core_cpus_list", "core_cpus"), ("thread_siblings_list", "thread_siblings")])?;
            let package =
                siblings(&dir, [("package_cpus_list", "package_cpus"), ("core_siblings_list", "core_siblings")])?;
            cores.add(cpu, core, &self.online);
            packages.add(cpu, package, &self.online);
            let llc = self.last_level_cache(cpu)?;
            llc_level.extend(llc.as_ref().map(|(level, _)| (cpu, *level)));
            llcs.add(cpu, llc.map(|(_, cpus)| cpus), &self.online);
        }
        for masks in [&cores, &packages, &llcs] {
            masks.check(&self.cpu_dir, allow_broken, &mut notices)?;
        }
        let (on_node, nodes) = self.nodes(&mut notices)?;
        let cpu = |id: CpuId| {
            let llc = llcs.label(id);
            let node = on_node.get(&id).copied().unwrap_or(0);
            Cpu { id, core: cores.label(id), thread: 0, llc, mc: llc, package: packages.label(id), node }
        };
        let machine = Machine::new(self.online.iter().map(cpu).collect(), nodes, &CpuSet::new())
            .map_err(ImportError::machine(&self.cpu_dir))?;
        let possible = read::list(&self.cpu_dir.join("possible"))?;
        Ok(Import { machine, llc_level, offline: self.present.and_not(&self.online), possible, notices })
    }

    /// Level and CPUs of the CPU's highest cache that holds data.
    fn last_level_cache(&self, cpu: CpuId) -> Result<Option<(u8, CpuSet)>, ImportError> {
        let dir = self.cpu_dir.join(format!("cpu{cpu}/cache"));
        if !dir.is_dir() {
            return Ok(None);
        }
        let mut best: Option<(u8, CpuSet)> = None;
        for index in numbered(&dir, "index", 64)? {
            let dir = dir.join(format!("index{index}"));
            if read::attribute(&dir.join("type"))?.as_deref() == Some("Instruction") {
                continue;
            }
            let path = dir.join("level");
            let Some(level) = read::number(&path, "a cache level")? else { continue };
            let level =
                u8::try_from(level).map_err(|_| read::value(&path, 1, 1, "a cache level", &level.to_string()))?;
            if best.as_ref().is_some_and(|(best, _)| *best >= level) {
                continue;
            }
            if let Some(cpus) = read::list_or_mask(&dir, "shared_cpu_list", "shared_cpu_map")? {
                best = Some((level, cpus));
            }
        }
        Ok(best)
    }

    /// The node of each online CPU, and all nodes.
    fn nodes(&self, notices: &mut Vec<String>) -> Result<(BTreeMap<CpuId, u32>, Vec<Node>), ImportError> {
        let mut on_node = BTreeMap::new();
        let mut known: BTreeMap<u32, Option<Vec<u32>>> = BTreeMap::new();
        for node in &self.nodes {
            let dir = self.node_dir.join(format!("node{node}"));
            let cpus = read::list_or_mask(&dir, "cpulist", "cpumap")?.unwrap_or_default();
            for cpu in cpus.iter_and(&self.online) {
                if let Some(other) = on_node.insert(cpu, *node) {
                    let what = format!("CPU {cpu} is on node {other} and on node {node}; it can be on one only");
                    return Err(ImportError::content(&self.node_dir, what));
                }
            }
            known.insert(*node, self.distance_row(*node)?);
        }
        // A node may be missing (its memory is gone) and its CPUs still point to it.
        for cpu in &self.online {
            if let (false, Some(node)) = (on_node.contains_key(&cpu), self.node_link(cpu)?) {
                on_node.insert(cpu, node);
                if known.insert(node, None).is_none() {
                    notices.push(format!("node {node} has CPUs but no directory; it is taken to exist without memory"));
                }
            }
        }
        let homeless: CpuSet = self.online.iter().filter(|cpu| !on_node.contains_key(cpu)).collect();
        if !homeless.is_empty() {
            known.entry(0).or_insert(None);
            if known.len() > 1 {
                notices.push(format!("nothing says on which node CPUs {homeless} are; node 0 is assumed"));
            }
        }
        let columns = self.distance_columns(&known)?;
        let distance = |from: u32, to: u32| {
            let listed = |from: u32, to: u32| {
                let column = columns.iter().position(|node| *node == to)?;
                known[&from].as_ref()?.get(column).copied()
            };
            let usual = if from == to { LOCAL_DISTANCE } else { REMOTE_DISTANCE };
            listed(from, to).or_else(|| listed(to, from)).unwrap_or(usual)
        };
        if known.len() > 1 && known.values().any(Option::is_none) {
            notices.push("some node distances are missing: those of the way back, or else 10 and 20, are taken".into());
        }
        let node = |id: &u32| Node { id: *id, distance: known.keys().map(|to| distance(*id, *to)).collect() };
        let nodes = known.keys().map(node).collect();
        Ok((on_node, nodes))
    }

    /// Distances of a node to the online nodes, in their order.
    fn distance_row(&self, node: u32) -> Result<Option<Vec<u32>>, ImportError> {
        let path = self.node_dir.join(format!("node{node}/distance"));
        let Some(text) = read::attribute(&path)? else { return Ok(None) };
        let wrong = || read::value(&path, 1, 1, "node distances below 65536, one for each node", &text);
        let numbers = text.split_ascii_whitespace().map(|word| word.parse().ok().filter(|n| *n < 1 << 16));
        numbers.collect::<Option<Vec<u32>>>().map(Some).ok_or_else(wrong)
    }

    /// Which nodes the columns of the distance rows stand for: those with directories, or all possible ones.
    fn distance_columns(&self, known: &BTreeMap<u32, Option<Vec<u32>>>) -> Result<Vec<u32>, ImportError> {
        let lengths: Vec<usize> = known.values().flatten().map(Vec::len).collect();
        let fits = |nodes: &[u32]| lengths.iter().all(|length| *length == nodes.len());
        if fits(&self.nodes) {
            return Ok(self.nodes.clone());
        }
        let path = self.node_dir.join("possible");
        let possible: Vec<u32> = read::list(&path)?.unwrap_or_default().iter().map(|node| node.0).collect();
        if fits(&possible) {
            return Ok(possible);
        }
        let what =
            format!("distance rows of {lengths:?} values for {} nodes; each row needs one a node", self.nodes.len());
        Err(ImportError::content(&self.node_dir, what))
    }

    /// The node that `cpuN/nodeM` names.
    fn node_link(&self, cpu: CpuId) -> Result<Option<u32>, ImportError> {
        Ok(numbered(&self.cpu_dir.join(format!("cpu{cpu}")), "node", NODES_MAX)?.first().copied())
    }
}

/// The set in the first of some attribute pairs (list, mask) that exists.
fn siblings(dir: &Path, names: [(&str, &str); 2]) -> Result<Option<CpuSet>, ImportError> {
    for (list, mask) in names {
        if let Some(set) = read::list_or_mask(dir, list, mask)? {
            return Ok(Some(set));
        }
    }
    Ok(None)
}

/// The numbers N of entries `prefixN` below `below`, ascending.
fn numbered(dir: &Path, prefix: &str, below: u32) -> Result<Vec<u32>, ImportError> {
    let failed = |source| ImportError::Read { path: dir.to_owned(), source };
    let mut numbers = Vec::new();
    for (count, entry) in fs::read_dir(dir).map_err(failed)?.enumerate() {
        if count == ENTRIES_MAX {
            return Err(ImportError::content(dir, format!("more than {ENTRIES_MAX} entries; no sysfs has so many")));
        }
        let name = entry.map_err(failed)?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(prefix)).unwrap_or_default();
        // The kernel writes no leading zeros and no sign.
        if let Some(number) = digits.parse().ok().filter(|n: &u32| *n < below && n.to_string() == digits) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tree of `(path below devices/system, text)`.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join("devices/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn refused(files: &[(&str, &str)]) -> String {
        let dir = tree(files);
        import(dir.path(), false).unwrap_err().to_string().replace(&dir.path().display().to_string(), "SYS")
    }

    /// No CPU 0 online, a core of two threads beside one of one, an L3 of some CPUs only, node numbers with a gap, a node
    /// of memory only; padded with NULs, with offline CPUs in the lists.
    const ODD: [(&str, &str); 17] = [
        ("cpu/online", "1-3\n\0\0"),
        ("cpu/possible", "0-7\n"),
        ("cpu/cpu0/online", "0\n"),
        ("cpu/cpu1/topology/core_cpus_list", "0-2\n"),
        ("cpu/cpu1/topology/package_cpus_list", "0-3\n"),
        ("cpu/cpu1/cache/index0/level", "3\n"),
        ("cpu/cpu1/cache/index0/shared_cpu_list", "0-2\n"),
        ("cpu/cpu2/topology/thread_siblings", "00000000,00000006\n"),
        ("cpu/cpu2/topology/core_siblings", "f\n"),
        ("cpu/cpu2/cache/index0/level", "3\n"),
        ("cpu/cpu2/cache/index0/shared_cpu_map", "00000006\n"),
        ("cpu/cpu3/topology/core_cpus_list", "3\n"),
        ("cpu/cpu3/topology/package_cpus_list", "0-3\n"),
        ("node/node2/cpulist", "0-3\n"),
        ("node/node2/distance", "10 17\n"),
        ("node/node5/cpulist", "\n"),
        ("node/node5/distance", "17 10\n"),
    ];

    #[test]
    fn an_odd_machine_is_read_whole() {
        let dir = tree(&ODD);
        let read = import(dir.path(), false).unwrap();
        let normal = "pkg=1-3:smt=1-2/3:llc=1-2/3:node2=1-3:node5=:dist=10,17/17,10";
        assert_eq!(read.machine.to_string(), normal);
        assert_eq!((read.offline.to_string(), read.possible.unwrap().to_string()), ("0".into(), "0-7".into()));
        assert_eq!(read.llc_level, BTreeMap::from([(CpuId(1), 3), (CpuId(2), 3)]));
        assert_eq!(read.notices, ["nothing says who shares a cache with CPUs 3: each has its own"]);
    }

    #[test]
    fn a_copy_may_start_at_sys_or_above_it() {
        let dir = tree(&[("cpu/cpu0/online", "1")]);
        fs::rename(dir.path().join("devices"), dir.path().join("tmp")).unwrap();
        fs::create_dir(dir.path().join("sys")).unwrap();
        fs::rename(dir.path().join("tmp"), dir.path().join("sys/devices")).unwrap();
        assert_eq!(import(dir.path(), false).unwrap().machine.to_string(), "1s:1c");
        assert_eq!(import(&dir.path().join("sys/devices/system"), false).unwrap().machine.to_string(), "1s:1c");
    }

    #[test]
    fn a_tree_without_lists_is_read_from_cpu_directories() {
        let dir = tree(&[("cpu/cpu0/cache/index0/level", "2"), ("cpu/cpu2/online", "1"), ("cpu/cpu3/online", "0")]);
        let read = import(dir.path(), false).unwrap();
        assert_eq!((read.machine.to_string(), read.offline.to_string()), ("pkg=0/2".into(), "3".into()));
    }

    #[test]
    fn errors_name_file_value_and_remedy() {
        let odd_but = |path: &'static str, text: &'static str| -> String {
            let mut files = ODD.to_vec();
            files.retain(|(name, _)| *name != path);
            files.push((path, text));
            refused(&files)
        };
        for (got, want) in [
            (refused(&[("node/node0/cpulist", "0")]), "SYS: no devices/system/cpu in it; name a copy of /sys"),
            (odd_but("cpu/online", "1-9"), "cpu: CPU 4 is online but has no directory cpu4"),
            (odd_but("cpu/online", "3-1"), "cpu/online: CPU list '3-1': the range at position 1 runs backwards"),
            (odd_but("cpu/cpu1/cache/index0/level", "L3"), "index0/level:1:1: expected a cache level, found 'L3'"),
            (odd_but("cpu/cpu2/topology/thread_siblings", "6g"), "thread_siblings:1:1: expected a mask"),
            (odd_but("node/node5/distance", "17 x"), "node5/distance:1:1: expected node distances below 65536"),
            (odd_but("node/node5/distance", "17 10 9"), "node: distance rows of [2, 3] values for 2 nodes"),
            (odd_but("node/node5/cpulist", "3"), "node: CPU 3 is on node 2 and on node 5; it can be on one only"),
        ] {
            assert!(got.contains(want), "got '{got}', wanted '{want}'");
        }
    }

    #[test]
    fn siblings_that_disagree_are_refused_or_taken_one_by_one() {
        let files = [
            ("cpu/cpu0/topology/core_cpus_list", "0-1"),
            ("cpu/cpu1/topology/core_cpus_list", "1"),
            ("cpu/online", "0-1"),
        ];
        let error = refused(&files);
        assert!(
            error.contains("CPU 0 says that CPUs 0-1 share its core, CPU 1 says 1; they must say the same"),
            "{error}"
        );
        let read = import(tree(&files).path(), true).unwrap();
        assert_eq!(read.machine.to_string(), "2s:1c");
        assert!(read.notices.iter().any(|notice| notice.contains("they must say the same")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_tree_is_answered(
            texts in prop::collection::vec("[0-9,x -]{0,8}|.{0,8}", ODD.len()), broken: bool
        ) {
            let files: Vec<(&str, &str)> = ODD.iter().zip(&texts).map(|((path, _), text)| (*path, text.as_str())).collect();
            let dir = tree(&files);
            if let Ok(read) = import(dir.path(), broken) {
                prop_assert_eq!(read.machine.to_string().parse::<Machine>().unwrap(), read.machine);
            }
        }
    }
}
