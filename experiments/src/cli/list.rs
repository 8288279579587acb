//! `vmmlab list`: the names that other commands take.

use std::fmt::Write;

use hostsched::topology::PRESETS;
use plan::{Mode, Workload};

use super::print;
use crate::exit::{Error, Exit};
use crate::simulator;
use crate::table::{grid, legend};

pub(super) fn list() -> Result<Exit, Error> {
    let mut page = String::from("Modes\n  name          host policy   flush      spin  vCPUs   what it does\n");
    for mode in Mode::ALL {
        let axes = mode.axes();
        let vcpus = if axes.pin { "pinned" } else { "free" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "  {mode:<13} {:<13} {:<10} {:<5} {vcpus:<7} {}",
            axes.host_policy,
            axes.flush,
            axes.spin,
            about(*mode)
        );
    }
    workloads(&mut page);
    machines(&mut page);
    topologies(&mut page);
    let _ = writeln!(page, "\nMetrics\n{}", legend());
    print(&page)?;
    Ok(Exit::Ok)
}

/// Workloads with the unit of their record, what they do not measure, and their constants.
fn workloads(page: &mut String) {
    page.push_str("\nWorkloads\n  name       measured in\n");
    for workload in Workload::ALL {
        let about = workload.about();
        let rate = format!("{}/s", about.records);
        let _ = writeln!(page, "{}", grid::wrap(&format!("  {workload:<10} {rate:<15} {}", about.text), 28));
        let caveat = format!("{:28}not measured: {}", "", about.caveat);
        let _ = writeln!(page, "{}", grid::wrap(&caveat, 28));
    }
    page.push_str("\nConstants of the workloads (--param NAME=N,...)\n");
    for workload in Workload::ALL {
        for info in workload.params().filter(|info| info.workloads.first() == Some(workload)) {
            let text = info.text.trim().trim_end_matches('.');
            let range = format!("[{} to {} {}; default {}]", info.min, info.max, info.unit, info.default);
            let row = format!("  {workload:<10} {:<18} {text} {range}", info.id);
            let _ = writeln!(page, "{}", grid::wrap(&row, 32));
        }
    }
}

/// The machines of the simulator.
fn machines(page: &mut String) {
    page.push_str("\nMachines of the simulator (--machine)\n");
    for name in simulator::names() {
        // The program's own descriptions can be read; a test does.
        let title = simulator::machine(name).map(|machine| machine.title).unwrap_or_default();
        let _ = writeln!(page, "{}", grid::wrap(&format!("  {name:<10} {title}"), 13));
    }
}

/// The topologies that have a name.
fn topologies(page: &mut String) {
    page.push_str("\nTopologies with a name (--topology)\n");
    for preset in PRESETS {
        let _ = writeln!(page, "{}", grid::wrap(&format!("  {:<22} {}", preset.name, preset.about), 25));
    }
}

/// The idea of a mode in a few words.
fn about(mode: Mode) -> &'static str {
    match mode {
        Mode::Base => "what Linux does: IPI all, wait for all",
        Mode::Pin => "base without migration",
        Mode::GangNext => "run a VM's vCPUs together, as a hint (V1)",
        Mode::Gang => "run a VM's vCPUs together (V2)",
        Mode::Ple => "a spinning vCPU yields to a sibling",
        Mode::GangNextPle => "gang-next and ple",
        Mode::GangPle => "gang and ple",
        Mode::PvFlush => "flush sleepers on entry, halt for the rest",
        Mode::HaltKick => "halt until the last one has flushed",
        Mode::OnEnter => "flush sleepers on entry, wait for the rest",
        Mode::Hypercall => "the host flushes",
    }
}
