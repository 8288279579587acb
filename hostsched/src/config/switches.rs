//! What other kernels did: one type for each question that they answered in different ways, and all answers of a kernel
//! together.
//!
//! ```text
//!   question                          type            answers, 3.4's first
//!   which idle CPU for a wake-up?     IdleSibling     Traverse, FirstIdle (3.0), Buddy (before 3.6, reverted), Off
//!   how much does history weigh?      LbBias          MinMax, Averaged, Off
//!   which group is busiest?           BusiestPick     V3_4, V3_18
//!   when does an idle CPU pull?       IdleImbalance   One, TwoOnTwoCpuLlc
//!   how do the domains start?         SdInit          V3_4, V3_16, V2_6_27
//!   what is load?                     LoadTracking    PerQueue, PerEntity (3.8 to 4.2)
//!   what does the kernel boot with?   Tunables        V3_4, V2_6_27
//! ```
//! Smaller questions are answered by yes or no in [`Switches`] itself.

/// How a wake-up looks for an idle CPU near its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdleSibling {
    /// Walks the groups of the last-level-cache domain downwards (3.4, `select_idle_sibling`).
    #[default]
    Traverse,
    /// Takes the first idle CPU of each domain, the lowest domain first, and stops at the one that spans the waker and the
    /// task's CPU (3.0): on SMT the sibling of the waker.
    FirstIdle,
    /// Looks only at the cross-wired partner of the target (in the tree before 3.6, reverted).
    Buddy,
    /// Stays on the target.
    Off,
}

/// How the load history biases the comparison of a source with a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LbBias {
    /// Source: the smaller of history and now; target: the larger (`LB_BIAS` on, 3.4).
    #[default]
    MinMax,
    /// Both: the mean of history and now.
    Averaged,
    /// Both: now (`LB_BIAS` off).
    Off,
}

/// Which group of a domain counts as the busiest (`update_sd_pick_busiest`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BusiestPick {
    /// The one with the highest load among those that are over capacity or imbalanced (3.4).
    #[default]
    V3_4,
    /// Overloaded before imbalanced before any other, then the highest load (3.18 and later).
    V3_18,
}

/// How many more idle CPUs than the busiest group the local one needs before an idle CPU pulls (`find_busiest_group`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdleImbalance {
    /// More than one (3.4).
    #[default]
    One,
    /// More than two where the last-level cache has two CPUs.
    TwoOnTwoCpuLlc,
}

/// Flags and intervals with which the domains start (`sd_init`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SdInit {
    /// The `SD_*_INIT` tables of 3.4.
    #[default]
    V3_4,
    /// 3.16's: intervals by the number of CPUs; below the package, groups are no longer emptied into idle siblings
    /// (`SD_PREFER_SIBLING` is off at MC).
    V3_16,
    /// 2.6.27's: wake-ups and forks read a tick of history, going idle reads two in the package domain, groups are never
    /// emptied into idle siblings, nodes draw no wake-ups.
    V2_6_27,
}

/// Run-time tunables and features with which the kernel boots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tunables {
    /// 3.4's.
    #[default]
    V3_4,
    /// 2.6.27's: times several times longer and growing with every doubling of the CPUs, sleepers credited with a whole
    /// latency, the task woken last goes next, a remote wake-up takes the other queue's lock at once.
    V2_6_27,
}

/// What counts as the load of a task, a group or a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoadTracking {
    /// The weight of what is queued now; a group's part by an average of its queues' weights (3.4).
    #[default]
    PerQueue,
    /// Each entity's weight times the part of the time that it was runnable lately (3.8 to 4.2).
    PerEntity,
}

/// The load-history indices of the domains where they differ from the topology's own (`sched_domain.busy_idx` ...).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadIdx {
    /// `busy_idx`: periodic balance of a busy CPU.
    pub busy: Option<u8>,
    /// `idle_idx`: periodic balance of an idle CPU.
    pub idle: Option<u8>,
    /// `newidle_idx`: balance of a CPU that just ran out of work.
    pub newidle: Option<u8>,
    /// `wake_idx`: wake-affine.
    pub wake: Option<u8>,
    /// `forkexec_idx`: fork and exec balance.
    pub forkexec: Option<u8>,
}

/// Behaviour of other kernels, by name; every default is 3.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switches {
    /// Search for an idle CPU on wake-up.
    pub idle_sibling: IdleSibling,
    /// Use of the load history.
    pub lb_bias: LbBias,
    /// Choice of the busiest group.
    pub busiest_pick: BusiestPick,
    /// Idle-CPU threshold of an idle CPU's balance.
    pub idle_imbalance: IdleImbalance,
    /// What the domains start with.
    pub sd_init: SdInit,
    /// What counts as load. Run queues keep what was set when they were made.
    pub load_tracking: LoadTracking,
    /// What the kernel boots with.
    pub tunables: Tunables,
    /// Overrides of the domains' history indices.
    pub load_idx: LoadIdx,
    /// 3.4 forgets to restart its count of examined tasks when it retries without an all-pinned CPU, so a CPU may stay
    /// idle for ever; true repairs that (as 3.5 did). Off by default: the golden schedules have the bug.
    pub redo_resets_loop: bool,
    /// A CPU that goes idle balances after an idle CPU's interval (3.16). In 3.4 it keeps the time that it set while it was
    /// busy, up to 100 ms a CPU of the host ahead, unless it pulls something at once; there, NOHZ hides that.
    pub idle_next_balance: bool,
    /// A CPU that runs out of work always looks for some, however short it usually is idle (before 2.6.33).
    pub newidle_always: bool,
}

impl Switches {
    /// 2.6.27 on a machine without SMT: its `wake_idle` looked for an idle CPU among the threads of a core only. What of it
    /// is not here: its group balancing, `find_busiest_group` before idle CPUs were counted and before an imbalanced group
    /// forced it, and domains of a last-level cache in which newly idle CPUs do not balance and `SD_WAKE_BALANCE` is set.
    #[must_use]
    pub fn v2_6_27() -> Self {
        Self {
            idle_sibling: IdleSibling::Off,
            sd_init: SdInit::V2_6_27,
            tunables: Tunables::V2_6_27,
            newidle_always: true,
            redo_resets_loop: true,
            ..Self::default()
        }
    }
}
