//! An innocent neighbour: somebody who has nothing to do with the VMs under test and shares their CPUs.
//!
//! A remedy is only as good as what it costs others. The neighbour is a VM of one vCPU in a group of its own, with the weight
//! of any VM. It is no gang, is pinned nowhere, flushes nothing and waits for nobody, in every mode.
//!
//! ```text
//!   spin      ────────────────────────────────────►   computes without end: what share of the CPUs is left for it?
//!   sleeper   ▁▁▁▁▁▁▁█▁▁▁▁▁▁▁█▁▁▁▁▁▁▁█▁▁▁▁▁▁▁█▁▁▁►   sleeps 10 ms, computes 200 us: how late does it wake up?
//!                   ↑ due      ↑ latency: from here to its first instruction
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mode::named;

named! {
    /// Who else uses the CPUs.
    #[derive(Default)]
    Neighbour, "neighbour" {
        /// Nobody.
        #[default]
        None = "none",
        /// One vCPU that computes without end.
        Spin = "spin",
        /// One vCPU that sleeps, wakes up, computes for a moment, and sleeps again.
        Sleeper = "sleeper",
    }
}

impl Neighbour {
    /// How long a sleeper sleeps: as an interactive program or a packet every so often.
    pub const SLEEP_NS: u64 = 10_000_000;
    /// Computing of a sleeper between two sleeps, and of a spinning neighbour's unit of work.
    pub const BURST_NS: u64 = 200_000;

    /// True if there is nobody.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// VMs, and vCPUs, of it: 0 or 1.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Spin | Self::Sleeper => 1,
        }
    }

    /// The part of one CPU that it can use.
    #[must_use]
    pub const fn demand(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Spin => 1.0,
            // Exact: both are far below 2^53.
            #[allow(clippy::cast_precision_loss)]
            Self::Sleeper => Self::BURST_NS as f64 / (Self::SLEEP_NS + Self::BURST_NS) as f64,
        }
    }
}
