//! hwloc's XML export (`lstopo FILE.xml`), formats of hwloc 1, 2 and 3.
//!
//! The file is a tree of `object`s whose leaves are processing units (`PU`). What a CPU shares is read off the way from
//! its PU to the root: the nearest `Core` and `Package` (`Socket` before 1.11), and of the data caches the one of the
//! highest level. A `NUMANode` is on that way in hwloc 1; since hwloc 2 it is a child beside the way, and the CPUs below
//! its parent are local to it.
//!
//! ```text
//!   Machine
//!     Package
//!       NUMANode            <- hwloc 2: local to all PUs of the package
//!       L3Cache
//!         Core
//!           PU PU
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hostsched::topology::{CPUS_MAX, Cpu, CpuId, CpuSet, Machine, NODES_MAX, Node, uniform_distances};
use roxmltree::{Document, Node as Xml, ParsingOptions};

use super::{Import, ImportError, read};

/// Bytes: an 8192-CPU machine needs some 12 MB.
const FILE_MAX: u64 = 64 << 20;
/// XML nodes: an 8192-CPU machine needs some 200,000.
const XML_NODES_MAX: u32 = 1 << 20;
/// Objects between a PU and the root; real machines have about 15.
const DEPTH_MAX: usize = 64;

/// Reads an XML export.
pub(super) fn import(path: &Path) -> Result<Import, ImportError> {
    parse(path, &read::text(path, FILE_MAX)?)
}

/// An object of the tree.
#[derive(Clone, Copy)]
struct Object<'a> {
    path: &'a Path,
    xml: Xml<'a, 'a>,
}

impl<'a> Object<'a> {
    fn kind(self) -> &'a str {
        self.xml.attribute("type").unwrap_or_default()
    }

    /// A label that no other object of the file has.
    fn label(self) -> u32 {
        self.xml.id().get()
    }

    /// The error for this object's attribute `name`.
    fn wrong(self, name: &str, wanted: &'static str) -> ImportError {
        let at = self.xml.document().text_pos_at(self.xml.range().start);
        let place = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        let found = self.xml.attribute(name).unwrap_or_default();
        read::value(self.path, place(at.row), place(at.col), wanted, found)
    }

    fn os_index(self, below: u32, wanted: &'static str) -> Result<u32, ImportError> {
        let index = self.xml.attribute("os_index").and_then(|index| index.parse().ok());
        index.filter(|index| *index < below).ok_or_else(|| self.wrong("os_index", wanted))
    }

    /// Level of a cache that holds data; `None` for everything else.
    fn cache_level(self) -> Option<u8> {
        match self.kind() {
            "L1Cache" => Some(1),
            "L2Cache" => Some(2),
            "L3Cache" => Some(3),
            "L4Cache" => Some(4),
            "L5Cache" => Some(5),
            // hwloc 1; `cache_type` 2 is an instruction cache.
            "Cache" if self.xml.attribute("cache_type") != Some("2") => self.xml.attribute("depth")?.parse().ok(),
            _ => None,
        }
    }

    fn node_index(self) -> Result<u32, ImportError> {
        self.os_index(NODES_MAX, "a NUMANode with an os_index below 1024")
    }

    /// The nodes that are children of this object, also those behind a memory-side cache.
    fn memory_children(self) -> Result<Vec<u32>, ImportError> {
        let mut nodes = Vec::new();
        for child in self.xml.children().filter(Xml::is_element).map(|xml| Object { xml, ..self }) {
            match child.kind() {
                "NUMANode" => nodes.push(child.node_index()?),
                "MemCache" => {
                    for xml in child.xml.children().filter(|xml| xml.attribute("type") == Some("NUMANode")) {
                        nodes.push(Object { xml, ..self }.node_index()?);
                    }
                }
                _ => {}
            }
        }
        Ok(nodes)
    }
}

/// What the way from a PU to the root says.
#[derive(Default)]
struct Way {
    core: Option<u32>,
    package: Option<u32>,
    llc: Option<(u8, u32)>,
    node: Option<u32>,
}

impl Way {
    fn of(pu: Object<'_>, local: &mut BTreeMap<u32, Option<u32>>) -> Result<Self, ImportError> {
        let mut way = Self::default();
        for (depth, xml) in pu.xml.ancestors().enumerate() {
            if depth > DEPTH_MAX {
                return Err(pu.wrong("os_index", "a PU at most 64 levels deep"));
            }
            let object = Object { xml, ..pu };
            match object.kind() {
                "Core" => way.core = way.core.or(Some(object.label())),
                "Package" | "Socket" => way.package = way.package.or(Some(object.label())),
                "NUMANode" => way.node = way.node.or(Some(object.node_index()?)),
                _ => {}
            }
            if let Some(level) = object.cache_level().filter(|level| way.llc.is_none_or(|(best, _)| best < *level)) {
                way.llc = Some((level, object.label()));
            }
            if way.node.is_none() {
                way.node = match local.get(&object.label()) {
                    Some(known) => *known,
                    None => {
                        // Several nodes at one place (high-bandwidth memory): the lowest is the CPUs'.
                        let lowest = object.memory_children()?.into_iter().min();
                        local.insert(object.label(), lowest);
                        lowest
                    }
                };
            }
        }
        Ok(way)
    }
}

fn parse(path: &Path, text: &str) -> Result<Import, ImportError> {
    // hwloc's files have a DOCTYPE; the parser bounds entity expansion.
    let options = ParsingOptions { allow_dtd: true, nodes_limit: XML_NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| ImportError::content(path, format!("not well-formed XML: {error}")))?;
    if !document.root_element().has_tag_name("topology") {
        let found = document.root_element().tag_name().name();
        return Err(read::value(path, 1, 1, "an hwloc <topology> element", found));
    }
    let objects = document.descendants().filter(|xml| xml.has_tag_name("object")).map(|xml| Object { path, xml });
    let mut cpus: Vec<Cpu> = Vec::new();
    let mut node_ids = BTreeSet::new();
    let (mut llc_level, mut notices) = (BTreeMap::new(), Vec::new());
    let mut local = BTreeMap::new();
    let mut allowed = None;
    for object in objects {
        match object.kind() {
            "PU" => {
                let id = CpuId(object.os_index(CPUS_MAX, "a PU with an os_index below 8192")?);
                if cpus.len() == CPUS_MAX as usize {
                    return Err(ImportError::content(path, "more than 8192 PUs; each CPU must stand once"));
                }
                let way = Way::of(object, &mut local)?;
                llc_level.extend(way.llc.map(|(level, _)| (id, level)));
                let own = object.label();
                let llc = way.llc.map_or(own, |(_, label)| label);
                let package = way.package.unwrap_or(0);
                let node = way.node.unwrap_or(0);
                cpus.push(Cpu { id, core: way.core.unwrap_or(own), thread: 0, llc, mc: llc, package, node });
            }
            "NUMANode" => {
                node_ids.insert(object.node_index()?);
            }
            "Machine" => allowed = allowed.or(object.xml.attribute("allowed_cpuset").and_then(read::mask)),
            _ => {}
        }
    }
    let all: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
    if let Some(denied) = allowed.map(|allowed| all.and_not(&allowed)).filter(|denied| !denied.is_empty()) {
        notices.push(format!("CPUs {denied} exist, but the process that wrote the file was not allowed to use them"));
    }
    node_ids.extend(cpus.iter().map(|cpu| cpu.node));
    let ids: Vec<u32> = node_ids.into_iter().collect();
    let distances = Distances::find(path, &document)?;
    if distances.0.is_empty() && ids.len() > 1 {
        notices.push("the file says nothing of node distances: 10 and 20 are assumed".into());
    }
    let nodes = distances.rows(&ids);
    let machine = Machine::new(cpus, nodes, &CpuSet::new()).map_err(ImportError::machine(path))?;
    Ok(Import { llc_level, notices, ..Import::from(machine) })
}

/// Distances by pair of node numbers, as far as the file has them.
struct Distances(BTreeMap<(u32, u32), u32>);

impl Distances {
    /// The `distances2` element with latencies between NUMA nodes (hwloc 2 and later).
    fn find(path: &Path, document: &Document<'_>) -> Result<Self, ImportError> {
        let latencies = |xml: &Xml<'_, '_>| {
            xml.has_tag_name("distances2")
                && xml.attribute("type") == Some("NUMANode")
                && xml.attribute("name").is_none_or(|name| name == "NUMALatency")
                && xml.attribute("indexing").is_none_or(|indexing| indexing == "os")
        };
        let Some(element) = document.descendants().find(latencies) else { return Ok(Self(BTreeMap::new())) };
        let numbers = |tag: &str| -> Result<Vec<u32>, ImportError> {
            let mut numbers = Vec::new();
            for part in element.children().filter(|xml| xml.has_tag_name(tag)) {
                for word in part.text().unwrap_or_default().split_ascii_whitespace() {
                    let object = Object { path, xml: part };
                    let wrong = |_| match object.wrong("length", "a number") {
                        ImportError::Value { path, line, column, wanted, .. } => {
                            ImportError::Value { path, line, column, wanted, found: word.chars().take(40).collect() }
                        }
                        other => other,
                    };
                    numbers.push(word.parse().map_err(wrong)?);
                }
            }
            Ok(numbers)
        };
        let (indexes, values) = (numbers("indexes")?, numbers("u64values")?);
        if indexes.len().checked_mul(indexes.len()) != Some(values.len()) {
            let what = format!("{} node distances for {} nodes; there must be one a pair", values.len(), indexes.len());
            return Err(ImportError::content(path, what));
        }
        let pairs = indexes.iter().flat_map(|from| indexes.iter().map(move |to| (*from, *to)));
        Ok(Self(pairs.zip(values).collect()))
    }

    /// The nodes with their rows; the usual 10 and 20 where the file is silent.
    fn rows(&self, ids: &[u32]) -> Vec<Node> {
        let rows = ids.iter().zip(uniform_distances(ids.len()));
        let known = |from, to, default| self.0.get(&(from, to)).copied().unwrap_or(default);
        rows.map(|(from, row)| {
            let distance = ids.iter().zip(row).map(|(to, default)| known(*from, *to, default)).collect();
            Node { id: *from, distance }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Import, ImportError> {
        parse(Path::new("m.xml"), text)
    }

    const HWLOC_2: &str = r#"<?xml version="1.0"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" allowed_cpuset="0x0000001f">
    <object type="Package" os_index="3">
      <object type="MemCache"><object type="NUMANode" os_index="4"/></object>
      <object type="NUMANode" os_index="9"/>
      <object type="L3Cache"><object type="L2Cache"><object type="L1Cache"><object type="L1iCache">
        <object type="Core" os_index="0"><object type="PU" os_index="0"/><object type="PU" os_index="4"/></object>
      </object></object></object></object>
      <object type="L2Cache"><object type="Core" os_index="1"><object type="PU" os_index="2"/></object></object>
    </object>
    <object type="Package" os_index="7">
      <object type="NUMANode" os_index="6"/>
      <object type="Core" os_index="0"><object type="PU" os_index="5"/></object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="3" kind="5" name="NUMALatency" indexing="os">
    <indexes length="6">4 6 9 </indexes>
    <u64values length="20">10 21 28 21 10 </u64values><u64values length="10">28 28 28 10 </u64values>
  </distances2>
</topology>"#;

    #[test]
    fn hwloc_2_objects_are_read_off_the_way_to_the_root() {
        let import = read(HWLOC_2).unwrap();
        let normal = "pkg=0,2,4/5:smt=0,4/2/5:llc=0,4/2/5:node4=0,2,4:node6=5:node9=:dist=10,21,28/21,10,28/28,28,10";
        assert_eq!(import.machine.to_string(), normal);
        assert_eq!(import.llc_level, BTreeMap::from([(CpuId(0), 3), (CpuId(2), 2), (CpuId(4), 3)]));
        assert_eq!(import.notices, ["CPUs 5 exist, but the process that wrote the file was not allowed to use them"]);
    }

    #[test]
    fn hwloc_1_nodes_and_caches_are_on_the_way() {
        let text = r#"<topology><object type="Machine"><object type="NUMANode" os_index="1"><object type="Socket">
            <object type="Cache" depth="2" cache_type="0"><object type="Cache" depth="1" cache_type="2">
            <object type="Core"><object type="PU" os_index="0"/></object>
            <object type="Core"><object type="PU" os_index="1"/></object>
            </object></object></object></object></object></topology>"#;
        let import = read(text).unwrap();
        assert_eq!(import.machine.to_string(), "pkg=0-1:node1=0-1");
        assert_eq!(import.llc_level, BTreeMap::from([(CpuId(0), 2), (CpuId(1), 2)]));
    }

    #[test]
    fn errors_name_file_place_and_value() {
        let with = |from: &str, to: &str| read(&HWLOC_2.replace(from, to)).unwrap_err().to_string();
        for (got, want) in [
            (read("<topology").unwrap_err().to_string(), "m.xml: not well-formed XML"),
            (read("<a/>").unwrap_err().to_string(), "m.xml:1:1: expected an hwloc <topology> element, found 'a'"),
            (read("<topology/>").unwrap_err().to_string(), "m.xml: the topology has no online CPU"),
            (
                with("\"PU\" os_index=\"2\"", "\"PU\" os_index=\"-2\""),
                "m.xml:11:63: expected a PU with an os_index below 8192, found '-2'",
            ),
            (with("\"PU\" os_index=\"2\"", "\"PU\" os_index=\"4\""), "m.xml: CPU 4 is described twice"),
            (with("\"NUMANode\" os_index=\"9\"", "\"NUMANode\" os_index=\"9999\""), "m.xml:7:7: expected a NUMANode"),
            (with("28 28 28 10", "28 28 z 10"), "m.xml:20:55: expected a number, found 'z'"),
            (with("28 28 28 10", "28 28 28"), "m.xml: 8 node distances for 3 nodes"),
        ] {
            assert!(got.contains(want), "got '{got}', wanted '{want}'");
        }
    }

    #[test]
    fn deep_and_self_expanding_files_end() {
        let deep = format!(
            "<topology>{}<object type=\"PU\" os_index=\"0\"/>{}</topology>",
            "<a>".repeat(80),
            "</a>".repeat(80)
        );
        assert!(read(&deep).unwrap_err().to_string().contains("at most 64 levels deep"));
        let entity = |n: u32| format!("<!ENTITY e{} \"{}\">", n + 1, format!("&e{n};").repeat(10));
        let entities: String = (0..12).map(entity).collect();
        let bomb = format!("<!DOCTYPE t [<!ENTITY e0 \"x\">{entities}]><topology>&e12;</topology>");
        assert!(read(&bomb).is_err());
    }

    proptest! {
        #[test]
        fn any_damage_is_answered(at in 0..HWLOC_2.len(), cut in 0usize..40, put in "[<>/\"0-9a-z ]{0,6}") {
            let mut text = HWLOC_2.to_owned();
            text.replace_range(at..(at + cut).min(HWLOC_2.len()), &put);
            if let Ok(import) = read(&text) {
                prop_assert_eq!(import.machine.to_string().parse::<Machine>().unwrap(), import.machine);
            }
        }
    }
}
