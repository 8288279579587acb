//! What a thread is kicked for.
//!
//! ```text
//!   Reason      posted by                                      where its owner acts on it
//!   Resched     the dispatcher that set need_resched           before the entry, at the scheduler
//!   SchedIpi    a CPU that has an IPI for this one             the same
//!   Tick        the handler of the thread's own timer          the vCPU loop: a sample; the scheduler: its tick
//!   GuestTick   the same                                       the vCPU loop: the timer vector
//!   Interrupt   who raised a vector                            before the entry: its injection
//!   Stop        who ends the run                               before the entry, at the scheduler
//! ```
//! A reason says that there is something to look at, not what: that stands in the state it belongs to (the scheduler's
//! flags, the pending vectors), so that several posts may become one.

/// Why a thread was kicked: one bit each in [`Reasons`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// `need_resched` of the CPU that the thread holds was set.
    Resched = 1 << 0,
    /// The scheduler tick of the CPU that the thread holds is due.
    Tick = 1 << 1,
    /// A vector was added to the vCPU's pending bitmap.
    Interrupt = 1 << 2,
    /// The run ends: leave the vCPU loop.
    Stop = 1 << 3,
    /// An IPI of the lab's scheduler is waiting at the CPU that the thread holds.
    SchedIpi = 1 << 4,
    /// The guest's own timer tick is due.
    GuestTick = 1 << 5,
}

/// Whose tick a timer makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// The scheduler's: [`Reason::Tick`].
    Host,
    /// The guest's own: [`Reason::GuestTick`].
    Guest,
}

impl Tick {
    pub(super) const ALL: [Self; 2] = [Self::Host, Self::Guest];

    pub(super) const fn reason(self) -> Reason {
        match self {
            Self::Host => Reason::Tick,
            Self::Guest => Reason::GuestTick,
        }
    }
}

/// A set of [`Reason`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reasons(pub(super) u32);

impl Reasons {
    /// True if no reason is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if `reason` is in the set.
    #[must_use]
    pub const fn contains(self, reason: Reason) -> bool {
        self.0 & reason as u32 != 0
    }

    /// Number of reasons in the set.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }
}
