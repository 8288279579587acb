//! The control loop of a run: one thread that waits for timers and for the VMs' bells, and leads the run through its
//! stages.
//!
//! ```text
//!   Starting ──all online──► Warmup ──time──► Measure ──time──► Stopping ──all ended──► Ended
//!       │                      │                 │                 │
//!       └──── a thread failed, the watchdog bit, or the caller aborts ──► Stopping
//!                                                                  └─ threads that do not leave are given up
//! ```
//! Every event (a bell, the alarm, the pulse) leads to the same `advance`, which looks at everything there
//! is to see. So no event can be missed for good: the next pulse, at most `PULSE` later, sees what it left.

use std::os::fd::AsRawFd;
use std::time::Duration;

use crossbeam::channel::Receiver;
use event_manager::{EventManager, EventOps, EventSet, Events, MutEventSubscriber, SubscriberOps};
use hdrhistogram::Histogram;
use plan::{Control, CpuList, Failure};
use vmm_sys_util::eventfd::EventFd;

use crate::clock::monotonic_ns;
use crate::console::Console;
use crate::due::Due;
use crate::leave::Leave;
use crate::outbox::{Ended, Message};
use crate::run_shared::RunShared;
use crate::sched::VcpuIndex;
use crate::snapshot::Snapshot;
use crate::stats::{Phase, histogram};
use crate::sync::Arc;
use crate::timer::Timer;
use crate::watchdog::Watchdog;

/// Longest time between two looks at the caller's abort flag and at the guests' progress.
const PULSE: Duration = Duration::from_millis(20);
/// How long a thread may take to leave `KVM_RUN` after it was asked to. A kick takes microseconds; a host that starves
/// the thread for longer is a failure worth a message.
pub(crate) const LEAVE_LIMIT_NS: u64 = 10_000_000_000;

/// Time between two looks after which the whole process must have stood still: SIGSTOP, a suspended host.
const STALL_NS: u64 = 2_000_000_000;

/// How long the stages last.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From the last vCPU online until the measured time begins.
    pub warmup_ns: u64,
    /// The measured time.
    pub measure_ns: u64,
    /// Longest time without any progress of a VM, and for all its vCPUs to come online.
    pub watchdog_ns: u64,
}

/// What a run's control loop has seen.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Both ends of the measured time; absent if the run did not get there.
    pub window: Option<(Snapshot, Snapshot)>,
    /// The very end.
    pub end: Option<Snapshot>,
    /// From asking the disk until its answer was delivered, ns; of the measured time.
    pub disk_wait: Option<Histogram<u64>>,
    /// CLOCK_MONOTONIC ns at which the last thread stood before the gate, if all came there.
    pub all_ready_ns: Option<u64>,
    /// CLOCK_MONOTONIC ns at which the last vCPU came online, if all did.
    pub all_online_ns: Option<u64>,
    /// Last words by vCPU index; `None`: the thread was given up.
    pub ended: Vec<Option<Ended>>,
    /// Failures, except those in the last words.
    pub failures: Vec<Failure>,
    /// VMs that the watchdog found without progress.
    pub stuck: Vec<u32>,
    /// Time in which the whole process stood still, in ns.
    pub stalled_ns: u64,
    /// The caller aborted.
    pub aborted: bool,
    /// Every vCPU reached its record limit.
    pub all_done: bool,
    /// The last console lines of each VM.
    pub console_tails: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting { until_ns: u64 },
    Warmup { until_ns: u64 },
    Measure { until_ns: u64 },
    Stopping { until_ns: u64 },
    Ended,
}

impl Stage {
    const fn until_ns(self) -> Option<u64> {
        match self {
            Self::Starting { until_ns }
            | Self::Warmup { until_ns }
            | Self::Measure { until_ns }
            | Self::Stopping { until_ns } => Some(until_ns),
            Self::Ended => None,
        }
    }
}

/// Leads one run.
#[derive(Debug)]
pub struct Conductor {
    shared: Arc<RunShared>,
    cpus: CpuList,
    control: Control,
    times: Times,
    inbox: Receiver<Message>,
    bells: Vec<Arc<EventFd>>,
    alarm: Timer,
    pulse: Timer,
    stage: Stage,
    /// Ends of timed blocks.
    wakes: Due<VcpuIndex>,
    /// Answers of the disk: whose, and when it was asked.
    answers: Due<(VcpuIndex, u64)>,
    watchdog: Watchdog,
    /// When it last looked around, CLOCK_MONOTONIC ns.
    looked_ns: u64,
    consoles: Vec<Console>,
    ready: usize,
    online: Vec<bool>,
    done: usize,
    began: Option<Snapshot>,
    /// Threads that ended as if they had been asked to, before they were.
    early: Vec<VcpuIndex>,
    outcome: Outcome,
    init_error: Option<event_manager::Error>,
}

/// Why there is no control loop.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A timer.
    #[error("a timer of the control loop cannot be made")]
    Timer(#[source] rustix::io::Errno),
    /// The event loop.
    #[error("the event loop failed")]
    Events(#[source] event_manager::Error),
}

impl Conductor {
    /// Ready to lead the run whose threads send to `inbox` and ring `bells` (one a VM).
    ///
    /// # Errors
    /// When the system refuses a timer.
    pub fn new(
        shared: Arc<RunShared>,
        cpus: CpuList,
        control: Control,
        times: Times,
        inbox: Receiver<Message>,
        bells: Vec<Arc<EventFd>>,
    ) -> Result<Self, ControlError> {
        let vcpus = shared.guests.len();
        Ok(Self {
            cpus,
            control,
            times,
            inbox,
            alarm: Timer::new().map_err(ControlError::Timer)?,
            pulse: Timer::new().map_err(ControlError::Timer)?,
            stage: Stage::Starting { until_ns: monotonic_ns() + times.watchdog_ns },
            wakes: Due::default(),
            answers: Due::default(),
            watchdog: Watchdog::new(&shared.guests, times.watchdog_ns),
            looked_ns: monotonic_ns(),
            consoles: (0u32..).map(Console::new).take(bells.len()).collect(),
            bells,
            ready: 0,
            online: vec![false; vcpus],
            done: 0,
            began: None,
            early: Vec::new(),
            outcome: Outcome { ended: (0..vcpus).map(|_| None).collect(), ..Outcome::default() },
            init_error: None,
            shared,
        })
    }

    /// Leads the run to its end. However it ends, all threads have been asked to leave, and all that could have.
    ///
    /// # Errors
    /// When the event loop itself fails; the threads have been stopped then too.
    pub fn lead(self) -> Result<Outcome, ControlError> {
        let shared = Arc::clone(&self.shared);
        self.lead_inner().inspect_err(|_| shared.stop())
    }

    fn lead_inner(self) -> Result<Outcome, ControlError> {
        self.pulse.every(PULSE).map_err(ControlError::Timer)?;
        let mut manager = EventManager::new().map_err(ControlError::Events)?;
        let id = manager.add_subscriber(self);
        loop {
            manager.run().map_err(ControlError::Events)?;
            let conductor = manager.subscriber_mut(id).map_err(ControlError::Events)?;
            if let Some(error) = conductor.init_error.take() {
                return Err(ControlError::Events(error));
            }
            if conductor.stage == Stage::Ended {
                let mut conductor = manager.remove_subscriber(id).map_err(ControlError::Events)?;
                conductor.outcome.console_tails = conductor.consoles.iter().map(Console::tail).collect();
                conductor.blame_early();
                return Ok(conductor.outcome);
            }
        }
    }

    /// Who fails stops the scheduler, and the others may be heard first. Where nobody failed, it was they.
    fn blame_early(&mut self) {
        let ended = &mut self.outcome.ended;
        if ended.iter().flatten().all(|ended| ended.why == Leave::Stopped) {
            for index in &self.early {
                if let Some(ended) = &mut ended[index.index()] {
                    ended.why = Leave::Early;
                }
            }
        }
    }

    fn advance(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            self.receive(message);
        }
        let now_ns = monotonic_ns();
        self.wake_due(now_ns);
        self.answer_due(now_ns);
        if self.control.aborted() && !self.is_stopping() {
            self.outcome.aborted = true;
            self.stop(now_ns);
        }
        self.watch(now_ns);
        self.step(now_ns);
        self.set_alarm();
    }

    fn is_stopping(&self) -> bool {
        matches!(self.stage, Stage::Stopping { .. } | Stage::Ended)
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Ready => {
                self.ready += 1;
                if self.ready == self.online.len() {
                    self.outcome.all_ready_ns = Some(monotonic_ns());
                    self.shared.gate.open();
                }
            }
            Message::Online { index, at_ns } => {
                self.online[index.index()] = true;
                if self.online.iter().all(|online| *online) {
                    let latest = self.outcome.all_online_ns.unwrap_or(0).max(at_ns);
                    self.outcome.all_online_ns = Some(latest);
                }
            }
            Message::Done => {
                self.done += 1;
                self.outcome.all_done = self.done == self.online.len();
            }
            Message::Console { vm, text } => self.consoles[vm as usize].print(&text),
            Message::WakeAt { index, at_ns } => self.wakes.push(at_ns, index),
            Message::DiskAt { index, asked_ns, at_ns } => self.answers.push(at_ns, (index, asked_ns)),
            Message::Ended(ended) => {
                // One that leaves before it is asked to has failed: the others would wait for it for ever.
                if !self.is_stopping() {
                    if ended.why == Leave::Stopped {
                        self.early.push(ended.index);
                    }
                    self.stop(monotonic_ns());
                }
                let slot = ended.index.index();
                self.outcome.ended[slot] = Some(*ended);
            }
        }
    }

    /// Ends the timed blocks whose time has come.
    fn wake_due(&mut self, now_ns: u64) {
        while let Some(index) = self.wakes.take(now_ns) {
            self.shared.sched.vcpu_sched().wake(index, None);
        }
    }

    /// Delivers the answers of the disk that are due.
    fn answer_due(&mut self, now_ns: u64) {
        while let Some((index, asked_ns)) = self.answers.take(now_ns) {
            self.shared.guests.answer_disk(self.shared.sched.vcpu_sched(), index);
            if self.shared.phase.measures() {
                let waited_ns = monotonic_ns().saturating_sub(asked_ns).max(1);
                self.outcome.disk_wait.get_or_insert_with(histogram).saturating_record(waited_ns);
            }
        }
    }

    fn watch(&mut self, now_ns: u64) {
        let since_ns = now_ns - std::mem::replace(&mut self.looked_ns, now_ns);
        if self.is_stopping() {
            return;
        }
        if since_ns > STALL_NS {
            // Nobody could make progress: the guests' time begins anew.
            self.outcome.stalled_ns += since_ns;
            self.watchdog.forgive();
            if let Stage::Starting { until_ns } = &mut self.stage {
                *until_ns += since_ns;
            }
        }
        self.shared.sched.refresh();
        self.outcome.stuck = self.watchdog.stuck(&self.shared.guests, now_ns);
        let lost = self.watchdog.lost_kicks(&self.shared.guests, now_ns);
        if !self.outcome.stuck.is_empty() || !lost.is_empty() {
            self.outcome.failures.extend(lost);
            self.stop(now_ns);
        }
    }

    /// From stage to stage; a stage ends by its time or by what it waits for.
    fn step(&mut self, now_ns: u64) {
        let due = self.stage.until_ns().is_some_and(|until| now_ns >= until);
        match self.stage {
            Stage::Starting { .. } if self.outcome.all_online_ns.is_some() => {
                self.stage = Stage::Warmup { until_ns: now_ns + self.times.warmup_ns };
            }
            Stage::Starting { .. } if due => {
                let late = self.online.iter().zip(self.shared.guests.indices()).filter(|(online, _)| !**online);
                let mut vms: Vec<_> = late.map(|(_, index)| self.shared.guests.locate(index).0.number).collect();
                vms.dedup();
                self.outcome.stuck = vms;
                self.stop(now_ns);
            }
            Stage::Warmup { .. } if due => {
                self.phase(Phase::Measure);
                self.began = Some(self.snapshot());
                self.stage = Stage::Measure { until_ns: now_ns + self.times.measure_ns };
            }
            Stage::Measure { .. } if due || self.outcome.all_done => self.stop(now_ns),
            Stage::Stopping { .. } if self.outcome.ended.iter().all(Option::is_some) || due => {
                // Threads that are still inside are reported by their missing last words.
                self.stage = Stage::Ended;
            }
            _ => {}
        }
    }

    /// Ends the measured time, if it had begun, and asks all threads to leave.
    fn stop(&mut self, now_ns: u64) {
        let end = self.snapshot();
        self.phase(Phase::Done);
        self.outcome.window = self.began.take().map(|began| (began, end.clone()));
        self.outcome.end = Some(end);
        self.shared.stop();
        self.stage = Stage::Stopping { until_ns: now_ns + LEAVE_LIMIT_NS };
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.shared.guests, &self.shared.sched, &self.cpus)
    }

    fn phase(&self, phase: Phase) {
        self.shared.phase.set(phase);
    }

    fn set_alarm(&self) {
        let next = [self.wakes.next_ns(), self.answers.next_ns(), self.stage.until_ns()].into_iter().flatten().min();
        if let Some(at_ns) = next {
            // A timer that was made can be set; should it not ring, the pulse is late by at most its period.
            let _ = self.alarm.at(at_ns);
        }
    }
}

impl MutEventSubscriber for Conductor {
    fn init(&mut self, ops: &mut EventOps) {
        let timers = [self.alarm.as_raw_fd(), self.pulse.as_raw_fd()];
        let sources = timers.into_iter().chain(self.bells.iter().map(|bell| bell.as_raw_fd()));
        for fd in sources {
            if let Err(error) = ops.add(Events::new_raw(fd, EventSet::IN)) {
                self.init_error.get_or_insert(error);
            }
        }
    }

    fn process(&mut self, events: Events, _ops: &mut EventOps) {
        // None of these reads can block, and what they count does not matter.
        if events.fd() == self.alarm.as_raw_fd() {
            self.alarm.acknowledge();
        } else if events.fd() == self.pulse.as_raw_fd() {
            self.pulse.acknowledge();
        } else if let Some(bell) = self.bells.iter().find(|bell| bell.as_raw_fd() == events.fd()) {
            let _ = bell.read();
        }
        self.advance();
    }
}
