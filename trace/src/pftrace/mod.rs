//! The Perfetto form: open it at <https://ui.perfetto.dev>, which reads it in the browser.
//!
//! ```text
//!   CPUs ─┬─ CPU 0     who runs: slices; interrupts between CPUs: instants with arrows
//!         ├─ CPU 0 gang   windows of the gangs that CPU 0 leads
//!         └─ ...
//!   vm0 ──┬─ vcpu0.0   on which CPU: slices, in them guest mode
//!         │    └─ flushes   waits for a flush: slices; interrupts and kicks: instants with arrows
//!         ├─ ...
//!         └─ running vCPUs   counter
//!   runnable vCPUs, running threads   counters
//! ```
//! Slices of one track must be nested, and a wait for a flush may begin on one CPU and end on another: hence the track
//! of its own. What was under way when recording began starts with the first event; what is under way at the end is
//! closed there.
mod tracks;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use hostsched::{CpuId, TaskId};

use crate::event::{Event, PrevState, What, Who};
use crate::perfetto::{Interned, InternedData, NEEDS_STATE, STATE_CLEARED, TracePacket, TrackEvent, Type};
use crate::whole::Trace;
use tracks::{Name, Track, names, runnable_at_start, tracks};

/// Writes the whole trace.
///
/// # Errors
/// Those of `out`.
pub fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let mut writer = Writer::new(trace, out);
    writer.begin()?;
    for event in &trace.events {
        writer.event(event)?;
    }
    writer.end(trace.events.last().map_or(0, |event| event.at_ns))
}

/// Arrows under way to one receiver.
type Arrows = BTreeMap<u32, VecDeque<u64>>;

struct Writer<'a, W> {
    trace: &'a Trace,
    out: &'a mut W,
    bytes: Vec<u8>,
    names: BTreeMap<Name, u64>,
    next_flow: u64,
    ipis: Arrows,
    kicks: Arrows,
    host_irqs: Arrows,
    /// By slot of the CPU: who has it, and whose gang window it leads.
    running: Vec<Who>,
    gang: Vec<Option<u32>>,
    /// By task: slices that are open, and whether it can run.
    on_cpu: Vec<Option<CpuId>>,
    in_guest: Vec<bool>,
    in_flush: Vec<bool>,
    runnable: Vec<bool>,
    /// Values of counters: all runnable vCPUs, all running threads, running vCPUs by VM.
    runnable_vcpus: i64,
    running_threads: i64,
    vm_running: BTreeMap<u32, i64>,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(trace: &'a Trace, out: &'a mut W) -> Self {
        let tasks = trace.names.tasks().len();
        Self {
            trace,
            out,
            bytes: Vec::new(),
            names: names(trace),
            next_flow: 1,
            ipis: Arrows::new(),
            kicks: Arrows::new(),
            host_irqs: Arrows::new(),
            running: vec![Who::IDLE; trace.cpus.len()],
            gang: vec![None; trace.cpus.len()],
            on_cpu: vec![None; tasks],
            in_guest: vec![false; tasks],
            in_flush: vec![false; tasks],
            runnable: runnable_at_start(trace),
            runnable_vcpus: 0,
            running_threads: 0,
            vm_running: BTreeMap::new(),
        }
    }

    /// Names, tracks, and what goes on before the first event.
    fn begin(&mut self) -> io::Result<()> {
        let interned = |(name, iid): (&Name, &u64)| Interned { iid: Some(*iid), name: Some(name.text(self.trace)) };
        let names = InternedData { event_names: self.names.iter().map(interned).collect() };
        self.packet(TracePacket {
            interned_data: Some(names),
            sequence_flags: Some(STATE_CLEARED),
            ..TracePacket::default()
        })?;
        for track in tracks(self.trace) {
            self.packet(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })?;
        }
        let Some(first) = self.trace.events.first() else { return Ok(()) };
        let now = first.at_ns;
        let vcpu = |task: &usize| self.trace.names.tasks()[*task].vcpu.is_some();
        let ready = (0..self.runnable.len()).filter(|task| self.runnable[*task]).filter(vcpu).count();
        self.runnable_vcpus = i64::try_from(ready).unwrap_or(i64::MAX);
        self.counter(now, Track::Runnable, self.runnable_vcpus)?;
        for (slot, who) in self.trace.running_at_start().into_iter().enumerate() {
            self.gets_cpu(now, slot, self.trace.cpus[slot], who)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let (now, cpu) = (event.at_ns, event.cpu);
        let Ok(slot) = self.trace.cpus.binary_search(&cpu) else { return Ok(()) };
        match event.what {
            What::Switch { prev, state, next } => {
                self.loses_cpu(now, slot, cpu)?;
                if let Some(task) = prev.as_task().filter(|_| state != PrevState::Runnable) {
                    self.set_runnable(now, task, false)?;
                }
                self.gets_cpu(now, slot, cpu, next)
            }
            What::Wakeup { task } => {
                self.set_runnable(now, task, true)?;
                self.instant(now, self.track_of(task, cpu), Name::Woken)
            }
            What::Migrate { task, .. } => self.instant(now, self.track_of(task, cpu), Name::Moved),
            What::Entry { task } => self.guest(now, task, true),
            What::Exit { task, reason } => {
                self.guest(now, task, false)?;
                self.instant(now, self.track_of(task, cpu), Name::Exit(reason))
            }
            What::FlushBegin { task, .. } => self.flush(now, task, true),
            What::FlushEnd { task } => self.flush(now, task, false),
            What::GuestIpi { from, to } if self.vm_of(from).is_some() => {
                let flow = self.sends(|writer| &mut writer.ipis, to.0);
                self.arrow(now, Track::Flushes(from.0), Name::Ipi, flow, [])
            }
            What::GuestIrq { task } => {
                let arrived = self.ipis.remove(&task.0).unwrap_or_default();
                self.arrow(now, Track::Flushes(task.0), Name::FlushIrq, None, arrived)
            }
            What::Kick { from, to } if self.vm_of(from).is_some() => {
                let flow = self.sends(|writer| &mut writer.kicks, to.0);
                self.arrow(now, Track::Flushes(from.0), Name::Kick, flow, [])
            }
            What::HaltOver { task } => {
                let arrived = self.kicks.remove(&task.0).unwrap_or_default();
                self.arrow(now, Track::Flushes(task.0), Name::HaltOver, None, arrived)
            }
            What::Resched { to } => {
                let flow = self.sends(|writer| &mut writer.host_irqs, to.0);
                self.arrow(now, Track::Cpu(cpu.0), Name::Resched, flow, [])
            }
            What::Gang { to, vm } => {
                self.gang_window(now, slot, cpu, vm)?;
                let flow = self.sends(|writer| &mut writer.host_irqs, to.0);
                self.arrow(now, Track::Cpu(cpu.0), Name::GangRequest, flow, [])
            }
            What::HostIrq { all } => {
                let under_way = self.host_irqs.entry(cpu.0).or_default();
                let taken = if all { under_way.len() } else { under_way.len().min(1) };
                let arrived: Vec<u64> = under_way.drain(..taken).collect();
                self.arrow(now, Track::Cpu(cpu.0), Name::Irq, None, arrived)
            }
            What::Spin { task, yielded } => {
                let name = if yielded { Name::SpinYields } else { Name::Spin };
                self.instant(now, self.track_of(task, cpu), name)
            }
            What::Halt { task } => self.instant(now, self.track_of(task, cpu), Name::Halt),
            // The wake-up follows; interrupts and kicks that no vCPU sends have no track.
            What::Waking { .. } | What::GuestIpi { .. } | What::Kick { .. } => Ok(()),
        }
    }

    /// Closes what is open.
    fn end(&mut self, now: u64) -> io::Result<()> {
        for (slot, cpu) in self.trace.cpus.iter().enumerate() {
            self.loses_cpu(now, slot, *cpu)?;
            if self.gang[slot].take().is_some() {
                self.slice_end(now, Track::Gang(cpu.0))?;
            }
        }
        for task in (0..self.in_flush.len()).map(TaskId::from_index) {
            self.flush(now, task, false)?;
        }
        Ok(())
    }

    /// Who has the CPU leaves it: the slices of both close.
    fn loses_cpu(&mut self, now: u64, slot: usize, cpu: CpuId) -> io::Result<()> {
        let who = std::mem::replace(&mut self.running[slot], Who::IDLE);
        if who == Who::IDLE {
            return Ok(());
        }
        self.slice_end(now, Track::Cpu(cpu.0))?;
        self.running_threads -= 1;
        self.counter(now, Track::Running, self.running_threads)?;
        match who.as_task() {
            Some(task) if self.cpu_of(task) == Some(cpu) => self.vcpu_stops(now, task),
            _ => Ok(()),
        }
    }

    fn cpu_of(&self, task: TaskId) -> Option<CpuId> {
        self.on_cpu.get(task.index()).copied().flatten()
    }

    /// The vCPU has no CPU any more.
    fn vcpu_stops(&mut self, now: u64, task: TaskId) -> io::Result<()> {
        self.guest(now, task, false)?;
        self.on_cpu[task.index()] = None;
        self.slice_end(now, Track::Vcpu(task.0))?;
        self.vm_counter(now, task, -1)
    }

    fn gets_cpu(&mut self, now: u64, slot: usize, cpu: CpuId, who: Who) -> io::Result<()> {
        let vm = who.as_task().and_then(|task| self.vm_of(task));
        if self.gang[slot].is_some() && self.gang[slot] != vm {
            self.gang[slot] = None;
            self.slice_end(now, Track::Gang(cpu.0))?;
        }
        self.running[slot] = who;
        if who == Who::IDLE {
            return Ok(());
        }
        let name = who.as_task().map_or(Name::Stopper, |task| Name::Task(task.0));
        self.slice(now, Track::Cpu(cpu.0), name)?;
        self.running_threads += 1;
        self.counter(now, Track::Running, self.running_threads)?;
        let Some(task) = who.as_task() else { return Ok(()) };
        self.set_runnable(now, task, true)?;
        if vm.is_some() {
            if self.cpu_of(task).is_some() {
                // Its end there has not been told.
                self.vcpu_stops(now, task)?;
            }
            self.on_cpu[task.index()] = Some(cpu);
            self.slice(now, Track::Vcpu(task.0), Name::OnCpu(cpu.0))?;
            self.vm_counter(now, task, 1)?;
        }
        Ok(())
    }

    /// A leader calls for its gang: a window opens if none is open.
    fn gang_window(&mut self, now: u64, slot: usize, cpu: CpuId, vm: u32) -> io::Result<()> {
        if self.gang[slot].is_some() {
            return Ok(());
        }
        self.gang[slot] = Some(vm);
        self.slice(now, Track::Gang(cpu.0), Name::Vm(vm))
    }

    /// Guest mode is a slice in that of the CPU.
    fn guest(&mut self, now: u64, task: TaskId, enters: bool) -> io::Result<()> {
        let on_cpu = self.cpu_of(task).is_some();
        let Some(inside) = self.in_guest.get_mut(task.index()) else { return Ok(()) };
        if *inside == enters || enters && !on_cpu {
            return Ok(());
        }
        *inside = enters;
        if enters {
            self.slice(now, Track::Vcpu(task.0), Name::Guest)
        } else {
            self.slice_end(now, Track::Vcpu(task.0))
        }
    }

    fn flush(&mut self, now: u64, task: TaskId, begins: bool) -> io::Result<()> {
        if self.vm_of(task).is_none() || std::mem::replace(&mut self.in_flush[task.index()], begins) == begins {
            return Ok(());
        }
        let track = Track::Flushes(task.0);
        if begins { self.slice(now, track, Name::Flush) } else { self.slice_end(now, track) }
    }

    fn set_runnable(&mut self, now: u64, task: TaskId, runnable: bool) -> io::Result<()> {
        let Some(known) = self.runnable.get_mut(task.index()) else { return Ok(()) };
        if std::mem::replace(known, runnable) == runnable || self.vm_of(task).is_none() {
            return Ok(());
        }
        self.runnable_vcpus += if runnable { 1 } else { -1 };
        self.counter(now, Track::Runnable, self.runnable_vcpus)
    }

    fn vm_counter(&mut self, now: u64, task: TaskId, change: i64) -> io::Result<()> {
        let Some(vm) = self.vm_of(task) else { return Ok(()) };
        let count = self.vm_running.entry(vm).or_insert(0);
        *count += change;
        let value = *count;
        self.counter(now, Track::VmRunning(vm), value)
    }

    fn vm_of(&self, task: TaskId) -> Option<u32> {
        self.trace.names.get(task)?.vcpu.map(|(vm, _)| vm)
    }

    /// Where something about a task is shown: on its own track, or on the CPU's.
    fn track_of(&self, task: TaskId, cpu: CpuId) -> Track {
        if self.vm_of(task).is_some() { Track::Vcpu(task.0) } else { Track::Cpu(cpu.0) }
    }

    /// A new arrow to that receiver; none if so many are under way that the receiver does not seem to take them.
    fn sends(&mut self, arrows: impl Fn(&mut Self) -> &mut Arrows, to: u32) -> Option<u64> {
        const UNDER_WAY_MAX: usize = 256;
        let flow = self.next_flow;
        let under_way = arrows(self).entry(to).or_default();
        if under_way.len() == UNDER_WAY_MAX {
            return None;
        }
        under_way.push_back(flow);
        self.next_flow += 1;
        Some(flow)
    }

    fn slice(&mut self, now: u64, track: Track, name: Name) -> io::Result<()> {
        self.track_event(now, track, Type::SliceBegin, Some(name), TrackEvent::default())
    }

    fn slice_end(&mut self, now: u64, track: Track) -> io::Result<()> {
        self.track_event(now, track, Type::SliceEnd, None, TrackEvent::default())
    }

    fn instant(&mut self, now: u64, track: Track, name: Name) -> io::Result<()> {
        self.track_event(now, track, Type::Instant, Some(name), TrackEvent::default())
    }

    fn arrow(
        &mut self,
        now: u64,
        track: Track,
        name: Name,
        begins: Option<u64>,
        ends: impl IntoIterator<Item = u64>,
    ) -> io::Result<()> {
        if let Track::Flushes(task) = track
            && self.vm_of(TaskId(task)).is_none()
        {
            return Ok(());
        }
        let (flow_ids, terminating_flow_ids) = (begins.into_iter().collect(), ends.into_iter().collect());
        let event = TrackEvent { flow_ids, terminating_flow_ids, ..TrackEvent::default() };
        self.track_event(now, track, Type::Instant, Some(name), event)
    }

    fn counter(&mut self, now: u64, track: Track, value: i64) -> io::Result<()> {
        let event = TrackEvent { counter_value: Some(value), ..TrackEvent::default() };
        self.track_event(now, track, Type::Counter, None, event)
    }

    fn track_event(
        &mut self,
        now: u64,
        track: Track,
        kind: Type,
        name: Option<Name>,
        event: TrackEvent,
    ) -> io::Result<()> {
        let name_iid = name.and_then(|name| self.names.get(&name).copied());
        let event = TrackEvent { r#type: Some(kind.into()), name_iid, track_uuid: Some(track.uuid()), ..event };
        self.packet(TracePacket {
            timestamp: Some(now),
            track_event: Some(event),
            sequence_flags: Some(NEEDS_STATE),
            ..TracePacket::default()
        })
    }

    /// Appends a packet: a field 1 of the file's message.
    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(1), ..packet };
        self.bytes.clear();
        prost::encoding::message::encode(1, &packet, &mut self.bytes);
        self.out.write_all(&self.bytes)
    }
}
