//! What a VM may expect of the CPUs, whatever the scheduler then does.
//!
//! Every VM has the same weight. The CPUs are shared max-min fairly: nobody gets more than it can use (a VM as many CPUs as it
//! has vCPUs), and what one leaves over goes to the others.
//!
//! ```text
//!   2 CPUs, 1 VM  x 8 vCPUs:  2 CPUs
//!   2 CPUs, 4 VMs x 8 vCPUs:  0.5 CPU each
//!   8 CPUs, 2 VMs x 2 vCPUs:  2 CPUs each, and 4 are left over
//! ```
//! A VM that halts uses less than that, and then another may use more: a share of 1 is what it gets if all want all.

use crate::RunPlan;

/// CPUs that each is entitled to at every moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EntitledCpus {
    /// Each VM.
    pub vm: f64,
}

/// What the VMs of a plan are entitled to.
#[must_use]
pub fn entitled_cpus(plan: &RunPlan) -> EntitledCpus {
    let cpus = f64::from(u32::try_from(plan.pcpus.as_slice().len()).unwrap_or(u32::MAX));
    EntitledCpus { vm: f64::from(plan.vcpus).min(cpus / f64::from(plan.vms.max(1))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuList, Mode};

    #[test]
    fn nobody_gets_more_than_it_can_use_and_the_rest_is_shared_evenly() {
        for (cpus, vms, vcpus, vm) in [("0-1", 1, 8, 2.0), ("0-1", 4, 8, 0.5), ("0-7", 2, 2, 2.0), ("0", 1, 1, 1.0)] {
            let pcpus: CpuList = cpus.parse().unwrap();
            let plan = RunPlan { pcpus, vms, vcpus, ..RunPlan::sample(Mode::Base) };
            assert_eq!(entitled_cpus(&plan), EntitledCpus { vm }, "{vms} VMs x {vcpus} on {cpus}");
        }
    }
}
