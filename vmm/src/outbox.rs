//! What vCPU threads tell the control loop: a channel, and the VM's eventfd as its bell.

use crossbeam::channel::Sender;
use vmm_sys_util::eventfd::EventFd;

use crate::leave::Leave;
use crate::sched::VcpuIndex;
use crate::stats::ThreadStats;
use crate::sync::Arc;

/// A thread's last words.
#[derive(Debug)]
pub struct Ended {
    /// The vCPU.
    pub index: VcpuIndex,
    /// Why its loop ended.
    pub why: Leave,
    /// Where the guest was.
    pub rip: Option<u64>,
    /// What it recorded.
    pub stats: ThreadStats,
}

/// What there is to say.
#[derive(Debug)]
pub enum Message {
    /// The thread stands before the gate.
    Ready,
    /// The guest executes on this vCPU.
    Online {
        /// The vCPU.
        index: VcpuIndex,
        /// CLOCK_MONOTONIC ns.
        at_ns: u64,
    },
    /// The guest has reached its record limit on a vCPU.
    Done,
    /// The guest prints.
    Console {
        /// Number of the VM.
        vm: u32,
        /// Printable text.
        text: Vec<u8>,
    },
    /// Wake this vCPU then.
    WakeAt {
        /// The vCPU.
        index: VcpuIndex,
        /// CLOCK_MONOTONIC ns.
        at_ns: u64,
    },
    /// The disk answers this vCPU then.
    DiskAt {
        /// The vCPU.
        index: VcpuIndex,
        /// When it asked, CLOCK_MONOTONIC ns.
        asked_ns: u64,
        /// CLOCK_MONOTONIC ns.
        at_ns: u64,
    },
    /// The thread is about to end.
    Ended(Box<Ended>),
}

/// A thread's end of the channel; the bell is shared by the threads of one VM.
#[derive(Debug, Clone)]
pub struct Outbox {
    /// Where messages go.
    pub sender: Sender<Message>,
    /// Rung after each.
    pub bell: Arc<EventFd>,
}

impl Outbox {
    /// Sends and rings. A control loop that is gone needs no news.
    pub fn send(&self, message: Message) {
        if self.sender.send(message).is_ok() {
            // Can only fail if the counter is at its maximum, and then the bell rings already.
            let _ = self.bell.write(1);
        }
    }
}
