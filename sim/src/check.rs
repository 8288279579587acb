//! Invariants of a run, looked at from outside the code that keeps them; on in release builds too.
//!
//! | name | what must hold |
//! |---|---|
//! | `one-place` | a vCPU has a CPU in our books exactly if hostsched runs its thread there |
//! | `asked` | a CPU that must call `schedule` and does not execute the host is being interrupted |
//! | `running` | a VM's count of vCPUs that have a CPU is their number |
//! | `queued` | a vCPU that wants a CPU waits on a queue or on a wake list whose interrupt is under way; a halted one does not |
//! | `no-lost-wake` | a halted vCPU has nothing pending, nothing to run, no flush that is over and no lock that is its own |
//! | `halt-ends` | a halt in a flush does not outlast the guest's tick |
//! | `spinlock` | one owner, who knows it; all in line wait for that lock, in the order of their tickets; one that is free
//! has nobody who spins for it |
//! | `work` | nothing that a workload hands from thread to thread is lost or there twice |
//! | `time` | each CPU has run, idled or lost every nanosecond since the start |
//! | `unfinished` | once the measured time is over, every thread comes to its end: asked for by [`unfinished`] only |
use hostsched::{CpuId, Ipi, Nanos};
use plan::Lock;

use crate::ids::VcpuId;
use crate::vcpu::{Phase, Place};
use crate::world::{Activity, EPOCH_NS, Message, World};

/// The first invariant that does not hold, as one sentence that begins with its name.
pub(crate) fn broken(world: &mut World) -> Option<String> {
    for cpu in world.present.clone() {
        if let Some(why) = place(world, cpu).or_else(|| asked(world, cpu)).or_else(|| time(world, cpu)) {
            return Some(why);
        }
    }
    let halts = |v| lost_wake(world, v).or_else(|| halt_ends(world, v));
    let of_vcpu = |v| halts(v).or_else(|| queued(world, v)).or_else(|| owned(world, v));
    let shared = |vm| running(world, vm).or_else(|| lines(world, vm)).or_else(|| work(world, vm));
    let of_vm = |vm| world.vcpus_of(vm).find_map(of_vcpu).or_else(|| shared(vm));
    (0..world.vms.len()).find_map(of_vm)
}

fn place(world: &World, cpu: CpuId) -> Option<String> {
    let ours = world.cpus[cpu.index()].vcpu;
    let theirs = world.host.current(cpu).filter(|task| *task != world.cpus[cpu.index()].daemon);
    let here = |v: VcpuId| matches!(world.vcpus[v.i()].place, Place::Host(c) | Place::Guest(c) if c == cpu);
    let agree = ours.map(VcpuId::task) == theirs && ours.is_none_or(here);
    (!agree).then(|| format!("one-place: CPU {cpu} has {ours:?} in our books and {theirs:?} in hostsched's"))
}

fn asked(world: &World, cpu: CpuId) -> Option<String> {
    let pcpu = &world.cpus[cpu.index()];
    let must = world.rqs[cpu.index()].need_resched() && pcpu.activity != Activity::Host;
    let lost = must && pcpu.inbox.is_empty();
    lost.then(|| format!("asked: CPU {cpu} ({:?}) must schedule, and no interrupt is under way", pcpu.activity))
}

fn time(world: &mut World, cpu: CpuId) -> Option<String> {
    let now = world.now;
    world.host.at(Nanos(now), &mut world.rqs, &mut world.fx).sync(cpu);
    let stats = world.rqs[cpu.index()].stats();
    let spent = (stats.exec + stats.idle + stats.steal).0;
    let elapsed = now - EPOCH_NS;
    (spent != elapsed).then(|| format!("time: CPU {cpu} accounts for {spent} ns of {elapsed}"))
}

fn running(world: &World, vm: usize) -> Option<String> {
    let on_cpu = |v: &VcpuId| matches!(world.vcpus[v.i()].place, Place::Host(_) | Place::Guest(_));
    let counted = world.vcpus_of(vm).filter(on_cpu).count() as u64;
    let ours = world.vms[vm].running;
    (counted != ours).then(|| format!("running: VM {vm} says {ours} and has {counted}"))
}

fn queued(world: &World, v: VcpuId) -> Option<String> {
    let place = world.vcpus[v.i()].place;
    let cpu = world.host.task_cpu(v.task());
    let info = cpu.and_then(|cpu| world.rqs[cpu.index()].task_info(&world.host, v.task()));
    let on_rq = info.as_ref().is_some_and(|info| info.on_rq);
    let wakeup = Message::Sched(Ipi::Wakeup);
    let under_way = |cpu: CpuId| world.cpus[cpu.index()].inbox.iter().any(|(_, message)| *message == wakeup);
    let right = match place {
        Place::Ready => on_rq || cpu.is_some_and(under_way),
        Place::Halted => info.is_some() && !on_rq,
        Place::Host(_) | Place::Guest(_) => on_rq,
        Place::Gone => info.is_none(),
    };
    let name = world.name(v);
    (!right).then(|| format!("queued: vCPU {name} is {place:?} in our books and hostsched has {info:?} on {cpu:?}"))
}

fn lost_wake(world: &World, v: VcpuId) -> Option<String> {
    let vcpu = &world.vcpus[v.i()];
    let started = world.now > world.vms[vcpu.vm].starts_at;
    let pending = vcpu.has_irq() || vcpu.kick;
    let runnable = vcpu.phase == Phase::Idle && !vcpu.queue.is_empty();
    let flushed = vcpu.phase == Phase::FlushHalt && vcpu.flush.outstanding == 0;
    let over = flushed || vcpu.phase == Phase::LockHalt && world.lock_is_mine(v);
    let lost = started && vcpu.place == Place::Halted && (pending || runnable || over);
    lost.then(|| format!("no-lost-wake: vCPU {} halts with work to do: {vcpu:?}", world.name(v)))
}

fn halt_ends(world: &World, v: VcpuId) -> Option<String> {
    let vcpu = &world.vcpus[v.i()];
    let halts = vcpu.place == Place::Halted && vcpu.phase == Phase::FlushHalt;
    let late = halts && vcpu.tick_at + world.guest_tick_ns < world.now;
    late.then(|| format!("halt-ends: vCPU {} sleeps through its tick at {}", world.name(v), vcpu.tick_at - EPOCH_NS))
}

/// What still has to come to its end in the VMs that were not killed; `None` if nothing has. Only for workloads whose
/// threads end by themselves, when the measured time is over.
pub(crate) fn unfinished(world: &World) -> Option<String> {
    for (vm, data) in world.vms.iter().enumerate().filter(|(_, vm)| !vm.killed) {
        for v in world.vcpus_of(vm) {
            let vcpu = &world.vcpus[v.i()];
            if vcpu.phase != Phase::Idle || vcpu.thread.is_some() || !vcpu.queue.is_empty() {
                let (place, phase) = (vcpu.place, vcpu.phase);
                return Some(format!("unfinished: vCPU {} is {place:?} in {phase:?}", world.name(v)));
            }
        }
        let sem = &data.mmap_sem;
        if sem.writer || sem.readers != 0 || !sem.waiters.is_empty() {
            return Some(format!("unfinished: nothing runs in VM {vm}, and its mmap_sem is {sem:?}"));
        }
    }
    None
}

fn owned(world: &World, v: VcpuId) -> Option<String> {
    let vcpu = &world.vcpus[v.i()];
    let own = world.vms[vcpu.vm].locks.iter().filter(|lock| lock.owner == Some(v)).count();
    let known = vcpu.locking.held as usize + usize::from(world.lock_is_mine(v));
    let (number, vm) = (vcpu.number, vcpu.vm);
    (own != known)
        .then(|| format!("spinlock: vCPU {number} of VM {vm} knows of {known} spinlocks that it owns, not {own}"))
}

fn lines(world: &World, vm: usize) -> Option<String> {
    let data = &world.vms[vm];
    let first = world.vcpus_of(vm).next().map_or(0, |v| v.0);
    data.locks.iter().enumerate().find_map(|(i, lock)| {
        let waits = |u: &VcpuId| world.vcpus[u.i()].locking.awaited.is_some_and(|awaited| awaited.0 as usize == i);
        let phase = |u: &VcpuId| matches!(world.vcpus[u.i()].phase, Phase::LockSpin | Phase::LockHalt);
        let strayed = lock.line.iter().find(|(u, _)| !waits(u) || !phase(u));
        let tickets = std::iter::once(lock.serving).chain(lock.line.iter().map(|(_, ticket)| *ticket));
        let unordered = world.lock != Lock::Unfair && !tickets.is_sorted_by(|a, b| a < b);
        let passed_by = |u: &VcpuId| world.lock != Lock::Unfair || matches!(world.vcpus[u.i()].place, Place::Guest(_));
        let forgotten = lock.owner.is_none() && lock.line.iter().any(|(u, _)| passed_by(u));
        (strayed.is_some() || unordered || forgotten).then(|| {
            let line: Vec<_> = lock.line.iter().map(|(u, ticket)| (u.0 - first, ticket)).collect();
            format!("spinlock: lock {i} of VM {vm}, owner {:?}, has the line {line:?}", lock.owner)
        })
    })
}

fn work(world: &World, vm: usize) -> Option<String> {
    world.vms[vm].shared.broken().map(|why| format!("work: VM {vm}: {why}"))
}
