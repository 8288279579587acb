//! The modes, and the axes that they are made of.
//!
//! A *mode* is a name for a point on four axes; the result records the axes, so that a mode with one axis overridden
//! is still described exactly.
//!
//! | mode        | host policy     | flush      | spin | pin |
//! |-------------|-----------------|------------|------|-----|
//! | `base`      | `cfs`           | `ipi`      | busy | no  |
//! | `pin`       | `cfs`           | `ipi`      | busy | yes |
//! | `gang-next` | `gang-next` (V1)| `ipi`      | busy | yes |
//! | `gang`      | `gang` (V2)     | `ipi`      | busy | yes |
//! | `ple`       | `ple`           | `ipi`      | ple  | no  |
//! | `gang-next-ple` | `gang-next-ple` | `ipi`  | ple  | yes |
//! | `gang-ple`  | `gang-ple`      | `ipi`      | ple  | yes |
//! | `pvflush`   | `cfs`           | `pvflush`  | halt | no  |
//! | `halt-kick` | `cfs`           | `halt-kick`| halt | no  |
//! | `on-enter`  | `cfs`           | `on-enter` | busy | no  |
//! | `hypercall` | `cfs`           | `hypercall`| busy | no  |

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares an enumeration whose variants have one spelling each, used by the command line, the JSON and the tables.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident, $what:literal { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$vmeta])* #[serde(rename = $text)] $variant,)+
        }
        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// The one spelling.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result { f.pad(self.name()) }
        }
        impl ::std::str::FromStr for $name {
            type Err = $crate::mode::ModeError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|v| v.name() == text).ok_or_else(|| {
                    $crate::mode::ModeError::unknown($what, text, Self::ALL.iter().map(|v| v.name()))
                })
            }
        }
    };
}
pub(crate) use named;

named! {
    /// What the host's scheduler does beyond CFS.
    HostPolicy, "host policy" {
        /// Plain CFS.
        Cfs = "cfs",
        /// Gang V1: fellows set the `next` buddy, which the preemption check may refuse.
        GangNext = "gang-next",
        /// Gang V2: fellows set the gang buddy, which is picked unconditionally.
        Gang = "gang",
        /// CFS with `kvm_vcpu_on_spin` directed yield.
        Ple = "ple",
        /// Gang V1 and directed yield.
        GangNextPle = "gang-next-ple",
        /// Gang V2 and directed yield.
        GangPle = "gang-ple",
    }
}

impl HostPolicy {
    /// True where fellow CPUs are asked to co-schedule a group.
    #[must_use]
    pub const fn is_gang(self) -> bool {
        matches!(self, Self::GangNext | Self::Gang | Self::GangNextPle | Self::GangPle)
    }
    /// True where a detected spin makes the host yield to a sibling.
    #[must_use]
    pub const fn is_ple(self) -> bool {
        matches!(self, Self::Ple | Self::GangNextPle | Self::GangPle)
    }
}

named! {
    /// How the guest flushes remote TLBs.
    Flush, "flush strategy" {
        /// `flush_tlb_others`: IPI every target, busy-wait for all.
        Ipi = "ipi",
        /// IPI every target, spin a budget, halt; the last acknowledger kicks.
        HaltKick = "halt-kick",
        /// Mark the targets that do not run, IPI those that do, busy-wait for these.
        OnEnter = "on-enter",
        /// One call; the host does all.
        Hypercall = "hypercall",
        /// `on-enter` for the sleeping and `halt-kick` for the running.
        PvFlush = "pvflush",
    }
}

named! {
    /// What a vCPU does while it waits for another one.
    Spin, "spin" {
        /// Spin until it is over.
        Busy = "busy",
        /// Spin, and tell the host after `ple_window` cycles.
        Ple = "ple",
        /// Spin a budget, then halt until kicked.
        Halt = "halt",
    }
}

/// A point on the four axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Axes {
    /// What the host's scheduler does.
    pub host_policy: HostPolicy,
    /// How the guest flushes remote TLBs.
    pub flush: Flush,
    /// How the guest waits.
    pub spin: Spin,
    /// vCPU i only on pCPU i mod n of the run's CPUs.
    pub pin: bool,
}

impl Axes {
    /// Refuses a flush strategy whose way of waiting contradicts the spin axis.
    ///
    /// # Errors
    /// A sentence that names both values.
    pub fn validate(&self) -> Result<(), ModeError> {
        let halts = matches!(self.flush, Flush::HaltKick | Flush::PvFlush);
        match (halts, self.spin) {
            (true, Spin::Halt) | (false, Spin::Busy | Spin::Ple) => Ok(()),
            _ => Err(ModeError::Contradiction { flush: self.flush, spin: self.spin }),
        }
    }
}

named! {
    /// A named preset of [`Axes`].
    Mode, "mode" {
        /// CFS, busy-wait flush.
        Base = "base",
        /// `base` with vCPU i on CPU i mod n.
        Pin = "pin",
        /// Gang scheduling V1.
        GangNext = "gang-next",
        /// Gang scheduling V2.
        Gang = "gang",
        /// Pause-loop exits with directed yield.
        Ple = "ple",
        /// Gang V1 and directed yield.
        GangNextPle = "gang-next-ple",
        /// Gang V2 and directed yield.
        GangPle = "gang-ple",
        /// Flush on entry for the sleeping, halt and kick for the running.
        PvFlush = "pvflush",
        /// Spin, halt, kick.
        HaltKick = "halt-kick",
        /// Flush on entry, busy-wait.
        OnEnter = "on-enter",
        /// The host flushes.
        Hypercall = "hypercall",
    }
}

impl Mode {
    /// The axes that this name stands for.
    #[must_use]
    pub const fn axes(self) -> Axes {
        use {Flush as F, HostPolicy as H, Spin as S};
        let (host_policy, flush, spin, pin) = match self {
            Self::Base => (H::Cfs, F::Ipi, S::Busy, false),
            Self::Pin => (H::Cfs, F::Ipi, S::Busy, true),
            Self::GangNext => (H::GangNext, F::Ipi, S::Busy, true),
            Self::Gang => (H::Gang, F::Ipi, S::Busy, true),
            Self::Ple => (H::Ple, F::Ipi, S::Ple, false),
            Self::GangNextPle => (H::GangNextPle, F::Ipi, S::Ple, true),
            Self::GangPle => (H::GangPle, F::Ipi, S::Ple, true),
            Self::PvFlush => (H::Cfs, F::PvFlush, S::Halt, false),
            Self::HaltKick => (H::Cfs, F::HaltKick, S::Halt, false),
            Self::OnEnter => (H::Cfs, F::OnEnter, S::Busy, false),
            Self::Hypercall => (H::Cfs, F::Hypercall, S::Busy, false),
        };
        Axes { host_policy, flush, spin, pin }
    }
}

/// A name or a combination that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// The name is not one of the list.
    #[error("{what} '{given}' does not exist; did you mean '{nearest}'? ({all})")]
    Unknown {
        /// What kind of name was read.
        what: &'static str,
        /// The text that was given.
        given: String,
        /// The nearest existing name.
        nearest: &'static str,
        /// Every existing name.
        all: String,
    },
    /// Flush and spin contradict each other.
    #[error(
        "--flush {flush} cannot wait by --spin {spin}: halt-kick and pvflush need 'halt', the others 'busy' or 'ple'"
    )]
    Contradiction {
        /// The flush strategy.
        flush: Flush,
        /// The way of waiting.
        spin: Spin,
    },
}

impl ModeError {
    pub(crate) fn unknown(what: &'static str, given: &str, names: impl Iterator<Item = &'static str> + Clone) -> Self {
        let given: String = given.chars().take(40).collect();
        let nearest = names.clone().min_by_key(|n| edit_distance(n, &given)).unwrap_or_default();
        Self::Unknown { what, given, nearest, all: names.collect::<Vec<_>>().join(", ") }
    }
}

/// Levenshtein distance in characters; inputs are short names.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_on_consistent_axes_and_reads_back() {
        for mode in Mode::ALL {
            mode.axes().validate().unwrap();
            assert_eq!(mode.name().parse::<Mode>().unwrap(), *mode);
        }
    }

    #[test]
    fn a_mistyped_mode_is_answered_with_the_nearest() {
        let error = "pvflsh".parse::<Mode>().unwrap_err().to_string();
        assert!(error.contains("did you mean 'pvflush'?"), "{error}");
    }

    #[test]
    fn a_halting_flush_cannot_busy_wait() {
        let axes = Axes { spin: Spin::Busy, ..Mode::PvFlush.axes() };
        assert!(axes.validate().unwrap_err().to_string().contains("--flush pvflush"));
        assert!(Axes { spin: Spin::Halt, ..Mode::Base.axes() }.validate().is_err());
    }
}
