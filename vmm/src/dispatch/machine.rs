//! The run's CPUs as `hostsched` sees them: what they share, read from sysfs, renumbered as slots.
//!
//! Only the CPUs of the run exist in this machine: slot i is the i-th of the plan's list. What cannot be read is taken
//! as shared by all, which gives one flat domain.

use std::fs;

use hostsched::topology::{Cpu, CpuId, CpuSet, LOCAL_DISTANCE, Machine, MachineError, Node};
use plan::CpuList;

/// The machine of these CPUs.
///
/// # Errors
/// None that a list of CPUs can cause: they are dense and different.
pub(super) fn machine(cpus: &CpuList) -> Result<Machine, MachineError> {
    let slots = 0..;
    let described = slots.zip(cpus.as_slice()).map(|(slot, &number)| Cpu {
        id: CpuId(slot),
        core: first_of(number, "topology/core_cpus_list").unwrap_or(number),
        thread: 0,
        llc: last_level_cache(number),
        mc: last_level_cache(number),
        package: first_of(number, "topology/package_cpus_list").unwrap_or(0),
        node: 0,
    });
    let node = Node { id: 0, distance: vec![LOCAL_DISTANCE] };
    Machine::new(described.collect(), vec![node], &CpuSet::new())
}

/// The label of the CPU's last-level cache: the first CPU that shares the cache of the highest index.
fn last_level_cache(cpu: u32) -> u32 {
    let indices = (0..8).rev();
    indices.map(|i| format!("cache/index{i}/shared_cpu_list")).find_map(|file| first_of(cpu, &file)).unwrap_or(0)
}

/// The first CPU of a list in the CPU's sysfs directory: the same for all CPUs that share the thing.
fn first_of(cpu: u32, file: &str) -> Option<u32> {
    let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/{file}")).ok()?;
    text.trim().parse::<CpuList>().ok()?.as_slice().first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_dense_whatever_the_cpus_are_called() {
        // CPUs that this host may not have: then everything is shared.
        let machine = machine(&"5,9,6000".parse().unwrap()).unwrap();
        let slots: Vec<_> = machine.cpus().iter().map(|cpu| cpu.id.0).collect();
        assert_eq!(slots, [0, 1, 2]);
    }
}
