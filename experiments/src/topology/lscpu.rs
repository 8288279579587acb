//! `lscpu -p` (util-linux): one line a CPU, columns named by the last comment line.
//!
//! ```text
//!   # CPU,Core,Socket,Node,,L1d,L1i,L2,L3,Online
//!   0,0,0,0,,0,0,0,0,Y
//! ```
//!
//! Columns may be missing, come in any order and case, and be empty. Two traps: an offline CPU has only its number, and
//! the `Core` column of big.LITTLE machines repeats in each cluster, so that CPUs which do not even share an L1 bear
//! the same core. Threads of a core always share their L1d, so a core here is (socket, core, L1d).

use std::collections::BTreeMap;
use std::path::Path;

use hostsched::topology::{Cpu, CpuId, CpuSet, Machine, Node, uniform_distances};

use super::{Import, ImportError, read};

/// 8192 CPUs at 120 characters.
const FILE_MAX: u64 = 1 << 20;

/// What lscpu says where there is no comment line (its default columns).
const DEFAULT_COLUMNS: &str = "CPU,Core,Socket,Node,,L1d,L1i,L2,L3";

/// Reads the output of `lscpu -p`.
pub(super) fn import(path: &Path) -> Result<Import, ImportError> {
    parse(path, &read::text(path, FILE_MAX)?)
}

/// Place of each column, by lower-case name.
type Columns = BTreeMap<String, usize>;

/// One line.
struct Row<'a> {
    path: &'a Path,
    line: usize,
    fields: Vec<&'a str>,
    columns: &'a Columns,
}

impl Row<'_> {
    /// The number in a column; `None` where the column is absent, empty or `-`.
    fn number(&self, column: &str, wanted: &'static str) -> Result<Option<u32>, ImportError> {
        let Some((at, field)) = self.columns.get(column).and_then(|at| Some((*at, *self.fields.get(*at)?))) else {
            return Ok(None);
        };
        if field.is_empty() || field == "-" {
            return Ok(None);
        }
        let before: usize = self.fields[..at].iter().map(|field| field.chars().count() + 1).sum();
        let failed = |_| read::value(self.path, self.line, before + 1, wanted, field);
        field.parse().map(Some).map_err(failed)
    }

    fn is_offline(&self) -> bool {
        let online = self.columns.get("online").and_then(|at| self.fields.get(*at));
        online.is_some_and(|field| matches!(field.to_ascii_lowercase().as_str(), "n" | "no" | "0"))
    }
}

/// Dense numbers for keys, in the order in which they appear.
#[derive(Default)]
struct Labels(BTreeMap<(u32, u32, u32), u32>);

impl Labels {
    fn of(&mut self, key: (u32, u32, u32)) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(key).or_insert(next)
    }
}

fn parse(path: &Path, text: &str) -> Result<Import, ImportError> {
    let fields = |line: &str| line.split(',').any(|name| name.trim().eq_ignore_ascii_case("cpu"));
    let header = text.lines().filter_map(|line| line.strip_prefix('#')).rfind(|line| fields(line));
    let names = header.unwrap_or(DEFAULT_COLUMNS).trim().split(',');
    let columns: Columns = names.enumerate().map(|(at, name)| (name.trim().to_ascii_lowercase(), at)).collect();
    let mut cpus = Vec::new();
    let (mut offline, mut notices) = (CpuSet::new(), Vec::new());
    let (mut cores, mut llcs) = (Labels::default(), Labels::default());
    let mut core_names: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut split_cores = 0;
    let mut llc_level = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.starts_with('#') && !text.trim().is_empty()) {
        let row = Row { path, line, fields: text.split(',').map(str::trim).collect(), columns: &columns };
        const CPU: &str = "a CPU number below 8192 in the CPU column";
        let id = row.number("cpu", CPU)?.filter(|id| *id < hostsched::topology::CPUS_MAX);
        let id = CpuId(id.ok_or_else(|| read::value(path, line, 1, CPU, text))?);
        if row.is_offline() {
            offline.insert(id);
            continue;
        }
        let number = |column: &str| row.number(column, "a number, '-' or nothing");
        let package = number("socket")?.unwrap_or(0);
        let l1d = number("l1d")?;
        let core = match number("core")? {
            Some(core) => {
                let key = cores.of((package, core, l1d.unwrap_or(0)));
                split_cores += usize::from(*core_names.entry((package, core)).or_insert(key) != key);
                key
            }
            // A socket number that no parsed field can give keeps unnamed cores apart.
            None => cores.of((u32::MAX, id.0, 0)),
        };
        let mut llc = None;
        for (level, column) in [(3, "l3"), (2, "l2"), (1, "l1d")] {
            if llc.is_none() {
                llc = number(column)?.map(|cache| (level, cache));
            }
        }
        let label = match llc {
            Some((level, cache)) => {
                llc_level.insert(id, level);
                llcs.of((u32::from(level), cache, 0))
            }
            None => llcs.of((0, id.0, 0)),
        };
        let node = number("node")?.unwrap_or(0);
        cpus.push(Cpu { id, core, thread: 0, llc: label, mc: label, package, node });
    }
    if split_cores > 0 {
        notices.push(format!(
            "core numbers repeat: {split_cores} CPU(s) share a core number with a CPU whose L1d they do not share, \
             and were taken as cores of their own"
        ));
    }
    let mut ids: Vec<u32> = cpus.iter().map(|cpu| cpu.node).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > 1 {
        notices.push("lscpu says nothing of node distances: 10 and 20 are assumed".into());
    }
    if llc_level.is_empty() {
        notices.push("lscpu says nothing of caches: every CPU is taken to have its own".into());
    }
    let nodes = ids.iter().zip(uniform_distances(ids.len())).map(|(id, distance)| Node { id: *id, distance }).collect();
    let machine = Machine::new(cpus, nodes, &CpuSet::new()).map_err(ImportError::machine(path))?;
    Ok(Import { llc_level, offline, notices, ..Import::from(machine) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normal(text: &str) -> Result<String, ImportError> {
        parse(Path::new("lscpu.p"), text).map(|import| import.machine.to_string())
    }

    #[test]
    fn columns_are_found_by_name_and_may_be_missing() {
        let full = "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3,Online\n0,0,0,0,,0,0,0,0,Y\n1,1,0,0,,1,1,1,0,Y\n2,0,0,0,,0,0,0,0,Y\n";
        assert_eq!(normal(full).unwrap(), "pkg=0-2:smt=0,2/1");
        assert_eq!(normal("# Socket,CPU\n0,4\n0,5\n1,6\n").unwrap(), "pkg=4-5/6:llc=4/5/6");
        assert_eq!(normal("0,0,0,0,,0,0,0,0\n1,0,0,0,,0,0,0,0\n").unwrap(), "1s:1c:2t");
    }

    #[test]
    fn offline_cpus_are_known_by_number_only() {
        let import = parse(Path::new("x"), "# CPU,Core,Socket,Online\n1,0,0,Y\n0,-,-,N\n7,,,N\n").unwrap();
        assert_eq!((import.machine.online().to_string(), import.offline.to_string()), ("1".into(), "0,7".into()));
    }

    #[test]
    fn cores_that_share_no_l1_are_not_one() {
        let import = parse(Path::new("x"), "# CPU,Core,Socket,L1d,L3\n0,0,0,0,0\n1,1,0,1,0\n2,0,0,2,0\n").unwrap();
        assert_eq!(import.machine.to_string(), "1s:3c");
        assert!(import.notices[0].starts_with("core numbers repeat: 1 CPU(s)"), "{:?}", import.notices);
    }

    #[test]
    fn errors_name_file_line_place_and_value() {
        for (text, want) in [
            ("# CPU,Core\n0,0\n1,x\n", "lscpu.p:3:3: expected a number, '-' or nothing, found 'x'"),
            ("# CPU,Core\n,\n", "lscpu.p:2:1: expected a CPU number below 8192 in the CPU column, found ','"),
            ("# CPU\n8192\n", "lscpu.p:2:1: expected a CPU number below 8192"),
            ("# CPU\n0\n0\n", "lscpu.p: CPU 0 is described twice"),
            ("# CPU\n", "lscpu.p: the topology has no online CPU"),
        ] {
            let error = normal(text).unwrap_err().to_string();
            assert!(error.contains(want), "got '{error}', wanted '{want}'");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "(# ?CPU,Core,Socket,Node,L3\n)?([0-9,x-]{0,12}\n){0,6}|.{0,80}") {
            let _ = normal(&text);
        }
    }
}
