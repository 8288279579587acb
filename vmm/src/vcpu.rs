//! One vCPU on its thread: a state machine whose arms return the next state.
//!
//! ```text
//!            ┌────────────────────── Ask ◄──────────────────────────────┐
//!            │ may I run? (parks here)                                  │
//!            ▼                                                          │
//!          Enter: take a marked flush, inject, KVM_RUN                  │
//!            │                                                          │
//!            ├─ kicked, or an interrupt window opened ──────────────────┤
//!            ├─ OUT ──► Call: carry a doorbell call out (`call`) ───────┤
//!            │            └─ Halt: sleep until kicked or interrupted ───┘
//!            └─ anything else ──► Leave
//! ```
//!
//! # Why no flush is lost on the way in
//! `Enter` swaps the state word to "running" first and learns in the same step whether a flush was marked; if so the
//! flush vector becomes pending. After that come the injection and the kick cell's last test. So a flush is either
//! marked before the swap (taken here), or its initiator sees "running" and raises the vector, whose kick forbids or ends
//! this entry. A vector that is pending with interrupts off waits for the window; until then the guest is in a ring-0
//! stub, which touches no flushable mapping (docs/guest-abi.md, section 4).

mod call;

use std::panic::{AssertUnwindSafe, catch_unwind};

use abi::layout::{DISK_VECTOR, FLUSH_VECTOR, TIMER_VECTOR};
use abi::vcpu::VcpuPage;
use kvm_ioctls::{VcpuExit, VcpuFd};
use trace::{ExitReason, What};

use crate::clock::{cycles_to_ns, monotonic_ns};
use crate::doorbell::Doorbell;
use crate::guests::{VcpuShared, Vm};
use crate::interrupt::inject;
use crate::kick::{Bound, KickCell, Reason, Tick};
use crate::leave::Leave;
use crate::outbox::{Ended, Message, Outbox};
use crate::run_shared::{Fault, FaultHook, RunShared};
use crate::sched::{Permit, VcpuIndex, VcpuThread};
use crate::scheduler::bind_self;
use crate::stats::{Counter, ThreadStats};
use crate::sync::Ordering;
use crate::tap::{self, FlushWatch, Flushes};
use crate::tick::TickTimer;
use crate::vectors::Injection;
use call::{PRINTS_MAX, counter_of};

/// The body of a vCPU thread, on the CPUs of `affinity` unless the scheduler chooses them. Whatever happens inside, its
/// last act is to say how it ended.
pub fn thread_main(shared: &RunShared, index: VcpuIndex, mut fd: VcpuFd, affinity: Option<&[u32]>, outbox: &Outbox) {
    let mut stats = ThreadStats::default();
    if let Some(room) = shared.trace {
        tap::install(room, crate::sync::Arc::clone(&shared.phase));
    }
    let result = catch_unwind(AssertUnwindSafe(|| match affinity.map_or(Ok(()), bind_self) {
        Ok(()) => attached(shared, index, &mut fd, outbox, &mut stats),
        Err(error) => Leave::host("sched_setaffinity", &error),
    }));
    let why = result.unwrap_or_else(|payload| Leave::panicked(payload.as_ref()));
    stats.trace = tap::remove();
    // The registers of a vCPU that no one runs any more; a failure here only costs the message its RIP.
    let rip = fd.get_regs().ok().map(|regs| regs.rip);
    outbox.send(Message::Ended(Box::new(Ended { index, why, rip, stats })));
}

/// Between attaching to the scheduler and detaching from it, which also happens when this unwinds.
fn attached(shared: &RunShared, index: VcpuIndex, fd: &mut VcpuFd, outbox: &Outbox, stats: &mut ThreadStats) -> Leave {
    let (vm, number) = shared.guests.locate(index);
    let cell = shared.guests.cell(index);
    let own = &vm.vcpus[number as usize];
    own.tid.store(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Release);
    // SAFETY: the byte is in the kvm_run page of `fd`, which this function borrows exclusively and which thread_main
    // unmaps after `bound` is gone; only this thread runs the vCPU. Unsafe because the signal handler writes there.
    let bound = unsafe { Bound::new(cell, &raw mut fd.get_kvm_run().immediate_exit) };
    let thread = match shared.sched.vcpu_sched().attach(index, &bound) {
        Ok(thread) => thread,
        Err(error) => return Leave::host("attaching to the scheduler", &error),
    };
    let timer = |wanted: bool, tick| wanted.then(|| TickTimer::new(cell, tick)).transpose();
    let sampler = timer(shared.sample_period_ns.is_some(), Tick::Host);
    let guest_timer = timer(vm.params.guest_hz > 0, Tick::Guest);
    let (sampler, guest_timer) = match (sampler, guest_timer) {
        (Ok(sampler), Ok(guest_timer)) => (sampler, guest_timer),
        (Err(error), _) | (_, Err(error)) => return Leave::host("timer_create", &error),
    };
    outbox.send(Message::Ready);
    shared.gate.pass();
    if let (Some(sampler), Some(period)) = (&sampler, shared.sample_period_ns) {
        sampler.arm(monotonic_ns() + period);
    }
    let page = vm.page(number);
    Vcpu {
        shared,
        vm,
        number,
        index,
        own,
        page,
        cell,
        fd,
        bound: &bound,
        thread,
        sampler,
        guest_timer,
        guest_tick_armed: false,
        outbox,
        stats,
        flush: FlushWatch::default(),
        online: false,
        done: false,
        prints_left: PRINTS_MAX,
    }
    .run()
}

/// Where the loop is.
#[derive(Debug)]
enum State {
    Ask,
    Enter,
    Call(Doorbell),
    Halt(Until),
    Leave(Leave),
}

/// What ends a halt. A pending vector ends each of them but one.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// The kick latch, which it consumes.
    Kicked,
    /// The same, and no vector: interrupts are off.
    OnlyKicked,
    /// A time, CLOCK_MONOTONIC ns.
    Time(u64),
    /// Every vCPU of the run is online.
    AllOnline,
}

#[derive(Debug)]
struct Vcpu<'a> {
    shared: &'a RunShared,
    vm: &'a Vm,
    number: u32,
    index: VcpuIndex,
    own: &'a VcpuShared,
    page: &'a VcpuPage,
    cell: &'a KickCell,
    fd: &'a mut VcpuFd,
    bound: &'a Bound<'a>,
    thread: Box<dyn VcpuThread + 'a>,
    sampler: Option<TickTimer<'a>>,
    guest_timer: Option<TickTimer<'a>>,
    guest_tick_armed: bool,
    outbox: &'a Outbox,
    stats: &'a mut ThreadStats,
    flush: FlushWatch,
    online: bool,
    done: bool,
    prints_left: u32,
}

impl Vcpu<'_> {
    fn run(mut self) -> Leave {
        let mut state = State::Ask;
        loop {
            state = match state {
                State::Ask => self.ask(),
                State::Enter => self.enter(),
                State::Call(doorbell) => self.call(doorbell),
                State::Halt(until) => self.halt(until),
                State::Leave(why) => return why,
            }
        }
    }

    fn count(&self, counter: Counter) {
        self.own.counters.add(counter, 1);
    }

    /// Takes what the vCPU was kicked for, and waits for the CPU. Only ticks mean something here: all other reasons
    /// are looked up where they act (the scheduler's flags, the pending vectors), and have done their work by making
    /// the loop come round.
    fn ask(&mut self) -> State {
        let reasons = self.cell.take();
        if reasons.contains(Reason::Tick) {
            self.sample();
        }
        if reasons.contains(Reason::GuestTick) {
            self.guest_tick();
        }
        match self.thread.before_entry() {
            Permit::Enter => State::Enter,
            Permit::Stop => State::Leave(Leave::Stopped),
        }
    }

    fn enter(&mut self) -> State {
        let entered = self.page.state.0.enter();
        if entered.was_stopped != self.own.stopped.swap(false, Ordering::Relaxed) {
            self.count(Counter::StateWordsForged);
        }
        if entered.flush {
            self.count(Counter::EntryFlushes);
            self.own.vectors.raise(FLUSH_VECTOR, monotonic_ns());
        }
        self.arm_guest_tick();
        if let Err(error) = self.inject() {
            return State::Leave(Leave::host("KVM_INTERRUPT", &error));
        }
        let Some(in_run) = self.bound.enter() else {
            self.count(Counter::EntriesForbidden);
            self.thread.after_exit();
            return State::Ask;
        };
        let from_ns = monotonic_ns();
        let me = tap::task(self.index);
        tap::record_at(from_ns, What::Entry { task: me });
        let exit = self.fd.run();
        drop(in_run);
        if tap::is_on() {
            tap::record(What::Exit { task: me, reason: reason_of(&exit) });
            self.flush.look(self.index, from_ns, counted(self.vm, self.number));
        }
        let next = match exit {
            Ok(VcpuExit::IoOut(port, data)) => {
                self.own.counters.add(Counter::ExitIo, 1);
                match Doorbell::parse(port, data, self.page, self.vm.params.vcpus, self.number) {
                    Ok((call, doorbell)) => {
                        self.own.counters.add(counter_of(call), 1);
                        State::Call(doorbell)
                    }
                    Err(error) => State::Leave(Leave::Protocol(error)),
                }
            }
            Ok(VcpuExit::Intr) => State::Ask,
            Ok(VcpuExit::IrqWindowOpen) => {
                self.own.counters.add(Counter::ExitIrqWindow, 1);
                State::Ask
            }
            Ok(VcpuExit::Hlt) => {
                self.own.counters.add(Counter::ExitHlt, 1);
                State::Halt(Until::Kicked)
            }
            Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {
                self.own.counters.add(Counter::ExitIntr, 1);
                State::Ask
            }
            Ok(exit) => State::Leave(Leave::unexpected(&exit)),
            Err(error) => State::Leave(Leave::host("KVM_RUN", &error.into())),
        };
        self.own.counters.add(Counter::GuestNs, monotonic_ns() - from_ns);
        self.count(Counter::Exits);
        self.thread.after_exit();
        match self.shared.fault_hook.filter(|hook| self.is_due(hook)).map(|hook| hook.fault) {
            None => next,
            Some(Fault::Panic) => panic!("fault hook of vCPU {}", self.index.0),
            Some(Fault::ReturnEarly) => State::Leave(Leave::Stopped),
            Some(Fault::LoseImage) => match self.vm.lose_image() {
                Ok(()) => next,
                Err(error) => State::Leave(Leave::host("mprotect", &error)),
            },
        }
    }

    fn is_due(&self, hook: &FaultHook) -> bool {
        hook.vcpu == self.index && self.own.counters.read()[Counter::Exits as usize] == hook.after_exits
    }

    /// Gives KVM the highest pending vector if it can take one, else asks for the window.
    fn inject(&mut self) -> std::io::Result<()> {
        let highest = self.own.vectors.highest();
        let run = self.fd.get_kvm_run();
        let decision = Injection::decide(highest, run.ready_for_interrupt_injection != 0, run.if_flag != 0);
        run.request_interrupt_window = u8::from(decision == Injection::Window);
        match decision {
            Injection::None => {}
            Injection::Window => self.count(Counter::WindowRequests),
            Injection::Inject(vector) => {
                // From here on the vector is KVM's; the flag keeps a second one away until the next exit says that
                // there is room again, also if the entry is forbidden meanwhile.
                run.ready_for_interrupt_injection = 0;
                inject(self.fd, vector)?;
                self.count(Counter::Injections);
                if vector == FLUSH_VECTOR {
                    tap::record(What::GuestIrq { task: tap::task(self.index) });
                }
                if matches!(vector, TIMER_VECTOR | DISK_VECTOR) {
                    self.own.vectors.accepted_untimed(vector);
                    return Ok(());
                }
                let since_ns = self.own.vectors.accepted(vector);
                if let Some(since_ns) = since_ns.filter(|_| self.shared.phase.measures()) {
                    self.stats.ipi_delivery.saturating_record(monotonic_ns().saturating_sub(since_ns).max(1));
                }
            }
        }
        Ok(())
    }

    fn halt(&mut self, until: Until) -> State {
        let (own, shared) = (self.own, self.shared);
        let woken = || {
            let vector = !matches!(until, Until::OnlyKicked) && !own.vectors.is_empty();
            vector
                || match until {
                    Until::Kicked | Until::OnlyKicked => own.latch.is_set(),
                    Until::Time(at_ns) => monotonic_ns() >= at_ns,
                    Until::AllOnline => shared.offline.load(Ordering::Acquire) == 0,
                }
        };
        if woken() {
            self.count(Counter::HaltsSkipped);
        } else {
            tap::record(What::Halt { task: tap::task(self.index) });
            own.halted.store(true, Ordering::Relaxed);
            self.thread.halt(&woken);
            own.halted.store(false, Ordering::Relaxed);
        }
        if let Until::Time(due_ns) = until
            && shared.phase.measures()
        {
            self.stats.io_wake.saturating_record(monotonic_ns().saturating_sub(due_ns).max(1));
        }
        if matches!(until, Until::Kicked | Until::OnlyKicked) {
            own.latch.consume();
            tap::record(What::HaltOver { task: tap::task(self.index) });
        }
        State::Ask
    }

    /// True if the guest asks for timer ticks.
    fn wants_ticks(&self) -> bool {
        self.page.sched.0.tick.load(Ordering::Relaxed) != 0
    }

    /// Sets the guest's next tick, if it wants one and none is set. One that is set stays so while the guest idles for a
    /// moment: it comes to nothing if it finds it idle.
    fn arm_guest_tick(&mut self) {
        if let Some(timer) = &self.guest_timer
            && !self.guest_tick_armed
            && self.wants_ticks()
        {
            self.guest_tick_armed = true;
            timer.arm(monotonic_ns() + 1_000_000_000 / u64::from(self.vm.params.guest_hz));
        }
    }

    fn guest_tick(&mut self) {
        self.guest_tick_armed = false;
        if self.wants_ticks() {
            self.count(Counter::GuestTicks);
            self.own.vectors.raise_untimed(TIMER_VECTOR);
        }
    }

    /// Notes where the guest is, and sets the next sample where no scheduler ticks.
    fn sample(&mut self) {
        if self.shared.phase.measures()
            && let Ok(regs) = self.fd.get_regs()
        {
            self.stats.sample(regs.rip);
        }
        if let (Some(sampler), Some(period)) = (&self.sampler, self.shared.sample_period_ns) {
            sampler.arm(monotonic_ns() + period);
        }
    }
}

/// What the guest of that vCPU has counted of its flushes.
fn counted(vm: &Vm, number: u32) -> Flushes {
    let counters = &vm.results(number).counters;
    let wait_ns = cycles_to_ns(counters.flush_wait_cycles.get(), vm.tsc_khz);
    Flushes { completed: counters.flushes.get(), wait_ns }
}

/// The kernel's name of an exit.
fn reason_of(exit: &Result<VcpuExit<'_>, kvm_ioctls::Error>) -> ExitReason {
    match exit {
        Ok(VcpuExit::IoOut(..)) => ExitReason::IoInstruction,
        Ok(VcpuExit::IrqWindowOpen) => ExitReason::InterruptWindow,
        Ok(VcpuExit::Hlt) => ExitReason::Hlt,
        // A signal: a kick or a tick.
        Ok(VcpuExit::Intr) => ExitReason::ExternalInterrupt,
        Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => ExitReason::ExternalInterrupt,
        Ok(_) | Err(_) => ExitReason::Other,
    }
}
