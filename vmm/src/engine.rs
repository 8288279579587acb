//! The engine: one plan, from the first `KVM_CREATE_VM` to the record.
//!
//! ```text
//!   check the plan against the host ─► boot all VMs ─► start the threads ─► Conductor::lead ─► join ─► record
//! ```
//! The calling thread becomes the control loop. Nothing survives a run: threads are joined, VMs closed, memory
//! unmapped. The one exception is a thread that does not leave `KVM_RUN` when it is asked to; it keeps its VM, and the
//! record says so.

use std::thread::JoinHandle;
use std::time::Duration;

use abi::layout::FLUSH_VECTOR;
use abi::params::Workload as GuestWorkload;
use crossbeam::channel::{Sender, unbounded};
use hostsched::CpuId;
use kvm_ioctls::{Kvm as KvmDevice, VcpuFd};
use plan::{Control, Engine, EngineError, Inject, RunPlan, RunRecord, Sched};
use trace::{Buffer, Names, Trace};
use vmm_sys_util::eventfd::EventFd;

use crate::boot::{Image, boot};
use crate::clock::monotonic_ns;
use crate::control::{Conductor, LEAVE_LIMIT_NS, Outcome, Times};
use crate::disk::Disk;
use crate::guest_params::{check_size, check_workload, params};
use crate::guests::{Guests, Vm};
use crate::kick::install_handler;
use crate::neighbour;
use crate::outbox::{Message, Outbox};
use crate::probe::{allowed_cpus, open_kvm};
use crate::record::{Made, record};
use crate::run_shared::{FaultHook, Gate, RunShared};
use crate::sched::VcpuIndex;
use crate::scheduler::{Scheduler, host_affinity};
use crate::stats::PhaseCell;
use crate::sync::{Arc, AtomicBool, AtomicU32, Ordering};
use crate::tap::{self, Room};
use crate::vcpu::thread_main;

/// How often a thread that was asked to leave is looked at, where nobody hears its last words.
const LEAVE_LOOK: Duration = Duration::from_millis(1);

/// Samples a second of the guest profile under the kernel's scheduler; the lab's samples at every tick.
const HOST_SAMPLE_HZ: u64 = 50;

/// Real KVM guests.
#[derive(Debug, Clone)]
pub struct Kvm {
    options: Options,
}

/// What the plan does not say: limits, and faults that tests put in.
#[derive(Debug, Clone)]
pub struct Options {
    /// Longest time without progress of a VM before the run fails.
    pub watchdog: Duration,
    /// A guest workload instead of the plan's.
    pub workload: Option<GuestWorkload>,
    /// Records of a vCPU after which it is done; the run ends when all are. 0: no limit.
    pub record_limit: u64,
    /// Some of those who wait for a spinlock do not, which the check of `spinlock` must find.
    pub broken_lock: bool,
    /// The guest loses some of its work, which its check must find.
    pub lost_work: bool,
    /// Code that runs instead of the guest kernel.
    pub guest_code: Option<Vec<u8>>,
    /// Bytes that replace the guest's own before its first instruction: guest-physical address and what stands there.
    pub guest_patches: Vec<(u64, Vec<u8>)>,
    /// A vCPU thread in which something goes wrong.
    pub fault_hook: Option<FaultHook>,
    /// Record what the lab's scheduler is told, and check that `hostsched` alone comes to the same decisions.
    pub replay: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            watchdog: Duration::from_secs(10),
            workload: None,
            record_limit: 0,
            broken_lock: false,
            lost_work: false,
            guest_code: None,
            guest_patches: Vec::new(),
            fault_hook: None,
            replay: false,
        }
    }
}

impl Default for Kvm {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Kvm {
    /// An engine with options; `Kvm::default()` is the one that users get.
    #[must_use]
    pub const fn new(options: Options) -> Self {
        Self { options }
    }
}

impl Engine for Kvm {
    fn name(&self) -> &'static str {
        "kvm"
    }

    fn run(&self, plan: &RunPlan, control: &Control) -> Result<RunRecord, EngineError> {
        self.run_with(plan, control, None).map(|(record, _)| record)
    }

    fn run_traced(
        &self,
        plan: &RunPlan,
        control: &Control,
        limits: trace::Limits,
    ) -> Result<(RunRecord, Trace), EngineError> {
        self.run_with(plan, control, Some(limits))
    }
}

impl Kvm {
    fn run_with(
        &self,
        plan: &RunPlan,
        control: &Control,
        limits: Option<trace::Limits>,
    ) -> Result<(RunRecord, Trace), EngineError> {
        check(plan)?;
        check_size(plan)?;
        let kvm = open_kvm().map_err(|reason| EngineError::Unsupported(reason.to_string()))?;
        install_handler().map_err(|e| internal("installing the kick signal's handler", e))?;
        let began_ns = monotonic_ns();
        let (guests, vcpus) = self.boot_all(plan, &kvm)?;
        let booted_ns = monotonic_ns();
        let shared = Arc::new(self.share(plan, guests, limits)?);
        let (sender, inbox) = unbounded();
        let bells = bells(plan.vms + plan.neighbour.count())?;
        let times = Times {
            warmup_ns: plan.warmup_ns,
            measure_ns: plan.duration_ns,
            watchdog_ns: u64::try_from(self.options.watchdog.as_nanos()).unwrap_or(u64::MAX),
        };
        let conductor =
            Conductor::new(Arc::clone(&shared), plan.pcpus.clone(), control.clone(), times, inbox, bells.clone())
                .map_err(|e| internal("making the control loop", e))?;
        let threads = start(plan, &shared, vcpus, &sender, &bells)?;
        drop(sender);
        if let Some(room) = shared.trace {
            tap::install(room, Arc::clone(&shared.phase));
        }
        let led = conductor.lead();
        let own_trace = tap::remove();
        let mut outcome = match led {
            Ok(outcome) => outcome,
            Err(error) => {
                join_leaving(threads);
                return Err(internal("running the control loop", error));
            }
        };
        join(threads, |index| outcome.ended[index].is_some());
        let trace = gather(plan, &shared, own_trace, &mut outcome);
        Ok((record(plan, Made { shared: &shared, began_ns, booted_ns, outcome }), trace))
    }

    fn boot_all(&self, plan: &RunPlan, kvm: &KvmDevice) -> Result<(Guests, Vec<VcpuFd>), EngineError> {
        let header = guest::header().map_err(|e| internal("reading the guest image", e))?;
        let image = Image {
            elf: guest::IMAGE,
            header,
            code: self.options.guest_code.as_deref(),
            patches: &self.options.guest_patches,
        };
        let lost_flush = plan.inject == Some(Inject::LostFlush);
        let (mut vms, mut vcpus) = (Vec::new(), Vec::new());
        let of_vms = (0..plan.vms).map(|number| params(plan, number, &self.options));
        for (number, params) in (0..).zip(of_vms.chain(neighbour::params(plan))) {
            let booted =
                boot(kvm, &image, &params, lost_flush).map_err(|e| internal(format!("booting VM {number}"), e))?;
            let first = VcpuIndex(number * plan.vcpus);
            let vm = Vm::new(number, first, params, booted.tsc_khz, booted.vm, booted.memory);
            vms.push(vm.map_err(|e| internal(format!("booting VM {number}"), e))?);
            vcpus.extend(booted.vcpus);
        }
        Ok((Guests::new(vms), vcpus))
    }

    fn share(&self, plan: &RunPlan, guests: Guests, limits: Option<trace::Limits>) -> Result<RunShared, EngineError> {
        let guests = Arc::new(guests);
        Ok(RunShared {
            sched: Scheduler::new(plan, &guests, self.options.replay)?,
            offline: AtomicU32::new(u32::try_from(guests.len()).unwrap_or(u32::MAX)),
            // The control loop records too.
            trace: limits.map(|limits| Room::share(limits, guests.len() + 1)),
            disk: Disk::new(u64::from(plan.params.disk_us) * 1000),
            guests,
            phase: Arc::new(PhaseCell::default()),
            gate: Gate::default(),
            stopping: AtomicBool::new(false),
            sample_period_ns: (plan.sched == Sched::Host).then_some(1_000_000_000 / HOST_SAMPLE_HZ),
            fault_hook: self.options.fault_hook,
        })
    }
}

/// Puts together what the threads recorded.
fn gather(plan: &RunPlan, shared: &RunShared, own: Option<Buffer>, outcome: &mut Outcome) -> Trace {
    let of_threads = outcome.ended.iter_mut().flatten().filter_map(|ended| ended.stats.trace.take());
    let buffers: Vec<Buffer> = own.into_iter().chain(of_threads).collect();
    let task = |index| {
        let (vm, number) = shared.guests.locate(index);
        trace::Task::vcpu(vm.number, number, shared.guests.shared(index).tid.load(Ordering::Acquire))
    };
    let names = Names::new(shared.guests.indices().map(task).collect());
    let numbers: Vec<CpuId> = plan.pcpus.as_slice().iter().map(|cpu| CpuId(*cpu)).collect();
    if plan.sched == Sched::Host {
        return Trace { flush_vector: FLUSH_VECTOR, ..Trace::new(buffers, names, numbers) };
    }
    let slots = (0..).map(CpuId).take(numbers.len()).collect();
    let mut trace = Trace { flush_vector: FLUSH_VECTOR, ..Trace::new(buffers, names, slots) };
    trace.renumber(&numbers);
    trace
}

/// What only the host can tell about a plan.
fn check(plan: &RunPlan) -> Result<(), EngineError> {
    plan.validate().map_err(|e| EngineError::BadPlan(e.to_string()))?;
    check_workload(plan)?;
    let allowed = allowed_cpus();
    match plan.pcpus.as_slice().iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => Err(EngineError::BadPlan(format!(
            "--pcpus names CPU {cpu}, which this process may not use; it may use {}",
            plan::CpuList::new(allowed).map_or_else(|| "none".to_owned(), |list| list.to_string())
        ))),
    }
}

fn internal(what: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> EngineError {
    EngineError::Internal { what: what.into(), source: Some(Box::new(source)) }
}

/// One bell a VM.
fn bells(vms: u32) -> Result<Vec<Arc<EventFd>>, EngineError> {
    (0..vms)
        .map(|_| EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC).map(Arc::new))
        .collect::<Result<_, _>>()
        .map_err(|e| internal("making an eventfd", e))
}

/// One thread a vCPU, in order of the indices. If one cannot be started, those that were are stopped.
fn start(
    plan: &RunPlan,
    shared: &Arc<RunShared>,
    vcpus: Vec<VcpuFd>,
    sender: &Sender<Message>,
    bells: &[Arc<EventFd>],
) -> Result<Vec<JoinHandle<()>>, EngineError> {
    let mut threads = Vec::with_capacity(vcpus.len());
    for (index, fd) in shared.guests.indices().zip(vcpus) {
        let (vm, vcpu) = shared.guests.locate(index);
        let outbox = Outbox { sender: sender.clone(), bell: Arc::clone(&bells[vm.number as usize]) };
        let pin = plan.axes.pin && vm.number < plan.vms;
        let affinity = (plan.sched == Sched::Host).then(|| host_affinity(&plan.pcpus, pin, vcpu));
        let shared_of_thread = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name(format!("vcpu{}.{vcpu}", vm.number))
            .spawn(move || thread_main(&shared_of_thread, index, fd, affinity.as_deref(), &outbox));
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                shared.stop();
                join_leaving(threads);
                return Err(internal(format!("starting the thread of vCPU {vcpu} of VM {}", vm.number), error));
            }
        }
    }
    Ok(threads)
}

/// Joins threads that were asked to leave and whose last words nobody hears, as they end. One that does not leave
/// `KVM_RUN` is given up, as [`join`] gives it up.
fn join_leaving(threads: Vec<JoinHandle<()>>) {
    let until_ns = monotonic_ns() + LEAVE_LIMIT_NS;
    for thread in threads {
        while !thread.is_finished() && monotonic_ns() < until_ns {
            std::thread::sleep(LEAVE_LOOK);
        }
        if thread.is_finished() {
            // A panic of the thread was caught.
            let _ = thread.join();
        }
    }
}

/// Joins the threads that have said their last words: they end at once. The others are given up.
fn join(threads: Vec<JoinHandle<()>>, has_ended: impl Fn(usize) -> bool) {
    for (index, thread) in threads.into_iter().enumerate() {
        if has_ended(index) {
            // A panic of the thread was caught and is in its last words.
            let _ = thread.join();
        }
    }
}
