//! Hosts and plans of these tests.
use plan::{CpuList, Mode, RunPlan, WorkloadParams};
use sim::Machine;
use sim::machine::Costs;

pub(crate) const MS: u64 = 1_000_000;

/// Costs in the order of magnitude of real ones. One that is not here is 0.
const COSTS: &[(&str, u64)] = &[
    ("cpu_clock", 2400),
    ("context_switch", 3000),
    ("exit", 1500),
    ("tick", 2000),
    ("tick_skew", 125_000),
    ("noise", 7),
    ("noise_time", 100_000),
    ("ipi_send", 1500),
    ("ipi_deliver", 2000),
    ("ipi_handler", 1000),
    ("halt", 2000),
    ("hypercall", 1500),
    ("tlb_flush", 500),
    ("guest_tick", 3000),
    ("guest_switch", 1000),
    ("spin_turn", 10),
    ("pause_gap", 1221),
    ("on_spin", 2000),
    ("contention", 60),
    ("cache_penalty", 600),
    ("cache_half_life", 2 * MS),
    ("page_touch", 900),
    ("page_copy", 400),
    ("page_search", 300),
    ("page_unmap", 500),
    ("mmap_write", 20),
];

/// A host of that topology, with pause-loop exiting.
pub(crate) fn host(topology: &str) -> Machine {
    let mut costs = Costs::default();
    for (id, value) in COSTS {
        *costs.get_mut(id).unwrap_or_else(|| panic!("there is no cost '{id}' any more")) = *value;
    }
    Machine {
        name: "test".into(),
        title: "a host of the tests".into(),
        topology: topology.parse().unwrap(),
        topology_source: "assumed".into(),
        ple: true,
        costs,
        sources: std::collections::BTreeMap::new(),
    }
}

/// VMs of ebizzy on the first `cpus` CPUs; short.
pub(crate) fn plan(mode: Mode, vms: u32, vcpus: u32, cpus: u32) -> RunPlan {
    RunPlan {
        vms,
        vcpus,
        pcpus: CpuList::new((0..cpus).collect()).unwrap(),
        gang_cpus: 8,
        duration_ns: 120 * MS,
        warmup_ns: 20 * MS,
        params: WorkloadParams {
            chunk_pages: 32,
            search_passes: 4,
            flush_per_mille: 500,
            threads_per_vcpu: 2,
            ..WorkloadParams::default()
        },
        seed: 1,
        ..RunPlan::sample(mode)
    }
}
