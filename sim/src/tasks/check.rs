//! Invariants of a run of host tasks, looked at from outside the code that keeps them; on in release builds too.
//!
//! | name | what must hold |
//! |---|---|
//! | `one-place` | a task has a CPU in our books exactly if hostsched runs it there |
//! | `no-lost-wake` | whoever sleeps for a message, for room or for a unit finds none |
//! | `no-lost-message` | what was delivered was taken or is queued, and channels count their bytes |
//! | `time` | each CPU has run, idled or lost every nanosecond since the start |
use hostsched::{CpuId, Nanos, TaskId};

use super::world::World;

/// The first invariant that does not hold, as one sentence that begins with its name.
pub(crate) fn broken(world: &mut World) -> Option<String> {
    for cpu in world.online.clone() {
        if let Some(why) = place(world, cpu).or_else(|| time(world, cpu)) {
            return Some(why);
        }
    }
    lost_wake(world).or_else(|| lost_message(world))
}

fn place(world: &World, cpu: CpuId) -> Option<String> {
    let (ours, theirs) = (world.cpus[cpu.index()].task, world.host.current(cpu));
    let awake = ours.is_none_or(|task| !world.tasks[task.index()].asleep);
    (ours != theirs || !awake).then(|| {
        format!("one-place: CPU {cpu} has {ours:?} in our books (awake: {awake}) and {theirs:?} in hostsched's")
    })
}

fn time(world: &mut World, cpu: CpuId) -> Option<String> {
    let now = world.now;
    world.host.at(Nanos(now), &mut world.rqs, &mut world.fx).sync(cpu);
    let stats = world.rqs[cpu.index()].stats();
    let spent = (stats.exec + stats.idle + stats.steal).0;
    let elapsed = world.elapsed();
    (spent != elapsed).then(|| format!("time: CPU {cpu} accounts for {spent} ns of {elapsed}"))
}

fn lost_wake(world: &World) -> Option<String> {
    let asleep = |task: &TaskId| world.tasks[task.index()].asleep;
    for (i, channel) in world.channels.iter().enumerate() {
        if channel.reader.is_some() && !channel.queue.is_empty() {
            return Some(format!(
                "no-lost-wake: the reader of channel {i} sleeps with {} messages",
                channel.queue.len()
            ));
        }
        if !channel.writers.is_empty() && channel.bytes == 0 {
            return Some(format!("no-lost-wake: {} writers of channel {i} sleep, it is empty", channel.writers.len()));
        }
        if !channel.reader.iter().chain(&channel.writers).all(asleep) {
            return Some(format!("no-lost-wake: channel {i} knows sleepers that are awake"));
        }
    }
    let broken = |s: &super::channel::Semaphore| !s.waiters.is_empty() && s.count > 0 || !s.waiters.iter().all(asleep);
    let at = world.semaphores.iter().position(broken)?;
    Some(format!("no-lost-wake: semaphore {at} has units and waiters: {:?}", world.semaphores[at]))
}

fn lost_message(world: &World) -> Option<String> {
    let queued: u64 = world.channels.iter().map(|channel| channel.queue.len() as u64).sum();
    let (delivered, taken) = (world.delivered, world.taken);
    if delivered != taken + queued {
        return Some(format!("no-lost-message: {delivered} were delivered, {taken} taken, {queued} are queued"));
    }
    let short = |c: &super::channel::Channel| c.bytes < c.queue.iter().map(|m| m.bytes).sum();
    let at = world.channels.iter().position(short)?;
    Some(format!("no-lost-message: channel {at} holds more than the {} bytes it counts", world.channels[at].bytes))
}
