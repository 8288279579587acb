//! Topologies as people read them: a summary, a table of what shares what, a drawing of small machines, and the domains
//! of each CPU. Every line that does not list CPUs has at most 100 columns.

use std::fmt::Write as _;

use hostsched::topology::{Cpu, CpuId, CpuSet, Machine, SchedDomains};

use super::Import;

/// Machines of more columns are not drawn.
const DRAWING_WIDTH_MAX: usize = 100;

/// A label of a CPU: one of the fields of [`Cpu`].
type Label = fn(&Cpu) -> u32;

/// The whole page but the domains.
pub(super) fn machine(import: &Import) -> String {
    let machine = &import.machine;
    format!("{}\n{}{}", summary(import), drawing(machine).unwrap_or_default(), table(machine))
}

/// Counts, a line each.
fn summary(import: &Import) -> String {
    let machine = &import.machine;
    let online = machine.online();
    let sizes = |label: Label| {
        let parts = machine.partition(online, label);
        let mut sizes: Vec<u32> = parts.values().map(CpuSet::weight).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
        format!("{}, {} CPU(s) each", parts.len(), sizes.join(" or "))
    };
    let mut levels: Vec<String> = import.llc_level.values().map(|level| format!("L{level}")).collect();
    levels.sort_unstable();
    levels.dedup();
    let levels = if levels.is_empty() { String::new() } else { format!(", {}", levels.join(" and ")) };
    let mut text = String::new();
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<9} {value}");
    line("topology", machine.to_string());
    line("online", format!("{} CPU(s): {online}", online.weight()));
    let described: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
    let offline = described.and_not(online).or(&import.offline);
    if !offline.is_empty() {
        line("offline", offline.to_string());
    }
    if let Some(possible) = import.possible.as_ref().filter(|possible| !possible.is_subset(&online.or(&offline))) {
        line("possible", possible.to_string());
    }
    line("cores", sizes(|cpu| cpu.core));
    line("LLCs", sizes(|cpu| cpu.llc) + &levels);
    line("packages", sizes(|cpu| cpu.package));
    line("nodes", nodes(machine));
    text
}

/// Numbers and distances of the nodes.
fn nodes(machine: &Machine) -> String {
    let on_node = machine.partition(machine.online(), |cpu| cpu.node);
    let name = |id: u32| if on_node.contains_key(&id) { id.to_string() } else { format!("{id} (memory only)") };
    let names: Vec<String> = machine.nodes().iter().map(|node| name(node.id)).collect();
    let mut distances: Vec<u32> = machine.nodes().iter().flat_map(|node| node.distance.iter().copied()).collect();
    distances.sort_unstable();
    distances.dedup();
    let distances: Vec<String> = distances.iter().map(u32::to_string).collect();
    format!("{}; distances {}", names.join(", "), distances.join(", "))
}

/// The CPUs in an order in which all that belongs together stands together.
fn ordered(machine: &Machine) -> Vec<&Cpu> {
    let mut cpus: Vec<&Cpu> = machine.cpus().iter().filter(|cpu| machine.online().contains(cpu.id)).collect();
    cpus.sort_by_key(|cpu| (cpu.package, cpu.node, cpu.llc, cpu.core, cpu.id));
    cpus
}

/// One box a part, one row a level; `None` where the page is too narrow for it.
fn drawing(machine: &Machine) -> Option<String> {
    let cpus = ordered(machine);
    let digits = cpus.iter().map(|cpu| cpu.id.to_string().len()).max()?;
    let cell = digits + 3;
    if 9 + cpus.len() * cell > DRAWING_WIDTH_MAX {
        return None;
    }
    let rows: [(&str, Label); 5] = [
        ("node", |cpu| cpu.node),
        ("package", |cpu| cpu.package),
        ("LLC", |cpu| cpu.llc),
        ("core", |cpu| cpu.core),
        ("CPU", |cpu| cpu.id.0),
    ];
    let mut text = String::new();
    for (name, label) in rows {
        _ = write!(text, "{name:<7} |");
        for part in cpus.chunk_by(|a, b| label(a) == label(b)) {
            _ = write!(text, "{:^width$}|", label(part[0]), width = part.len() * cell - 1);
        }
        text.push('\n');
    }
    text.push('\n');
    Some(text)
}

/// One line for each cache: where it is and its cores.
fn table(machine: &Machine) -> String {
    let mut text = String::from("package  node  LLC  cores, CPUs of each in brackets\n");
    for llc in ordered(machine).chunk_by(|a, b| (a.package, a.node, a.llc) == (b.package, b.node, b.llc)) {
        let Cpu { package, node, llc: label, .. } = llc[0];
        _ = write!(text, "{package:<7}  {node:<4}  {label:<3} ");
        for core in llc.chunk_by(|a, b| a.core == b.core) {
            let cpus: CpuSet = core.iter().map(|cpu| cpu.id).collect();
            _ = write!(text, " [{cpus}]");
        }
        text.push('\n');
    }
    text
}

/// The domains of some CPUs, lowest first, as the kernel prints them at boot, and the gang span.
pub(super) fn domains(domains: &SchedDomains, cpus: &CpuSet, gang_cpus: u32) -> String {
    let mut text = String::new();
    for cpu in cpus {
        let span = domains.gang_span(cpu, gang_cpus);
        _ = writeln!(text, "CPU {cpu}, gang span {span}, leader {}", span.first().unwrap_or(cpu));
        for sd in domains.of(cpu) {
            let groups: Vec<String> = sd.groups().map(|group| group.cpus.to_string()).collect();
            let power = domains.initial_power(sd.local_group().sgp);
            let buddy = sd.idle_buddy.map_or("-".to_owned(), |CpuId(buddy)| buddy.to_string());
            _ = writeln!(
                text,
                "  {:<8} span {}  groups {}  power {power}  flags {:#06x}  idle_buddy {buddy}",
                sd.level.name(),
                sd.span,
                groups.join(" | "),
                sd.params.flags.0,
            );
        }
    }
    text
}
