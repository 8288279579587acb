//! Invariants of a run, looked at from outside the code that keeps them; on in release builds too.
//!
//! | name | what must hold |
//! |---|---|
//! | `one-place` | a vCPU has a CPU in our books exactly if hostsched runs its thread there |
//! | `running` | a VM's count of vCPUs that have a CPU is their number |
//! | `no-lost-wake` | a halted vCPU has nothing pending, nothing to run and no flush that is over |
//! | `time` | each CPU has run, idled or lost every nanosecond since the start |
use hostsched::{CpuId, Nanos};

use crate::ids::VcpuId;
use crate::vcpu::{Phase, Place};
use crate::world::{EPOCH_NS, World};

/// The first invariant that does not hold, as one sentence that begins with its name.
pub(crate) fn broken(world: &mut World) -> Option<String> {
    for cpu in world.online.clone() {
        if let Some(why) = place(world, cpu).or_else(|| time(world, cpu)) {
            return Some(why);
        }
    }
    let of_vm = |vm| world.vcpus_of(vm).find_map(|v| lost_wake(world, v)).or_else(|| running(world, vm));
    (0..world.vms.len()).find_map(of_vm)
}

fn place(world: &World, cpu: CpuId) -> Option<String> {
    let ours = world.cpus[cpu.index()].vcpu;
    let theirs = world.host.current(cpu).filter(|task| *task != world.cpus[cpu.index()].daemon);
    let here = |v: VcpuId| matches!(world.vcpus[v.i()].place, Place::Host(c) | Place::Guest(c) if c == cpu);
    let agree = ours.map(VcpuId::task) == theirs && ours.is_none_or(here);
    (!agree).then(|| format!("one-place: CPU {cpu} has {ours:?} in our books and {theirs:?} in hostsched's"))
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

fn lost_wake(world: &World, v: VcpuId) -> Option<String> {
    let vcpu = &world.vcpus[v.i()];
    let started = world.now > world.vms[vcpu.vm].starts_at;
    let pending = vcpu.flush_irqs != 0 || vcpu.resched_irq || vcpu.kick;
    let runnable = vcpu.phase == Phase::Idle && !vcpu.queue.is_empty();
    let over = vcpu.phase == Phase::FlushHalt && vcpu.flush.outstanding == 0;
    let lost = started && vcpu.place == Place::Halted && (pending || runnable || over);
    lost.then(|| format!("no-lost-wake: vCPU {} of VM {} halts with work to do: {vcpu:?}", vcpu.number, vcpu.vm))
}
