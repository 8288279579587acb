//! The domain levels of Linux 3.4 and what each starts with: flags and balancing numbers.
//!
//! Values are those of the `SD_*_INIT` initialisers of Linux 3.4 with the power-saving knobs at 0 (their default):
//! `include/linux/topology.h`, for NODE `arch/x86/include/asm/topology.h` (64 bit). [`Level::Numa`] is not 3.4: it is
//! `sd_numa_init` of 3.5, where a level stands for each distance of the machine.

use std::fmt;

/// Flags of a domain: the `SD_*` bits of `include/linux/sched.h`, Linux 3.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SdFlags(pub u32);

impl SdFlags {
    /// Balance load among the groups of this domain.
    pub const LOAD_BALANCE: Self = Self(0x0001);
    /// Balance when a CPU is about to idle.
    pub const BALANCE_NEWIDLE: Self = Self(0x0002);
    /// Place a task anew at exec.
    pub const BALANCE_EXEC: Self = Self(0x0004);
    /// Place a task at fork.
    pub const BALANCE_FORK: Self = Self(0x0008);
    /// Place a task at wake-up by balancing.
    pub const BALANCE_WAKE: Self = Self(0x0010);
    /// A wake-up may pull the task to the waker's CPU.
    pub const WAKE_AFFINE: Self = Self(0x0020);
    /// The CPUs share one core's execution units.
    pub const SHARE_CPUPOWER: Self = Self(0x0080);
    /// The CPUs share a cache.
    pub const SHARE_PKG_RESOURCES: Self = Self(0x0200);
    /// One CPU at a time balances at this level.
    pub const SERIALIZE: Self = Self(0x0400);
    /// Prefer to put tasks into a sibling domain.
    pub const PREFER_SIBLING: Self = Self(0x1000);
    /// Groups of this level may overlap.
    pub const OVERLAP: Self = Self(0x2000);

    /// True if all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These bits without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Which kind of domain this is, bottom-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Threads of a core; the kernel's `SIBLING`.
    Smt,
    /// CPUs that share a last-level cache; the kernel's `MC`.
    Mc,
    /// The packages of a node; the kernel's `CPU` (its span is that of the node: `cpu_cpu_mask`).
    Pkg,
    /// Up to 16 nearest nodes; the kernel's `NODE`.
    Node,
    /// Everything; the kernel's `ALLNODES`.
    AllNodes,
    /// All nodes within a distance (Linux 3.5 and later); the kernel's `NUMA`.
    Numa {
        /// The largest distance inside.
        distance: u32,
    },
}

impl Level {
    /// The kernel's name of the level (`sd->name`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smt => "SIBLING",
            Self::Mc => "MC",
            Self::Pkg => "CPU",
            Self::Node => "NODE",
            Self::AllNodes => "ALLNODES",
            Self::Numa { .. } => "NUMA",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Flags and numbers of a domain. The `*_idx` say which `cpu_load[]` history a decision reads (0: the load now).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SdParams {
    /// The `SD_*` bits.
    pub flags: SdFlags,
    /// Shortest time between two balance attempts, in ms.
    pub min_interval_ms: u32,
    /// Longest time between two balance attempts, in ms.
    pub max_interval_ms: u32,
    /// First `balance_interval`, in ms.
    pub balance_interval_ms: u32,
    /// The interval is multiplied by this while the CPU is busy.
    pub busy_factor: u32,
    /// Load of the busiest above that of this group, in percent, from which it is worth balancing; 125 is 25 % more.
    pub imbalance_pct: u32,
    /// So many failed attempts leave cache-hot tasks alone.
    pub cache_nice_tries: u32,
    /// History for periodic balancing of a busy CPU.
    pub busy_idx: u8,
    /// History for periodic balancing of an idle CPU.
    pub idle_idx: u8,
    /// History for balancing at going idle.
    pub newidle_idx: u8,
    /// History for wake-up placement.
    pub wake_idx: u8,
    /// History for placement at fork and exec.
    pub forkexec_idx: u8,
    /// Power of a core with all its threads, 1024 = one thread alone; 0 outside SMT.
    pub smt_gain: u32,
}

/// `RECLAIM_DISTANCE`: beyond it a NUMA domain neither places at fork and exec nor pulls at wake-up.
const RECLAIM_DISTANCE: u32 = 30;

/// The power of an SMT core: 1.15 x 1024.
const SMT_GAIN: u32 = 1178;

const BASE: SdFlags = SdFlags::LOAD_BALANCE.union(SdFlags::BALANCE_NEWIDLE);
const PLACING: SdFlags = SdFlags::BALANCE_EXEC.union(SdFlags::BALANCE_FORK).union(SdFlags::WAKE_AFFINE);

impl SdParams {
    /// Changes these numbers to what a domain of `level` that spans `weight` CPUs starts with in 3.16 to 4.x
    /// (`sd_init`).
    pub(crate) fn init_3_16(&mut self, level: Level, weight: u32) {
        (self.min_interval_ms, self.max_interval_ms, self.balance_interval_ms) = (weight, 2 * weight, weight);
        self.busy_factor = 32;
        match level {
            Level::Smt => self.cache_nice_tries = 0,
            Level::Mc => {
                self.flags = self.flags.without(SdFlags::PREFER_SIBLING);
                self.imbalance_pct = 117;
            }
            Level::Pkg | Level::Node | Level::AllNodes | Level::Numa { .. } => {}
        }
    }

    /// Changes these numbers to what a domain of `level` starts with in 2.6.27 (`include/linux/topology.h`, for NODE
    /// `include/asm-x86/topology.h`, 64 bit), but for `SD_BALANCE_NEWIDLE` at MC, where 2.6.27 has it not.
    pub(crate) fn init_2_6_27(&mut self, level: Level) {
        self.flags = self.flags.without(SdFlags::PREFER_SIBLING);
        match level {
            Level::Smt => {}
            Level::Mc => (self.wake_idx, self.forkexec_idx) = (1, 1),
            Level::Pkg => (self.newidle_idx, self.wake_idx, self.forkexec_idx) = (2, 1, 1),
            Level::Node => {
                self.flags = self.flags.without(SdFlags::WAKE_AFFINE.union(SdFlags::BALANCE_NEWIDLE));
                (self.newidle_idx, self.wake_idx, self.forkexec_idx) = (2, 1, 1);
            }
            Level::AllNodes | Level::Numa { .. } => {}
        }
    }

    /// What a domain of `level` that spans `weight` CPUs starts with on a machine with `online` CPUs.
    #[must_use]
    pub fn init(level: Level, weight: u32, online: u32) -> Self {
        let mc = Self {
            flags: BASE.union(PLACING).union(SdFlags::SHARE_PKG_RESOURCES).union(SdFlags::PREFER_SIBLING),
            min_interval_ms: 1,
            max_interval_ms: 4,
            balance_interval_ms: 1,
            busy_factor: 64,
            imbalance_pct: 125,
            cache_nice_tries: 1,
            busy_idx: 2,
            idle_idx: 0,
            newidle_idx: 0,
            wake_idx: 0,
            forkexec_idx: 0,
            smt_gain: 0,
        };
        let node = Self {
            flags: BASE.union(PLACING).union(SdFlags::SERIALIZE).union(SdFlags::OVERLAP),
            min_interval_ms: 8,
            max_interval_ms: 32,
            busy_factor: 32,
            cache_nice_tries: 2,
            busy_idx: 3,
            idle_idx: 2,
            ..mc
        };
        match level {
            Level::Smt => Self {
                flags: BASE.union(PLACING).union(SdFlags::SHARE_CPUPOWER).union(SdFlags::SHARE_PKG_RESOURCES),
                max_interval_ms: 2,
                imbalance_pct: 110,
                cache_nice_tries: 0,
                busy_idx: 0,
                smt_gain: SMT_GAIN,
                ..mc
            },
            Level::Mc => mc,
            Level::Pkg => Self { flags: mc.flags.without(SdFlags::SHARE_PKG_RESOURCES), idle_idx: 1, ..mc },
            Level::Node => node,
            Level::AllNodes => Self {
                flags: BASE.union(SdFlags::SERIALIZE),
                min_interval_ms: 64,
                max_interval_ms: 64 * online,
                balance_interval_ms: 64,
                busy_factor: 128,
                imbalance_pct: 133,
                cache_nice_tries: 1,
                idle_idx: 3,
                ..node
            },
            Level::Numa { distance } => Self {
                flags: if distance > RECLAIM_DISTANCE { node.flags.without(PLACING) } else { node.flags },
                min_interval_ms: weight,
                max_interval_ms: 2 * weight,
                balance_interval_ms: weight,
                ..node
            },
        }
    }
}
