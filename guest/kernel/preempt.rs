//! Preemption: who may be taken off a vCPU when, and what belongs to the vCPU that one runs on.
//!
//! ```text
//!   count 0   a tick (ring 0) sends the thread through `preempt_trampoline` to `tick`: another thread may run next,
//!             and this one may go on elsewhere
//!   count 1.. the thread keeps its vCPU; a tick only sets need_resched, which the last `enable` looks at
//! ```
//! Vectors are taken in either case: interrupts are always on in ring 3. The count belongs to the vCPU, not to the thread,
//! as Linux's does on x86: it is 1 at every switch, on both sides.
//!
//! # Rule
//! What asks for the number of its vCPU and then uses it does so with an [`Off`] in hand: `off.cpu()`. The count itself is
//! changed by single instructions through `gs`, so that it does not matter where a thread is when it begins one.

use core::arch::asm;
use core::marker::PhantomData;
use core::mem::offset_of;

use abi::vcpu::VcpuPage;

use crate::cpu::Cpu;
use crate::runqueue;

const COUNT: usize = offset_of!(VcpuPage, sched.0.preempt_count);
const NEED_RESCHED: usize = offset_of!(VcpuPage, sched.0.need_resched);
const CURRENT: usize = offset_of!(VcpuPage, sched.0.current);

/// A word of the page of the vCPU that this runs on.
fn read<const OFFSET: usize>() -> u32 {
    let value: u32;
    // SAFETY: `gs` is based at this vCPU's page from the first instruction on. Unsafe because Rust cannot name a segment.
    unsafe { asm!("mov {:e}, gs:[{}]", out(reg) value, const OFFSET, options(nostack, preserves_flags)) };
    value
}

/// The thread that runs here: its number plus 1; 0 in the idle loop. Also right without [`Off`]: it is oneself.
pub(crate) fn current() -> u32 {
    read::<CURRENT>()
}

/// Preemption is off as long as this lives.
pub(crate) struct Off(PhantomData<*const ()>);

impl Off {
    pub(crate) fn new() -> Self {
        disable();
        Self(PhantomData)
    }

    /// The vCPU that this runs on, until `self` is dropped.
    pub(crate) fn cpu(&self) -> Cpu {
        Cpu::this()
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        enable();
    }
}

/// How deep preemption is off here.
pub(crate) fn count() -> u32 {
    read::<COUNT>()
}

/// Turns preemption off; nests. Not `nomem`: what follows stays behind it.
pub(crate) fn disable() {
    // SAFETY: as in `read`; one instruction, so that a tick comes before or after it. Unsafe for the same reason.
    unsafe { asm!("add dword ptr gs:[{}], 1", const COUNT, options(nostack)) };
}

/// Undoes one [`disable`]; the last one does what a tick has asked for meanwhile.
pub(crate) fn enable() {
    // SAFETY: as above.
    unsafe { asm!("sub dword ptr gs:[{}], 1", const COUNT, options(nostack)) };
    // A tick that comes between the two finds the count 0 and does it itself.
    if count() == 0 && read::<NEED_RESCHED>() != 0 {
        disable();
        runqueue::tick_due();
        // SAFETY: as above. A tick that comes from here on is at most one tick late.
        unsafe { asm!("sub dword ptr gs:[{}], 1", const COUNT, options(nostack)) };
    }
}
