//! The policies by name: one constructor for both engines.
use std::fmt;
use std::str::FromStr;

use super::{Gang, GangSettings, GangVariant, Ple, PleSwitches, Policy};
use crate::host::Host;

/// What the host does beyond CFS, as the command line names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyKind {
    /// Nothing.
    #[default]
    Cfs,
    /// Gang V1.
    GangNext,
    /// Gang V2.
    Gang,
    /// `kvm_vcpu_on_spin`.
    Ple,
    /// Gang V1 and `kvm_vcpu_on_spin`.
    GangNextPle,
    /// Gang V2 and `kvm_vcpu_on_spin`.
    GangPle,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Cfs, Self::GangNext, Self::Gang, Self::Ple, Self::GangNextPle, Self::GangPle];

    /// Its one spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cfs => "cfs",
            Self::GangNext => "gang-next",
            Self::Gang => "gang",
            Self::Ple => "ple",
            Self::GangNextPle => "gang-next-ple",
            Self::GangPle => "gang-ple",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no policy has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("host policy '{0}' does not exist: it is one of cfs, gang-next, gang, ple, gang-next-ple, gang-ple")]
pub struct UnknownPolicy(String);

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|k| k.name() == text);
        named.ok_or_else(|| UnknownPolicy(text.chars().take(40).collect()))
    }
}

/// Settings of all policies; each takes its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PolicySettings {
    /// Of gang scheduling; its `variant` follows from the name.
    pub gang: GangSettings,
    /// Of directed yield.
    pub ple: PleSwitches,
}

/// Adds the policies of that name to a host that has no task yet. Returns what the user should know about them.
pub fn install(host: &mut Host, kind: PolicyKind, settings: &PolicySettings) -> Vec<String> {
    let gang = |host: &Host, variant| -> Box<dyn Policy> {
        Box::new(Gang::new(host, GangSettings { variant, ..settings.gang }))
    };
    match kind {
        PolicyKind::Cfs | PolicyKind::Ple => {}
        PolicyKind::GangNext | PolicyKind::GangNextPle => host.add_policy(gang(host, GangVariant::Next)),
        PolicyKind::Gang | PolicyKind::GangPle => host.add_policy(gang(host, GangVariant::Gang)),
    }
    if matches!(kind, PolicyKind::Ple | PolicyKind::GangNextPle | PolicyKind::GangPle) {
        host.add_policy(Box::new(Ple::new(host, settings.ple)));
    }
    host.policies().iter().flat_map(|p| p.notices()).collect()
}
