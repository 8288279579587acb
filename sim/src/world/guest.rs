//! The guest's scheduler and its threads: one operation after the other until one takes time.
//!
//! Each vCPU has a run queue of the threads that live on it; a thread that blocks makes room for the next, and a vCPU
//! without threads halts. An idle vCPU keeps the address space loaded until a flush reaches it (lazy TLB).
use hostsched::CpuId;
use plan::Spin;

use super::cpu::sched;
use super::sched_guest::slice_ticks;
use super::{Timer, World};
use crate::cache::WARM;
use crate::ids::{ThreadId, VcpuId};
use crate::observe::Event;
use crate::timers::Timers;
use crate::vcpu::{Phase, Place};
use crate::workload::{Env, Op};

impl World {
    /// What the vCPU did has taken its time.
    pub(super) fn guest_step(&mut self, cpu: CpuId) {
        let Some(v) = self.cpus[cpu.index()].vcpu else { return };
        self.account(v);
        match self.vcpus[v.i()].phase {
            Phase::Work | Phase::Fetch => self.run_ops(cpu, v),
            Phase::FlushSpin if self.vcpus[v.i()].flush.outstanding == 0 => {
                if self.vcpus[v.i()].flush.ipi {
                    self.finish_ipi(v);
                } else {
                    self.finish_flush(v);
                }
                self.run_ops(cpu, v);
            }
            Phase::FlushSpin if self.axes.spin == Spin::Halt && !self.vcpus[v.i()].flush.ipi => {
                self.halt_in_flush(cpu, v);
            }
            Phase::FlushSpin => self.pause_loop_exit(cpu, v),
            Phase::LockSpin => {
                if self.lock_spin_over(cpu, v) {
                    self.run_ops(cpu, v);
                }
            }
            Phase::FlushHalt | Phase::LockHalt | Phase::Idle => self.set_end(cpu, v),
        }
    }

    /// Sets when the present phase of a vCPU in guest mode ends, or does at once what takes no time.
    pub(super) fn set_end(&mut self, cpu: CpuId, v: VcpuId) {
        let vcpu = &self.vcpus[v.i()];
        let free_at = vcpu.busy_until.max(self.now);
        let end = match vcpu.phase {
            Phase::Work => free_at + vcpu.remaining,
            Phase::Fetch => free_at,
            Phase::FlushSpin => self.spin_end(v),
            Phase::LockSpin => self.lock_spin_end(v),
            Phase::FlushHalt => return self.recheck_flush(cpu, v),
            Phase::LockHalt => return self.recheck_lock(cpu, v),
            Phase::Idle => {
                if !(self.pick_thread(v) || self.pull_thread(v) && self.pick_thread(v)) {
                    return self.idle(cpu, v);
                }
                return self.set_end(cpu, v);
            }
        };
        self.start_guest_timer(cpu, v);
        self.timers.set(Timer::End.slot(cpu), end);
    }

    /// Until when the vCPU spins for its flush if nothing more happens.
    pub(super) fn spin_end(&self, v: VcpuId) -> u64 {
        let vcpu = &self.vcpus[v.i()];
        let free_at = vcpu.busy_until.max(self.now);
        if vcpu.flush.outstanding == 0 {
            return free_at.max(vcpu.flush.ready_at);
        }
        match (self.axes.spin, self.ple_exit_ns) {
            (Spin::Halt, _) if !vcpu.flush.ipi => free_at + self.spin_budget_ns,
            (Spin::Ple, Some(ns)) => free_at + ns,
            _ => Timers::NEVER,
        }
    }

    /// Operations of the vCPU's threads until one takes time.
    fn run_ops(&mut self, cpu: CpuId, v: VcpuId) {
        self.vcpus[v.i()].phase = Phase::Fetch;
        loop {
            let Some(thread) = self.vcpus[v.i()].thread else {
                self.vcpus[v.i()].phase = Phase::Idle;
                return self.set_end(cpu, v);
            };
            let op = self.next_op(v, thread);
            match op {
                Op::Work(ns) => {
                    self.begin_work(cpu, v, ns);
                    return self.set_end(cpu, v);
                }
                Op::Flush => {
                    self.begin_flush(cpu, v);
                    return self.set_end(cpu, v);
                }
                Op::Ipi(turn) => {
                    self.begin_ipi(cpu, v, turn);
                    return self.set_end(cpu, v);
                }
                Op::DownRead if !self.down_read(v, thread) => self.block(v),
                Op::DownWrite if !self.down_write(v, thread) => self.block(v),
                Op::DownRead | Op::DownWrite => {}
                Op::UpRead => self.up_read(cpu, v),
                Op::UpWrite => self.up_write(cpu, v),
                Op::Record => self.record_done(v),
                Op::Lock(lock) | Op::LockIrqsave(lock) if self.spin_lock(v, lock, matches!(op, Op::LockIrqsave(_))) => {
                }
                Op::Lock(_) | Op::LockIrqsave(_) => return self.set_end(cpu, v),
                Op::Unlock(lock) => self.spin_unlock(cpu, v, lock),
                Op::Sleep(queue) => self.sleep_on(v, thread, queue),
                Op::Wake(queue, most) => self.wake_sleepers(cpu, v, queue, most),
                Op::Fork(queue) => self.fork(cpu, v, queue),
                Op::Disk => self.ask_disk(v, thread),
                Op::Nap(ns) => self.nap(v, thread, ns),
                Op::Awake => self.awake(v),
            }
            if self.vcpus[v.i()].phase == Phase::Work {
                // Another thread goes on with the work that it was in.
                return self.set_end(cpu, v);
            }
        }
    }

    fn next_op(&mut self, v: VcpuId, thread: ThreadId) -> Op {
        let thread = &mut self.threads[thread.i()];
        let shared = &mut self.vms[self.vcpus[v.i()].vm].shared;
        let Self { costs, params, .. } = self;
        thread.program.next(&mut Env { costs, params, rng: &mut thread.rng }, shared)
    }

    /// A piece of work begins; how fast it goes is decided now, by what the VM and its neighbours do at this instant.
    fn begin_work(&mut self, cpu: CpuId, v: VcpuId, ns: u64) {
        let vcpu = &mut self.vcpus[v.i()];
        let vm = &mut self.vms[vcpu.vm];
        vm.stale_reads += u64::from(vcpu.tlb_generation < vm.completed);
        let heat = self.caches[self.cpus[cpu.index()].llc].touch(vcpu.vm, ns);
        let slower = self.contention * (vm.running - 1) + self.costs.cache_penalty * (WARM - heat) / WARM;
        vcpu.remaining = ns + ns * slower / 1000;
        vcpu.phase = Phase::Work;
    }

    fn record_done(&mut self, v: VcpuId) {
        let now = self.now;
        let vcpu = &mut self.vcpus[v.i()];
        let vm = &mut self.vms[vcpu.vm];
        if (vm.measure_from..vm.measure_to).contains(&now) {
            vm.records += 1;
            vcpu.records += 1;
        }
        if now >= vm.measure_to {
            // The benchmark is over: the thread ends.
            vcpu.thread = None;
            self.pick_thread(v);
        }
    }

    /// The current thread waits for something.
    pub(super) fn block(&mut self, v: VcpuId) {
        self.vcpus[v.i()].thread = None;
        self.pick_thread(v);
    }

    /// The current thread's time is over.
    pub(super) fn rotate(&mut self, v: VcpuId) {
        let vcpu = &mut self.vcpus[v.i()];
        if let Some(thread) = vcpu.thread.take() {
            self.threads[thread.i()].remaining = vcpu.remaining;
            vcpu.queue.push_back(thread);
        }
        self.pick_thread(v);
    }

    /// Takes the next thread of the queue; false if there is none.
    fn pick_thread(&mut self, v: VcpuId) -> bool {
        let vcpu = &mut self.vcpus[v.i()];
        let Some(thread) = vcpu.queue.pop_front() else { return false };
        vcpu.thread = Some(thread);
        vcpu.slice = slice_ticks(vcpu.queue.len());
        vcpu.busy_until = vcpu.busy_until.max(self.now) + self.costs.guest_switch;
        vcpu.remaining = std::mem::take(&mut self.threads[thread.i()].remaining);
        vcpu.phase = if vcpu.remaining > 0 { Phase::Work } else { Phase::Fetch };
        let vm = &mut self.vms[vcpu.vm];
        if vm.mm_mask & vcpu.bit() == 0 {
            // switch_mm after leave_mm: loading the address space leaves no old translation.
            vm.mm_mask |= vcpu.bit();
            vcpu.tlb_generation = vm.generation;
            vcpu.busy_until += self.costs.tlb_flush;
        }
        true
    }

    /// The vCPU has no thread: HLT.
    fn idle(&mut self, cpu: CpuId, v: VcpuId) {
        self.stop_timer(cpu, Timer::Guest);
        // A kick that is left over ends this halt at once, and the idle loop halts again.
        self.vcpus[v.i()].kick = false;
        if self.options.yield_on_hlt {
            self.halt_vcpu(cpu, v, false);
        } else {
            self.stop_timer(cpu, Timer::End);
        }
    }

    /// A thread has become runnable; `cpu` executes whoever did that.
    pub(super) fn wake_thread(&mut self, thread: ThreadId, cpu: CpuId) {
        let v = self.threads[thread.i()].vcpu;
        self.vcpus[v.i()].queue.push_back(thread);
        if self.cpus[cpu.index()].vcpu == Some(v) {
            return;
        }
        if self.vcpus[v.i()].phase == Phase::Idle
            && let Some(waker) = self.cpus[cpu.index()].vcpu
        {
            let waker = &mut self.vcpus[waker.i()];
            waker.busy_until = waker.busy_until.max(self.now) + self.costs.ipi_send;
        }
        self.send_resched_irq(v, cpu);
    }

    /// A pause loop has lasted for the window (`handle_pause`, `kvm_vcpu_on_spin`).
    pub(super) fn pause_loop_exit(&mut self, cpu: CpuId, v: VcpuId) {
        self.leave_guest(cpu);
        let cost = self.costs.exit + self.costs.on_spin;
        let yielded = sched!(self).spin_detected(cpu);
        self.tell(|world| Event::PauseExit { cpu, vcpu: world.name(v), yielded });
        let cost = cost + self.apply_effects(Some(cpu));
        if yielded {
            self.reschedule(cpu, cost);
        } else {
            self.start_host(cpu, cost);
        }
    }

    /// The vCPU spun long enough.
    fn halt_in_flush(&mut self, cpu: CpuId, v: VcpuId) {
        self.scan_flush(v);
        if self.vcpus[v.i()].flush.outstanding == 0 {
            return self.set_end(cpu, v);
        }
        self.vcpus[v.i()].phase = Phase::FlushHalt;
        let latched = std::mem::take(&mut self.vcpus[v.i()].kick);
        if latched {
            self.recheck_flush(cpu, v);
        } else {
            self.hlt_in_flush(cpu, v);
        }
    }

    fn hlt_in_flush(&mut self, cpu: CpuId, v: VcpuId) {
        if self.options.yield_on_hlt {
            self.halt_vcpu(cpu, v, true);
        } else {
            self.start_guest_timer(cpu, v);
            self.stop_timer(cpu, Timer::End);
        }
    }

    /// Something has ended the halt: is the flush over? As posted, nobody looks: the halt was the wait.
    pub(super) fn recheck_flush(&mut self, cpu: CpuId, v: VcpuId) {
        self.vcpus[v.i()].kick = false;
        self.scan_flush(v);
        if self.vcpus[v.i()].flush.outstanding == 0 || self.options.halt_once {
            self.vcpus[v.i()].phase = Phase::FlushSpin;
            if self.vcpus[v.i()].flush.outstanding != 0 {
                self.finish_flush(v);
            }
            return self.set_end(cpu, v);
        }
        debug_assert!(matches!(self.vcpus[v.i()].place, Place::Guest(_)));
        self.hlt_in_flush(cpu, v);
    }
}
