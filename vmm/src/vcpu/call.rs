//! Doorbell calls, carried out on the thread of the vCPU that rang.
//!
//! ```text
//!   call                      what the host does                                     and then
//!   Nop, SpinHint             nothing; tells the scheduler                           asks to run on
//!   SendIpi                   raises the flush vector on each target                 asks to run on
//!   KickCpu, SendResched      sets the latch of the target, wakes it                 asks to run on
//!   FlushOnEnter              marks each target, kicks who runs and waits for them   asks to run on
//!   DiskIo                    puts a request to the disk, which answers by a vector  asks to run on
//!   Console                   sends the text to the control loop                     asks to run on
//!   Halt                      -                                                      halts until kicked
//!   Io                        has the control loop wake it at a time                 halts until then
//!   Report: Online            tells the control loop                                 halts until all are online
//!   Report: Done              tells the control loop                                 asks to run on
//!   Report: a failure         -                                                      leaves
//! ```
//! What a guest may ask for has been checked by [`Doorbell::parse`]; what it costs is bounded here.

use std::time::Duration;

use abi::call::{Call, Report};
use abi::layout::FLUSH_VECTOR;
use abi::state::Marked;
use trace::What;

use super::{State, Until, Vcpu, counted};
use crate::clock::monotonic_ns;
use crate::disk::REQUESTS_MAX;
use crate::doorbell::{Doorbell, ProtocolError, VcpuSet};
use crate::kick::Reason;
use crate::leave::Leave;
use crate::outbox::Message;
use crate::sched::VcpuIndex;
use crate::stats::Counter;
use crate::sync::Ordering;
use crate::tap;

/// How long an initiator in FlushOnEnter spins for a target to leave guest mode before it gives its host CPU away: a
/// kick takes 22 us at the median and 43 us at p99 where this was written.
const LEAVE_SPINS: u32 = 2_000;
/// Console calls of one vCPU that are printed: a guest prints when it panics.
pub(super) const PRINTS_MAX: u32 = 100;

impl Vcpu<'_> {
    /// Carries a call out.
    pub(super) fn call(&mut self, doorbell: Doorbell) -> State {
        match doorbell {
            Doorbell::Nop => {}
            Doorbell::SendIpi(targets) => self.send_ipi(targets),
            // Ring 0 with interrupts off: no vector can be what it waits for.
            Doorbell::Halt if self.fd.get_kvm_run().if_flag == 0 => return State::Halt(Until::OnlyKicked),
            Doorbell::Halt => return State::Halt(Until::Kicked),
            Doorbell::KickCpu(vcpu) | Doorbell::SendResched(vcpu) => {
                let target = self.sibling(vcpu);
                tap::record(What::Kick { from: tap::task(self.index), to: tap::task(target) });
                self.shared.guests.kick(self.shared.sched.vcpu_sched(), target, self.index);
            }
            Doorbell::SpinHint => self.thread.spin(),
            Doorbell::FlushOnEnter(targets) => self.flush_on_enter(targets),
            Doorbell::Io(time) => return self.begin_io(time),
            Doorbell::DiskIo => return self.ask_disk(),
            Doorbell::Console(len) => self.print(len),
            Doorbell::Report(report) => return self.report(report),
        }
        State::Ask
    }

    /// Index of a vCPU of this VM, whose number has been checked.
    const fn sibling(&self, vcpu: u32) -> VcpuIndex {
        VcpuIndex(self.vm.first.0 + vcpu)
    }

    fn send_ipi(&mut self, targets: VcpuSet) {
        self.trace_flush(targets);
        self.own.counters.add(Counter::IpiTargets, targets.len().into());
        for vcpu in targets.iter() {
            let sched = self.shared.sched.vcpu_sched();
            if !self.shared.guests.raise(sched, self.sibling(vcpu), FLUSH_VECTOR, self.index) {
                self.count(Counter::IpisMerged);
            }
        }
    }

    /// Demands a flush of each target, and waits until those that run have left the guest: what they execute next
    /// comes after their flush. Two initiators cannot wait for each other, because neither is in a run.
    fn flush_on_enter(&mut self, targets: VcpuSet) {
        self.trace_flush(targets);
        let mut running = [None; 64];
        for (slot, vcpu) in running.iter_mut().zip(targets.iter()) {
            match self.vm.page(vcpu).state.0.demand_flush() {
                Marked::Deferred => self.count(Counter::HypercallMarks),
                Marked::Running => {
                    self.count(Counter::HypercallKicks);
                    let cell = self.shared.guests.cell(self.sibling(vcpu));
                    cell.post(Reason::Interrupt);
                    *slot = cell.current_run().map(|run| (cell, run));
                }
            }
        }
        for (cell, run) in running.into_iter().flatten() {
            let mut spins = 0;
            while !cell.has_left(run) && !self.shared.stopping.load(Ordering::Relaxed) {
                if spins < LEAVE_SPINS {
                    spins += 1;
                    std::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// A flush begins with its call.
    fn trace_flush(&mut self, targets: VcpuSet) {
        if !tap::is_on() {
            return;
        }
        self.flush.begin(self.index, targets.len(), counted(self.vm, self.number));
        for vcpu in targets.iter() {
            tap::record(What::GuestIpi { from: tap::task(self.index), to: tap::task(self.sibling(vcpu)) });
        }
    }

    fn begin_io(&self, time: Duration) -> State {
        let until_ns = monotonic_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        self.outbox.send(Message::WakeAt { index: self.index, at_ns: until_ns });
        State::Halt(Until::Time(until_ns))
    }

    fn ask_disk(&self) -> State {
        if self.own.disk_requests.fetch_add(1, Ordering::AcqRel) >= REQUESTS_MAX {
            return State::Leave(Leave::Protocol(ProtocolError::DiskFull { max: REQUESTS_MAX }));
        }
        let asked_ns = monotonic_ns();
        let at_ns = self.shared.disk.ask(asked_ns);
        self.count(Counter::DiskAccesses);
        self.outbox.send(Message::DiskAt { index: self.index, asked_ns, at_ns });
        State::Ask
    }

    /// Starts all workloads together: who comes online halts until the last one has, and that one wakes the others.
    /// Without it the last of many vCPUs would come online after as many time slices of vCPUs that work already.
    fn come_online(&self) -> State {
        self.outbox.send(Message::Online { index: self.index, at_ns: monotonic_ns() });
        if self.shared.offline.fetch_sub(1, Ordering::AcqRel) > 1 {
            return State::Halt(Until::AllOnline);
        }
        let others = self.shared.guests.indices().filter(|index| *index != self.index);
        others.for_each(|index| self.shared.sched.vcpu_sched().wake(index, Some(self.index)));
        State::Ask
    }

    /// Sends the text to the console, unless the guest has printed more than a guest has to say.
    fn print(&mut self, len: u32) {
        if self.prints_left > 0 {
            self.prints_left -= 1;
            let text = self.page.console_text(len).collect();
            self.outbox.send(Message::Console { vm: self.vm.number, text });
        }
    }

    /// The first `Online` and the first `Done` of a vCPU are news; a repetition is not.
    fn report(&mut self, report: Report) -> State {
        let exception = &self.page.exception.0;
        match report {
            Report::Online if !std::mem::replace(&mut self.online, true) => return self.come_online(),
            Report::Done if !std::mem::replace(&mut self.done, true) => self.outbox.send(Message::Done),
            Report::Online | Report::Done => {}
            Report::Panic => return State::Leave(Leave::GuestPanic),
            Report::BadParams => return State::Leave(Leave::BadParams),
            Report::Exception => {
                return State::Leave(Leave::Exception {
                    vector: exception.vector.load(Ordering::Relaxed),
                    error: exception.error.load(Ordering::Relaxed),
                    rip: exception.rip.load(Ordering::Relaxed),
                    cr2: exception.cr2.load(Ordering::Relaxed),
                });
            }
        }
        State::Ask
    }
}

/// Where a call is counted.
pub(super) const fn counter_of(call: Call) -> Counter {
    match call {
        Call::Nop => Counter::CallNop,
        Call::SendIpi => Counter::CallSendIpi,
        Call::Halt => Counter::CallHalt,
        Call::KickCpu => Counter::CallKickCpu,
        Call::SpinHint => Counter::CallSpinHint,
        Call::FlushOnEnter => Counter::CallFlushOnEnter,
        Call::Io => Counter::CallIo,
        Call::Console => Counter::CallConsole,
        Call::Report => Counter::CallReport,
        Call::SendResched => Counter::CallSendResched,
        Call::DiskIo => Counter::CallDiskIo,
    }
}
