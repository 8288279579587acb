//! What a VM may expect of the CPUs, whatever the scheduler then does.
//!
//! Every VM, and the neighbour, has the same weight. The CPUs are shared max-min fairly: nobody gets more than it can use (a
//! VM as many CPUs as it has vCPUs), and what one leaves over goes to the others.
//!
//! ```text
//!   2 CPUs, 1 VM  x 8 vCPUs:  2 CPUs
//!   2 CPUs, 4 VMs x 8 vCPUs:  0.5 CPU each
//!   8 CPUs, 2 VMs x 2 vCPUs:  2 CPUs each, and 4 are left over
//!   2 CPUs, 1 VM  x 8 vCPUs, and a neighbour that computes without end:  1 CPU each
//! ```
//! A VM that halts uses less than that, and then another may use more: a share of 1 is what it gets if all want all.

use crate::RunPlan;

/// CPUs that each is entitled to at every moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EntitledCpus {
    /// Each VM.
    pub vm: f64,
    /// The neighbour; 0 without one.
    pub neighbour: f64,
}

/// What the VMs and the neighbour of a plan are entitled to.
#[must_use]
pub fn entitled_cpus(plan: &RunPlan) -> EntitledCpus {
    let cpus = f64::from(u32::try_from(plan.pcpus.as_slice().len()).unwrap_or(u32::MAX));
    let (vms, demand) = (f64::from(plan.vms.max(1)), plan.neighbour.demand());
    let even = cpus / (vms + f64::from(plan.neighbour.count()));
    // The neighbour's demand is at most one CPU, which every VM can use too: so it is satisfied first, or all are even.
    let neighbour = demand.min(even);
    EntitledCpus { vm: f64::from(plan.vcpus).min((cpus - neighbour) / vms), neighbour }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuList, Mode, Neighbour};

    #[test]
    fn nobody_gets_more_than_it_can_use_and_the_rest_is_shared_evenly() {
        use Neighbour::{None, Sleeper, Spin};
        let little = 200.0 / 10_200.0;
        for (cpus, vms, vcpus, beside, vm, neighbour) in [
            ("0-1", 1, 8, None, 2.0, 0.0),
            ("0-1", 4, 8, None, 0.5, 0.0),
            ("0-7", 2, 2, None, 2.0, 0.0),
            ("0", 1, 1, None, 1.0, 0.0),
            ("0-1", 1, 8, Spin, 1.0, 1.0),
            ("0-3", 1, 8, Spin, 3.0, 1.0),
            ("0-1", 3, 2, Spin, 0.5, 0.5),
            ("0-7", 2, 2, Spin, 2.0, 1.0),
            ("0-1", 4, 8, Sleeper, (2.0 - little) / 4.0, little),
        ] {
            let pcpus: CpuList = cpus.parse().unwrap();
            let plan = RunPlan { pcpus, vms, vcpus, neighbour: beside, ..RunPlan::sample(Mode::Base) };
            assert_eq!(entitled_cpus(&plan), EntitledCpus { vm, neighbour }, "{vms} VMs x {vcpus} on {cpus}, {beside}");
        }
    }
}
