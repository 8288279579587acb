//! Books of a run that are kept from its events alone, and what contradicts them.
//!
//! | name | what must hold |
//! |---|---|
//! | `monotonic` | no event is earlier than the one before |
//! | `one-cpu` | a CPU changes hands from who has it; a vCPU has one CPU, which is on line, and is not halted or dead |
//! | `guest-mode` | only who has the CPU enters guest mode, and it leaves before the CPU goes to another |
//! | `flush-complete` | at the end of a flush each of its targets has acknowledged or was marked |
//! | `gang-co-start` | a CPU whose members a gang asks for, and that is free to switch, runs one of them at that instant |
//! | `runtime` | hostsched has charged each vCPU, and each CPU, what it had according to these books |
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hostsched::CpuId;

use crate::observe::{Event, Interrupt, Sink, VcpuName, Who};
use crate::world::{EPOCH_NS, World};

/// What is known of a CPU.
#[derive(Debug, Clone, Copy)]
struct Cpu {
    has: Who,
    since: u64,
    in_guest: bool,
    online: bool,
    busy_ns: u64,
    /// A gang that it must run at its next pick, asked for at that time.
    owes: Option<(u32, u64)>,
}

impl Default for Cpu {
    fn default() -> Self {
        Self { has: Who::Idle, since: 0, in_guest: false, online: true, busy_ns: 0, owes: None }
    }
}

/// What is known of a vCPU.
#[derive(Debug, Clone, Copy, Default)]
struct Vcpu {
    awake: bool,
    cpu: Option<CpuId>,
    ran_ns: u64,
    /// Targets that its flush still needs.
    needs: u64,
    flushes: bool,
}

/// The books.
#[derive(Debug, Default)]
pub(super) struct Books {
    now: u64,
    cpus: BTreeMap<CpuId, Cpu>,
    vcpus: BTreeMap<VcpuName, Vcpu>,
    killed: Vec<u32>,
    /// A gang request is a promise: V2, vCPUs pinned.
    pub(super) gangs_promised: bool,
    /// Flushes may end early: halt-kick as it was posted.
    pub(super) early_allowed: bool,
    wrong: Option<String>,
}

impl Books {
    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.wrong.is_none() {
            self.wrong = Some(format!("{} at {} ns", what(), self.now));
        }
    }

    fn pick(&mut self, cpu: CpuId, prev: Who, next: Who) {
        let now = self.now;
        let Cpu { has, since, in_guest, online, owes, .. } = *self.cpus.entry(cpu).or_default();
        self.require(prev == has, || format!("one-cpu: CPU {cpu} goes from {prev}, and {has} has it"));
        self.require(!in_guest, || format!("guest-mode: CPU {cpu} is taken from {has} in guest mode"));
        self.require(online || next == Who::Idle, || format!("one-cpu: CPU {cpu} is off line and goes to {next}"));
        if let Who::Vcpu(name) = prev {
            let vcpu = self.vcpus.entry(name).or_default();
            vcpu.ran_ns += now - since;
            vcpu.cpu = None;
        }
        if let Who::Vcpu(name) = next {
            let dead = self.killed.contains(&name.vm);
            let Vcpu { awake, cpu: elsewhere, .. } = *self.vcpus.entry(name).or_default();
            self.require(elsewhere.is_none(), || format!("one-cpu: CPU {cpu} goes to {name}, which has {elsewhere:?}"));
            self.require(awake && !dead, || format!("one-cpu: CPU {cpu} goes to {name}, which is halted or dead"));
            self.vcpus.entry(name).or_default().cpu = Some(cpu);
        }
        if let Some((vm, at)) = owes {
            let kept = at == now && matches!(next, Who::Vcpu(name) if name.vm == vm);
            self.require(kept, || format!("gang-co-start: CPU {cpu} was asked for VM {vm} at {at} and runs {next}"));
        }
        let books = self.cpus.entry(cpu).or_default();
        books.busy_ns += if has == Who::Idle { 0 } else { now - since };
        (books.has, books.since, books.owes) = (next, now, None);
    }

    fn enter(&mut self, cpu: CpuId, vcpu: VcpuName, enters: bool) {
        let Cpu { has, in_guest, .. } = *self.cpus.entry(cpu).or_default();
        let right = has == Who::Vcpu(vcpu) && in_guest != enters && !(enters && self.killed.contains(&vcpu.vm));
        let what = if enters { "enters" } else { "leaves" };
        self.require(right, || format!("guest-mode: {vcpu} {what} on CPU {cpu}, which {has} has"));
        self.cpus.entry(cpu).or_default().in_guest = enters;
    }

    /// `by` needs no flush of that VM from before any more.
    fn flushed(&mut self, by: VcpuName, of: Option<VcpuName>) {
        let all = VcpuName { vm: by.vm, vcpu: 0 }..=VcpuName { vm: by.vm, vcpu: u32::MAX };
        for (name, vcpu) in self.vcpus.range_mut(all) {
            if of.is_none_or(|of| of == *name) {
                vcpu.needs &= !(1 << by.vcpu);
            }
        }
    }

    fn event(&mut self, now: u64, event: Event) {
        let before = std::mem::replace(&mut self.now, now);
        self.require(before <= now, || format!("monotonic: an event comes after one at {before} ns"));
        match event {
            Event::Pick { cpu, prev, next } => self.pick(cpu, prev, next),
            Event::Enter { cpu, vcpu } => self.enter(cpu, vcpu, true),
            Event::Exit { cpu, vcpu } => self.enter(cpu, vcpu, false),
            Event::Halt { vcpu, .. } => self.vcpus.entry(vcpu).or_default().awake = false,
            Event::Wake { vcpu, .. } => {
                let was = std::mem::replace(&mut self.vcpus.entry(vcpu).or_default().awake, true);
                self.require(!was, || format!("one-cpu: {vcpu} is woken and did not halt"));
            }
            Event::Receive { cpu, what: Interrupt::Gang { vm }, deferred: false, heeded: true } => {
                let books = self.cpus.entry(cpu).or_default();
                books.owes = self.gangs_promised.then_some((vm, now));
            }
            Event::FlushBegin { vcpu, outstanding } => {
                let books = self.vcpus.entry(vcpu).or_default();
                let twice = std::mem::replace(&mut books.flushes, true);
                books.needs = outstanding;
                self.require(!twice, || format!("flush-complete: {vcpu} begins a flush in the middle of one"));
            }
            Event::FlushAck { by, of } => self.flushed(by, Some(of)),
            Event::Mark { vcpu } => self.flushed(vcpu, None),
            Event::FlushEnd { vcpu, .. } => {
                let books = self.vcpus.entry(vcpu).or_default();
                books.flushes = false;
                let needs = std::mem::take(&mut books.needs);
                let complete = needs == 0 || self.early_allowed;
                self.require(complete, || format!("flush-complete: {vcpu} goes on without the vCPUs {needs:x}"));
            }
            Event::Offline { cpu } => self.cpus.entry(cpu).or_default().online = false,
            Event::Online { cpu } => self.cpus.entry(cpu).or_default().online = true,
            Event::Killed { vcpu } => self.killed.push(vcpu.vm),
            Event::Receive { .. }
            | Event::Send { .. }
            | Event::Noise { .. }
            | Event::Kick { .. }
            | Event::PauseExit { .. }
            | Event::Start { .. }
            | Event::GroupRemoved { .. } => {}
        }
    }

    /// What contradicts the books up to now.
    pub(super) fn broken(&mut self, world: &World) -> Option<String> {
        let now = world.now - EPOCH_NS;
        let late = self.cpus.iter().find_map(|(cpu, books)| books.owes.map(|(vm, at)| (*cpu, vm, at)));
        if let Some((cpu, vm, at)) = late.filter(|(.., at)| *at < now) {
            self.require(false, || {
                format!("gang-co-start: CPU {cpu} was asked for VM {vm} at {at} and did not switch")
            });
        }
        self.wrong.clone().or_else(|| self.runtime(world, now))
    }

    fn runtime(&self, world: &World, now: u64) -> Option<String> {
        for (cpu, books) in &self.cpus {
            let ours = books.busy_ns + if books.has == Who::Idle { 0 } else { now - books.since };
            let theirs = world.rqs[cpu.index()].stats().exec.0;
            if ours != theirs {
                return Some(format!("runtime: CPU {cpu} was busy for {ours} ns and hostsched charged {theirs}"));
            }
        }
        for v in (0..world.vms.len()).flat_map(|vm| world.vcpus_of(vm)) {
            let name = world.name(v);
            let Some(books) = self.vcpus.get(&name) else { continue };
            let here = books.cpu.and_then(|cpu| self.cpus.get(&cpu)).map_or(0, |cpu| now - cpu.since);
            let Some(cpu) = world.host.task_cpu(v.task()) else { continue };
            let Some(info) = world.rqs[cpu.index()].task_info(&world.host, v.task()) else { continue };
            let (ours, theirs) = (books.ran_ns + here, info.sum_exec_runtime.0);
            if ours != theirs {
                return Some(format!("runtime: vCPU {name} had a CPU for {ours} ns and hostsched charged {theirs}"));
            }
        }
        None
    }

    /// For how long the CPU has been idle, if it is on line.
    pub(super) fn idle_since(&self, cpu: CpuId) -> Option<u64> {
        let books = self.cpus.get(&cpu).copied().unwrap_or_default();
        (books.online && books.has == Who::Idle).then_some(books.since)
    }
}

/// The books as a sink, shared with who compares them.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(pub(super) Rc<RefCell<Books>>);

impl Sink for Ledger {
    fn event(&mut self, now_ns: u64, event: Event) {
        self.0.borrow_mut().event(now_ns, event);
    }

    fn end(&mut self, _now_ns: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: CpuId = CpuId(0);
    const A: VcpuName = VcpuName { vm: 0, vcpu: 0 };
    const B: VcpuName = VcpuName { vm: 0, vcpu: 1 };

    /// What the books say of events a nanosecond apart, after A was woken and got the CPU.
    fn said(more: &[Event]) -> String {
        let mut books = Books { gangs_promised: true, ..Books::default() };
        let wakes = [A, B].map(|vcpu| Event::Wake { vcpu, by: C, on: C });
        let first = Event::Pick { cpu: C, prev: Who::Idle, next: Who::Vcpu(A) };
        for (now, event) in wakes.into_iter().chain([first]).chain(more.iter().copied()).enumerate() {
            books.event(now as u64, event);
        }
        books.wrong.unwrap_or_default()
    }

    fn pick(prev: Who, next: Who) -> Event {
        Event::Pick { cpu: C, prev, next }
    }

    #[test]
    fn who_has_what_is_followed() {
        let [a, b] = [A, B].map(Who::Vcpu);
        assert_eq!(said(&[pick(a, a), pick(a, b), pick(b, Who::Daemon), pick(Who::Daemon, Who::Idle)]), "");
        assert!(said(&[pick(b, a)]).starts_with("one-cpu: CPU 0 goes from 0.1, and 0.0 has it"));
        let other = Event::Pick { cpu: CpuId(1), prev: Who::Idle, next: a };
        assert!(said(&[other]).starts_with("one-cpu: CPU 1 goes to 0.0, which has"));
        assert!(said(&[Event::Halt { cpu: C, vcpu: B }, pick(a, b)]).contains("is halted or dead"));
        assert!(said(&[pick(a, Who::Idle), Event::Offline { cpu: C }, pick(Who::Idle, b)]).contains("is off line"));
        assert!(said(&[Event::Killed { vcpu: B }, pick(a, b)]).contains("is halted or dead"));
        assert!(said(&[Event::Wake { vcpu: A, by: C, on: C }]).contains("did not halt"));
    }

    #[test]
    fn guest_mode_is_entered_and_left_by_who_has_the_cpu() {
        let (enter, exit) = (Event::Enter { cpu: C, vcpu: A }, Event::Exit { cpu: C, vcpu: A });
        assert_eq!(said(&[enter, exit, enter]), "");
        assert!(said(&[Event::Enter { cpu: C, vcpu: B }]).starts_with("guest-mode: 0.1 enters"));
        assert!(said(&[exit]).starts_with("guest-mode: 0.0 leaves"));
        assert!(said(&[enter, pick(Who::Vcpu(A), Who::Idle)]).starts_with("guest-mode: CPU 0 is taken"));
    }

    #[test]
    fn a_flush_ends_when_each_target_has_acknowledged_or_was_marked() {
        let begin = Event::FlushBegin { vcpu: A, outstanding: 0b110 };
        let end = Event::FlushEnd { vcpu: A, waited_ns: 1, outstanding: 0 };
        let ack = Event::FlushAck { by: B, of: A };
        let mark = Event::Mark { vcpu: VcpuName { vm: 0, vcpu: 2 } };
        assert_eq!(said(&[begin, ack, mark, end]), "");
        assert!(said(&[begin, ack, end]).starts_with("flush-complete: 0.0 goes on without the vCPUs 4"));
        assert!(said(&[begin, begin]).starts_with("flush-complete: 0.0 begins a flush in the middle"));
        let of_another = Event::FlushAck { by: B, of: B };
        assert!(said(&[begin, of_another, mark, end]).ends_with("the vCPUs 2 at 6 ns"));
    }

    #[test]
    fn a_gang_that_is_asked_for_runs_at_that_instant() {
        let asked = |deferred, heeded| Event::Receive { cpu: C, what: Interrupt::Gang { vm: 7 }, deferred, heeded };
        let repick = pick(Who::Vcpu(A), Who::Vcpu(A));
        assert!(said(&[asked(false, true), repick]).starts_with("gang-co-start: CPU 0 was asked for VM 7"));
        assert_eq!(said(&[asked(true, true), repick]), "");
        assert_eq!(said(&[asked(false, false), repick]), "");
    }
}
