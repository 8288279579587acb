//! The operations of a task, stage by stage.
//!
//! ```text
//!   send     Offer ── room? ──► Deliver: copy, then the message is there and the reader is woken
//!              └── full: sleep, and offer again     └── a datagram without room is dropped
//!   receive  Take ── empty: sleep, and look again ── a message: fetch its lines, copy, wake writers that wait for room
//! ```
//! What comes before the wake-up and what comes after it are separate pieces, so a reader on another CPU starts while its
//! waker is still on the way back to user space: the overlap that makes two CPUs faster than one.
//!
//! A large datagram's buffer is a block of pages; the reader frees it, and the allocator hands out the block freed last. So the
//! writer writes what the reader has just read, and must first take the lines away from it: as dear as fetching them.
use hostsched::{CpuId, TaskId};

use super::channel::{Chan, Message, Sem};
use super::program::Op;
use super::warmth::transfer;
use super::world::{Alarm, Stage, World};

/// Bytes of a cache line.
const LINE: u64 = 64;

/// What the task does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It runs on.
    On,
    Sleep,
}

impl World {
    /// The task's present piece is over: does what it was for and prepares the next one.
    pub(super) fn step(&mut self, task: TaskId, cpu: CpuId) -> Flow {
        match self.tasks[task.index()].stage {
            Stage::Fetch => {
                self.fetch(task);
                Flow::On
            }
            Stage::Offer { to, bytes, note } => self.offer(task, cpu, to, bytes, note),
            Stage::Deliver { to, bytes, note } => {
                self.deliver(task, cpu, to, Message { bytes, note, from: self.spot(cpu) });
                Flow::On
            }
            Stage::Take(from) => self.take(task, cpu, from),
            Stage::Down(sem) => self.down(task, sem),
            Stage::Granted => {
                self.tasks[task.index()].stage = Stage::Fetch;
                Flow::On
            }
            Stage::Up(sem) => {
                self.tasks[task.index()].stage = Stage::Fetch;
                if let Some(cost) = self.up(sem, cpu) {
                    self.tasks[task.index()].remaining += self.costs.futex + cost;
                }
                Flow::On
            }
            Stage::Nap(ns) => {
                self.tasks[task.index()].stage = Stage::Fetch;
                self.alarms.push(self.now + ns.max(1), Alarm::Wake(task));
                Flow::Sleep
            }
        }
    }

    fn fetch(&mut self, task: TaskId) {
        let measuring = self.measuring();
        let t = &mut self.tasks[task.index()];
        let syscall = self.costs.syscall;
        (t.stage, t.remaining) = match t.program.next(&mut t.rng, t.got) {
            Op::Work(ns) => (Stage::Fetch, ns),
            Op::Send { to, bytes, note } => (Stage::Offer { to, bytes, note }, syscall),
            Op::Recv(from) => (Stage::Take(from), syscall),
            // A futex that nobody contends needs no system call.
            Op::Down(sem) => (Stage::Down(sem), 0),
            Op::Up(sem) => (Stage::Up(sem), 0),
            Op::Sleep(ns) => (Stage::Nap(ns), syscall),
            Op::Count(units) => {
                t.units += if measuring { units } else { 0 };
                (Stage::Fetch, 0)
            }
        };
    }

    fn offer(&mut self, task: TaskId, cpu: CpuId, to: Chan, bytes: u64, note: u32) -> Flow {
        let spot = self.spot(cpu);
        let channel = &mut self.channels[to.0];
        if channel.full(bytes) {
            channel.writers.push_back(task);
            return Flow::Sleep;
        }
        let kind = channel.kind;
        let mut taken_back = 0;
        if kind.drops() {
            taken_back = channel.read_at.map_or(0, |read_at| transfer(read_at, spot, bytes, 0, &self.costs));
        } else {
            // The room is taken now: what is being copied counts.
            channel.bytes += bytes;
        }
        let route = if kind.routed() { self.write_route(cpu) } else { 0 };
        let t = &mut self.tasks[task.index()];
        t.stage = Stage::Deliver { to, bytes, note };
        t.remaining = kind.send(&self.costs) + bytes * self.costs.kb_copy / 1024 + taken_back + route;
        if self.measuring() {
            self.counters.taken_back_ns += taken_back;
        }
        Flow::On
    }

    fn write_route(&mut self, cpu: CpuId) -> u64 {
        let takes = self.route.write(self.now, self.spot(cpu), &self.costs);
        if self.measuring() {
            self.counters.route_wait_ns += takes;
        }
        takes
    }

    fn deliver(&mut self, task: TaskId, cpu: CpuId, to: Chan, message: Message) {
        let measuring = self.measuring();
        let channel = &mut self.channels[to.0];
        self.tasks[task.index()].stage = Stage::Fetch;
        if channel.kind.drops() && !channel.admit(message.bytes) {
            self.counters.dropped += u64::from(measuring);
            return;
        }
        self.delivered += 1;
        channel.queue.push_back(message);
        let reader = channel.reader.take();
        if let Some(reader) = reader {
            let cost = self.wake(reader, cpu, Some(cpu), true);
            self.tasks[task.index()].remaining += cost;
        }
    }

    fn take(&mut self, task: TaskId, cpu: CpuId, from: Chan) -> Flow {
        let (spot, measuring) = (self.spot(cpu), self.measuring());
        let channel = &mut self.channels[from.0];
        channel.free_copied();
        let Some(message) = channel.take_first(spot) else {
            assert!(channel.reader.is_none(), "channel {} has two readers", from.0);
            channel.reader = Some(task);
            return Flow::Sleep;
        };
        self.taken += 1;
        let kind = channel.kind;
        let writers = if channel.roomy() { std::mem::take(&mut channel.writers) } else { Default::default() };
        let owner = message.from;
        let mut fetch = transfer(owner, spot, message.bytes, kind.lines(), &self.costs);
        if owner.llc != spot.llc {
            let bytes = message.bytes + kind.lines() * LINE;
            let takes = self.buses.read_cache(self.now, (owner.llc, spot.llc), bytes, fetch, &self.costs);
            if measuring {
                self.counters.bus_wait_ns += takes - fetch;
            }
            fetch = takes;
        }
        if self.measuring() {
            self.counters.transfer_ns += fetch;
        }
        let copy = message.bytes * self.costs.kb_copy / 1024;
        let route = if kind.routed() { self.write_route(cpu) } else { 0 };
        let woken: u64 = writers.into_iter().map(|writer| self.wake(writer, cpu, Some(cpu), true)).sum();
        let t = &mut self.tasks[task.index()];
        (t.stage, t.got) = (Stage::Fetch, message.note);
        t.remaining = kind.recv(&self.costs) + copy + fetch + woken + route;
        Flow::On
    }

    fn down(&mut self, task: TaskId, sem: Sem) -> Flow {
        let semaphore = &mut self.semaphores[sem.0];
        let t = &mut self.tasks[task.index()];
        if semaphore.count > 0 {
            semaphore.count -= 1;
            t.stage = Stage::Fetch;
            return Flow::On;
        }
        semaphore.waiters.push_back(task);
        t.stage = Stage::Granted;
        // Paid when it is woken: the call's way in and out.
        t.remaining = self.costs.futex;
        Flow::Sleep
    }

    /// Gives a unit of a semaphore, from a CPU. What waking somebody took, if anybody waited.
    pub(super) fn up(&mut self, sem: Sem, cpu: CpuId) -> Option<u64> {
        let semaphore = &mut self.semaphores[sem.0];
        let Some(waiter) = semaphore.waiters.pop_front() else {
            semaphore.count += 1;
            return None;
        };
        Some(self.wake(waiter, cpu, Some(cpu), false))
    }
}
