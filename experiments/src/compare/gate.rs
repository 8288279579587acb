//! The gate: only like things are compared, unless the user names what to ignore.
//!
//! Within one result everything is alike. Between results the fingerprint of the host and the question (the plans of the
//! compared modes) must agree. The number of blocks, the seed and modes that are not compared may differ: they change
//! how sure a verdict is, not what it is about.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::Difference;
use crate::result::ResultFile;

/// Something in which results may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// `kvm` or `sim`.
    Engine,
    /// Processor, microcode, CPUs on line.
    Host,
    /// Kernel release.
    Kernel,
    /// Kind of KVM and its module parameters.
    Kvm,
    /// Topology.
    Topology,
    /// The guest image.
    Guest,
    /// What was asked: VMs, vCPUs, workload, times, sysctls.
    Experiment,
}

impl Aspect {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Engine, Self::Host, Self::Kernel, Self::Kvm, Self::Topology, Self::Guest, Self::Experiment];

    /// The name that `--ignore` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Host => "host",
            Self::Kernel => "kernel",
            Self::Kvm => "kvm",
            Self::Topology => "topology",
            Self::Guest => "guest",
            Self::Experiment => "experiment",
        }
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Aspect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|aspect| aspect.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("results cannot differ in '{text}'; write one or more of {names}")
        })
    }
}

/// Everything in which `old` and `new` differ and that matters for comparing these modes (old, new).
pub(super) fn differences(old: &ResultFile, new: &ResultFile, modes: &[(String, String)]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut check = |aspect: Aspect, field: &str, old: Option<&str>, new: Option<&str>| {
        if old != new {
            let word = |value: Option<&str>| value.unwrap_or("unknown").to_owned();
            let (what, field) = (aspect.name().into(), field.into());
            found.push(Difference { what, field, old: word(old), new: word(new) });
        }
    };
    let (a, b) = (&old.host, &new.host);
    check(Aspect::Engine, "engine", Some(&old.engine), Some(&new.engine));
    check(Aspect::Host, "processor", a.cpu.as_deref(), b.cpu.as_deref());
    check(Aspect::Host, "microcode", a.microcode.as_deref(), b.microcode.as_deref());
    check(Aspect::Host, "CPUs on line", a.cpus_online.as_deref(), b.cpus_online.as_deref());
    check(Aspect::Kernel, "kernel", a.kernel.as_deref(), b.kernel.as_deref());
    check(Aspect::Kvm, "kind of KVM", a.kvm.as_deref(), b.kvm.as_deref());
    for (name, old, new) in both(&a.kvm_parameters, &b.kvm_parameters) {
        check(Aspect::Kvm, name, old.map(String::as_str), new.map(String::as_str));
    }
    check(Aspect::Topology, "topology", a.topology.as_deref(), b.topology.as_deref());
    check(Aspect::Guest, "guest image", a.guest_digest.as_deref(), b.guest_digest.as_deref());
    for (name, old, new) in questions(old, new, modes) {
        check(Aspect::Experiment, &name, Some(&old), Some(&new));
    }
    found
}

/// The fields in which the plans of the compared modes differ, each once.
fn questions(old: &ResultFile, new: &ResultFile, modes: &[(String, String)]) -> Vec<(String, String, String)> {
    let mut found = BTreeMap::new();
    for (of, against) in modes {
        let (mut a, mut b) = (fields(old, of), fields(new, against));
        simulated(old, &mut a);
        simulated(new, &mut b);
        for (name, a, b) in both(&a, &b) {
            // Two different modes are compared because they differ in these.
            let intended = of != against && (name == "mode" || name.starts_with("axes."));
            if a != b && !intended {
                let word = |value: Option<&Value>| match value {
                    None | Some(Value::Null) => "default".to_owned(),
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                };
                found.entry(name.to_owned()).or_insert((word(a), word(b)));
            }
        }
    }
    found.into_iter().map(|(name, (old, new))| (name, old, new)).collect()
}

/// The plan of a mode, flat; without what is not part of the question.
fn fields(result: &ResultFile, mode: &str) -> BTreeMap<String, Value> {
    let plan = result.experiment.plans.iter().find(|plan| plan.mode == mode);
    // Plain data with string keys: it cannot fail to serialize.
    let value = plan.and_then(|plan| serde_json::to_value(plan).ok()).unwrap_or_default();
    let mut flat = BTreeMap::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => flat.extend(inner.iter().map(|(key, v)| (format!("{name}.{key}"), v.clone()))),
            _ if ["seed", "block", "cgroup"].contains(&name.as_str()) => {}
            _ => drop(flat.insert(name.clone(), value.clone())),
        }
    }
    flat
}

/// What was asked of the simulator.
fn simulated(result: &ResultFile, fields: &mut BTreeMap<String, Value>) {
    let value = serde_json::to_value(&result.experiment.simulated).unwrap_or_default();
    fields.extend(value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
}

/// The entries of both maps by key.
fn both<'a, V>(
    a: &'a BTreeMap<String, V>,
    b: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = (&'a str, Option<&'a V>, Option<&'a V>)> {
    let mut names: Vec<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| (name, a.get(name), b.get(name)))
}
