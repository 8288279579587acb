//! The VMs of a run as all threads see them: what is shared, and the signals that vCPUs send each other.
//!
//! A vCPU is addressed in two ways: inside its VM by its number, as the guest does, and across the run by its
//! [`VcpuIndex`], as the scheduler does. [`Guests`] is the one place that translates.

use abi::layout::DISK_VECTOR;
use abi::results::Results;
use abi::state::Stop;
use abi::vcpu::VcpuPage;
use abi::{layout, params::Params};
use kvm_ioctls::VmFd;

use crate::clock::monotonic_ns;
use crate::kick::{KickCell, Reason};
use crate::latch::KickLatch;
use crate::memory::{GuestMemory, MemoryError};
use crate::sched::{PreemptNotifier, SchedOut, VcpuIndex, VcpuSched};
use crate::stats::{Counter, Counters};
use crate::sync::{Arc, AtomicBool, AtomicU32, Ordering};
use crate::vectors::PendingVectors;

/// What the threads of a run share about one vCPU, besides its kick cell.
#[derive(Debug, Default)]
pub struct VcpuShared {
    /// Vectors that wait for it.
    pub vectors: PendingVectors,
    /// Ends its halts.
    pub latch: KickLatch,
    /// Written by its thread only.
    pub counters: Counters,
    /// Requests to the disk that it has not answered.
    pub disk_requests: AtomicU32,
    /// True while its thread is inside the scheduler's `halt`.
    pub halted: AtomicBool,
    /// What the host itself wrote to its state word last: stopped, as at boot, or running.
    pub stopped: AtomicBool,
    /// Kernel thread id of its thread; 0 before it starts.
    pub tid: AtomicU32,
}

/// One VM.
#[derive(Debug)]
pub struct Vm {
    /// Number in the run, from 0.
    pub number: u32,
    /// Index of its vCPU 0.
    pub first: VcpuIndex,
    /// Its vCPUs, by number.
    pub vcpus: Vec<VcpuShared>,
    /// What its guest was told.
    pub params: Params,
    /// TSC frequency of its vCPUs in kHz.
    pub tsc_khz: u32,
    // Before `memory`: the VM goes before what it maps.
    fd: VmFd,
    memory: GuestMemory,
}

impl Vm {
    /// Takes a booted VM in. Every page that is shared later on is looked up once here.
    ///
    /// # Errors
    /// If a shared page is outside guest memory, which the layout excludes.
    pub fn new(
        number: u32,
        first: VcpuIndex,
        params: Params,
        tsc_khz: u32,
        fd: VmFd,
        memory: GuestMemory,
    ) -> Result<Self, MemoryError> {
        for vcpu in 0..params.vcpus {
            memory.shared::<VcpuPage>(layout::vcpu_page(vcpu))?;
            memory.shared::<Results>(layout::results_block(vcpu))?;
        }
        let at_boot = || VcpuShared { stopped: AtomicBool::new(true), ..VcpuShared::default() };
        let vcpus = (0..params.vcpus).map(|_| at_boot()).collect();
        Ok(Self { number, first, vcpus, params, tsc_khz, fd, memory })
    }

    /// For tests: takes the pages away that hold the guest's kernel.
    ///
    /// # Errors
    /// The system's.
    pub fn lose_image(&self) -> std::io::Result<()> {
        self.memory.forbid(layout::IMAGE, layout::STACKS - layout::IMAGE)
    }

    /// The page that vCPU `vcpu` shares with the host.
    ///
    /// # Panics
    /// If the VM has no such vCPU.
    #[must_use]
    pub fn page(&self, vcpu: u32) -> &VcpuPage {
        assert!(vcpu < self.params.vcpus);
        self.memory.shared(layout::vcpu_page(vcpu)).expect("looked up once by Vm::new")
    }

    /// The results block of vCPU `vcpu`.
    ///
    /// # Panics
    /// If the VM has no such vCPU.
    #[must_use]
    pub fn results(&self, vcpu: u32) -> &Results {
        assert!(vcpu < self.params.vcpus);
        self.memory.shared(layout::results_block(vcpu)).expect("looked up once by Vm::new")
    }

    /// vCPU `vcpu` loses its CPU, on its own thread: is anybody behind it? What the guest says is only counted by.
    fn count_lock_preemption(&self, vcpu: u32) {
        let (line, counters) = (&self.page(vcpu).lock.0, &self.vcpus[vcpu as usize].counters);
        if line.held.load(Ordering::Relaxed) != 0 {
            counters.add(Counter::LockHolderPreemptions, 1);
        } else if line.waits.load(Ordering::Relaxed) != 0 {
            counters.add(Counter::LockWaiterPreemptions, 1);
        }
    }

    /// The VM's descriptor.
    #[must_use]
    pub const fn fd(&self) -> &VmFd {
        &self.fd
    }
}

/// All VMs of a run.
#[derive(Debug)]
pub struct Guests {
    /// By number.
    pub vms: Vec<Vm>,
    /// Kick cells of all vCPUs, by index.
    pub cells: Arc<[KickCell]>,
    /// VM and number of each vCPU, by index.
    place: Vec<(usize, u32)>,
}

impl Guests {
    /// Puts VMs together, in order; the vCPU indices follow from it.
    #[must_use]
    pub fn new(vms: Vec<Vm>) -> Self {
        let place: Vec<_> =
            vms.iter().enumerate().flat_map(|(vm, v)| (0..v.params.vcpus).map(move |vcpu| (vm, vcpu))).collect();
        let cells = place.iter().map(|_| KickCell::new()).collect();
        Self { vms, cells, place }
    }

    /// Number of vCPUs of all VMs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// True if there is no vCPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }

    /// Every vCPU.
    pub fn indices(&self) -> impl Iterator<Item = VcpuIndex> + use<> {
        (0u32..).map(VcpuIndex).take(self.place.len())
    }

    /// VM and number of a vCPU.
    #[must_use]
    pub fn locate(&self, index: VcpuIndex) -> (&Vm, u32) {
        let (vm, vcpu) = self.place[index.index()];
        (&self.vms[vm], vcpu)
    }

    /// What is shared about a vCPU.
    #[must_use]
    pub fn shared(&self, index: VcpuIndex) -> &VcpuShared {
        let (vm, vcpu) = self.locate(index);
        &vm.vcpus[vcpu as usize]
    }

    /// The kick cell of a vCPU.
    #[must_use]
    pub fn cell(&self, index: VcpuIndex) -> &KickCell {
        &self.cells[index.index()]
    }

    /// Raises `vector` on vCPU `target`: out of `KVM_RUN` or out of its halt with it. False if it was pending already,
    /// and then whoever raised it first has seen to the rest.
    pub fn raise(&self, sched: &dyn VcpuSched, target: VcpuIndex, vector: u8, from: VcpuIndex) -> bool {
        let fresh = self.shared(target).vectors.raise(vector, monotonic_ns());
        if fresh {
            self.cell(target).post(Reason::Interrupt);
            sched.wake(target, Some(from));
        }
        fresh
    }

    /// Sets the kick latch of vCPU `target` and ends its halt. False if the latch was set already, and then whoever set
    /// it has seen to the rest.
    pub fn kick(&self, sched: &dyn VcpuSched, target: VcpuIndex, from: VcpuIndex) -> bool {
        let fresh = self.shared(target).latch.kick();
        if fresh {
            sched.wake(target, Some(from));
        }
        fresh
    }
}

impl Guests {
    /// The disk has answered vCPU `target`: it is told by a count, a vector for when it runs, and a kick for when it halts.
    /// Called by the control loop.
    pub fn answer_disk(&self, sched: &dyn VcpuSched, target: VcpuIndex) {
        let (vm, vcpu) = self.locate(target);
        let own = &vm.vcpus[vcpu as usize];
        own.disk_requests.fetch_sub(1, Ordering::AcqRel);
        vm.page(vcpu).host.0.disk_done.fetch_add(1, Ordering::Release);
        let raised = own.vectors.raise_untimed(DISK_VECTOR);
        let kicked = own.latch.kick();
        if raised {
            self.cell(target).post(Reason::Interrupt);
        }
        if raised || kicked {
            sched.wake(target, None);
        }
    }
}

impl PreemptNotifier for Guests {
    /// Marks the state word: from here on initiators may leave a flush there instead of an IPI. Every exit that leads
    /// here is at an instruction boundary or in a doorbell's `OUT` (all others end the run), see [`Stop`].
    fn sched_out(&self, vcpu: VcpuIndex, why: SchedOut) {
        let (vm, number) = self.locate(vcpu);
        let stop = match why {
            SchedOut::Preempted => {
                vm.count_lock_preemption(number);
                Stop::Preempted
            }
            SchedOut::Halted => Stop::Halted,
        };
        vm.page(number).state.0.stop(stop);
        vm.vcpus[number as usize].stopped.store(true, Ordering::Relaxed);
    }

    /// Nothing: the vCPU loop takes the word (and a flush in it) right before the entry, so that a flush may still be
    /// marked until then.
    fn sched_in(&self, _vcpu: VcpuIndex) {}
}
