//! The trace of one run, whole.
use hostsched::CpuId;

use crate::buffer::Buffer;
use crate::event::{Event, What, Who};
use crate::names::Names;

/// How much is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Events that are kept, 24 bytes each.
    pub events_max: usize,
}

impl Limits {
    /// The default of `--trace-max-events`: 24 MB, and some seconds of a busy host.
    pub const EVENTS_DEFAULT: usize = 1_000_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self { events_max: Self::EVENTS_DEFAULT }
    }
}

/// The first vector that Linux up to 3.4 flushes TLBs with (`INVALIDATE_TLB_VECTOR_START`).
const LINUX_FLUSH_VECTOR: u8 = 0xcf;

/// Everything that was recorded of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// In order of time.
    pub events: Vec<Event>,
    /// Events that found no room; all of them later than the last that did.
    pub dropped: u64,
    /// Who the tasks are.
    pub names: Names,
    /// The CPUs, ascending, also those on which nothing happened.
    pub cpus: Vec<CpuId>,
    /// The interrupt vector of the guest's flushes.
    pub flush_vector: u8,
    /// One line about the run: engine, mode, block, seed.
    pub title: String,
}

impl Trace {
    /// From the buffers of a run's threads.
    #[must_use]
    pub fn new(buffers: impl IntoIterator<Item = Buffer>, names: Names, mut cpus: Vec<CpuId>) -> Self {
        cpus.sort_unstable();
        let (events, dropped) = Buffer::merge(buffers);
        Self { events, dropped, names, cpus, flush_vector: LINUX_FLUSH_VECTOR, title: String::new() }
    }

    /// Takes CPU numbers for positions in `numbers`, and puts the numbers that stand there in their place.
    pub fn renumber(&mut self, numbers: &[CpuId]) {
        let of = |cpu: &mut CpuId| *cpu = numbers.get(cpu.index()).copied().unwrap_or(*cpu);
        self.cpus.iter_mut().for_each(of);
        self.cpus.sort_unstable();
        for event in &mut self.events {
            of(&mut event.cpu);
            match &mut event.what {
                What::Waking { target: cpu, .. }
                | What::Migrate { from: cpu, .. }
                | What::Resched { to: cpu }
                | What::Gang { to: cpu, .. } => of(cpu),
                _ => {}
            }
        }
    }

    /// Who had each CPU, in the order of [`Trace::cpus`], before the first event: its first switch tells; idle where
    /// there is none.
    #[must_use]
    pub fn running_at_start(&self) -> Vec<Who> {
        let mut first = vec![None; self.cpus.len()];
        let mut unknown = first.len();
        for event in &self.events {
            if unknown == 0 {
                break;
            }
            if let (What::Switch { prev, .. }, Ok(slot)) = (event.what, self.cpus.binary_search(&event.cpu))
                && first[slot].is_none()
            {
                first[slot] = Some(prev);
                unknown -= 1;
            }
        }
        first.into_iter().map(|who| who.unwrap_or(Who::IDLE)).collect()
    }
}
