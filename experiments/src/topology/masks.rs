//! From what each CPU says of its siblings to one label a CPU.
//!
//! sysfs lists siblings once a CPU. Lists that describe a machine agree: they are a partition of the CPUs, and the first
//! CPU of a list is its label.

use std::collections::BTreeMap;
use std::path::Path;

use hostsched::topology::{CpuId, CpuSet};

use super::ImportError;

/// What each CPU says of who shares something with it.
pub(super) struct Masks {
    what: &'static str,
    of: BTreeMap<CpuId, CpuSet>,
    /// CPUs of which nothing is said.
    silent: CpuSet,
}

impl Masks {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, of: BTreeMap::new(), silent: CpuSet::new() }
    }

    pub(super) fn add(&mut self, cpu: CpuId, mask: Option<CpuSet>, online: &CpuSet) {
        if mask.is_none() {
            self.silent.insert(cpu);
        }
        let mut mask = mask.unwrap_or_default().and(online);
        mask.insert(cpu);
        self.of.insert(cpu, mask);
    }

    /// Refuses masks that are no partition: CPUs that share something must agree who they are.
    pub(super) fn check(&self, path: &Path, allow_broken: bool, notices: &mut Vec<String>) -> Result<(), ImportError> {
        if !self.silent.is_empty() {
            notices
                .push(format!("nothing says who shares a {} with CPUs {}: each has its own", self.what, self.silent));
        }
        // All agree with the first CPU of their set, and a first CPU's set holds only CPUs that call it so.
        let differing = |cpu: CpuId, mask: &CpuSet| {
            let first = mask.first()?;
            if self.of[&first] != *mask {
                return Some((cpu, first));
            }
            let stranger = mask.iter().find(|other| first == cpu && self.of[other].first() != Some(cpu));
            stranger.map(|other| (cpu, other))
        };
        let Some((cpu, other)) = self.of.iter().find_map(|(cpu, mask)| differing(*cpu, mask)) else { return Ok(()) };
        let what = format!(
            "CPU {cpu} says that CPUs {} share its {}, CPU {other} says {}; they must say the same",
            self.of[&cpu], self.what, self.of[&other]
        );
        if allow_broken {
            notices.push(what);
            return Ok(());
        }
        Err(ImportError::content(path, what))
    }

    pub(super) fn label(&self, cpu: CpuId) -> u32 {
        self.of.get(&cpu).and_then(CpuSet::first).map_or(cpu.0, |first| first.0)
    }
}
