//! What the engine must do after an operation: the scheduler never acts on the outside world itself.
use crate::ids::GroupId;
use crate::topology::CpuId;

/// Why one CPU interrupts another. Delivered by calling [`Sched::ipi_received`](crate::Sched::ipi_received) there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ipi {
    /// `scheduler_ipi`: tasks wait on its wake list.
    Wakeup,
    /// A gang leader asks this CPU to run that group. The generation tells a group from a later one of the same number.
    Gang {
        /// The group to favour.
        group: GroupId,
        /// [`Host::group_generation`](crate::Host::group_generation) of the group when the request was sent.
        generation: u32,
    },
}

/// The effects of the operations since the last [`Effects::clear`]; the buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// CPUs whose `need_resched` was just set: each must call `schedule` soon. If it runs a task, interrupt it.
    pub resched: Vec<CpuId>,
    /// Interrupts to deliver, in order.
    pub ipis: Vec<(CpuId, Ipi)>,
}

impl Effects {
    /// Forgets all effects and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.resched.clear();
        self.ipis.clear();
    }

    /// True if there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resched.is_empty() && self.ipis.is_empty()
    }
}
