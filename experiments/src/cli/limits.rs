//! What a run takes from the limits of this process.

use rustix::process::{Resource, getrlimit};

use crate::exit::Error;
use crate::experiment::Experiment;

/// Descriptors that a run needs beside those of its vCPUs and VMs: the program's own.
const FILES_BASE: u64 = 64;

/// Descriptors of a VM: KVM's, its bell, and one to spare.
const FILES_PER_VM: u64 = 3;

/// Signals that a vCPU may have pending: its tick and its kick.
const SIGNALS_PER_VCPU: u64 = 2;

/// One limit of the process, and what is asked of it.
pub(super) struct Limit {
    /// What is limited.
    pub(super) what: &'static str,
    /// The option of `ulimit` that raises it.
    pub(super) ulimit: char,
    /// What the run needs, roughly.
    pub(super) need: u64,
    /// What there is; `None`: no limit.
    pub(super) have: Option<u64>,
}

impl Limit {
    pub(super) fn enough(&self) -> bool {
        self.have.is_none_or(|have| have >= self.need)
    }
}

/// The limits that `vms` machines of `vcpus` vCPUs meet.
pub(super) fn limits(vms: u32, vcpus: u32) -> [Limit; 2] {
    let (vms, all) = (u64::from(vms), u64::from(vms) * u64::from(vcpus));
    let limit = |what, ulimit, resource, need| Limit { what, ulimit, need, have: getrlimit(resource).current };
    [
        limit("open files", 'n', Resource::Nofile, FILES_BASE + vms * FILES_PER_VM + all),
        limit("pending signals", 'i', Resource::Sigpending, all * SIGNALS_PER_VCPU),
    ]
}

/// Refuses an experiment that this process would not be let run.
///
/// # Errors
/// The limit, what is needed, and how to raise it.
pub(super) fn check(experiment: &Experiment) -> Result<(), Error> {
    let Some(plan) = experiment.plans.iter().max_by_key(|plan| plan.vms) else { return Ok(()) };
    for limit in limits(plan.vms, plan.vcpus) {
        if let (false, Some(have)) = (limit.enough(), limit.have) {
            return Err(Error::Usage(format!(
                "--vms {} x --vcpus {} need about {} {}, and this process may have {have}; raise it by ulimit -{}, or \
                 ask for less",
                plan.vms, plan.vcpus, limit.need, limit.what, limit.ulimit
            )));
        }
    }
    Ok(())
}
