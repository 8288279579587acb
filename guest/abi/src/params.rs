//! Parameters page: written by the host before the first entry, read-only for the guest, never changed afterwards.

use crate::layout::Geometry;

/// What the guest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Workload {
    /// Map, touch, copy, search, unmap, flush.
    Ebizzy = 0,
    /// Map one page, unmap, flush; as fast as it goes.
    Flush = 1,
    /// No-op doorbells, each timed into `Results::record_time`.
    Doorbell = 2,
}

/// How the guest flushes remote TLBs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Flush {
    /// IPI every target, wait for all.
    Ipi = 0,
    /// The same, but halt after the spin budget; the last acknowledger kicks.
    HaltKick = 1,
    /// Mark the targets that do not run, IPI the others, wait for these.
    OnEnter = 2,
    /// [`Call::FlushOnEnter`](crate::call::Call::FlushOnEnter).
    Hypercall = 3,
    /// `OnEnter` for those that do not run, `HaltKick` for those that do.
    PvFlush = 4,
}

/// Page contents: plain words, so that any bytes are a valid value; the methods give them meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Params {
    /// [`VERSION`](crate::VERSION).
    pub version: u32,
    /// vCPUs of this VM, 1 to 64.
    pub vcpus: u32,
    /// [`Workload`].
    pub workload: u32,
    /// [`Flush`].
    pub flush: u32,
    /// Logical threads a vCPU, 1 to 16.
    pub threads: u32,
    /// Pages of a chunk, 1 to 1024.
    pub chunk_pages: u32,
    /// Search passes over the copy in a record.
    pub search_passes: u32,
    /// Of 1000 records, how many unmap and flush; the others keep their chunk.
    pub flush_per_mille: u32,
    /// Slots that are read at each of the four checks of a record, each once through the real and once through the soft
    /// TLB.
    pub peeks: u32,
    /// Iterations of a wait before `HaltKick` and `PvFlush` halt.
    pub spin_budget: u32,
    /// Cycles of a wait after which the guest calls `SpinHint`, again and again; 0: never.
    pub ple_window_cycles: u64,
    /// Turns (or doorbells) of a vCPU after which it reports `Done`; 0: none.
    pub record_limit: u64,
    /// Seed of everything random in this VM.
    pub seed: u64,
}

impl Params {
    /// Parameters that every geometry accepts: one vCPU, no work. For `..Params::MINIMAL`.
    pub const MINIMAL: Self = Self {
        version: crate::VERSION,
        vcpus: 1,
        workload: Workload::Ebizzy as u32,
        flush: Flush::Ipi as u32,
        threads: 1,
        chunk_pages: 1,
        search_passes: 0,
        flush_per_mille: 1000,
        peeks: 4,
        spin_budget: 1024,
        ple_window_cycles: 0,
        record_limit: 0,
        seed: 0,
    };

    /// The workload, `None` if the number means nothing.
    #[must_use]
    pub const fn workload(&self) -> Option<Workload> {
        Some(match self.workload {
            0 => Workload::Ebizzy,
            1 => Workload::Flush,
            2 => Workload::Doorbell,
            _ => return None,
        })
    }

    /// The flush strategy, `None` if the number means nothing.
    #[must_use]
    pub const fn flush(&self) -> Option<Flush> {
        Some(match self.flush {
            0 => Flush::Ipi,
            1 => Flush::HaltKick,
            2 => Flush::OnEnter,
            3 => Flush::Hypercall,
            4 => Flush::PvFlush,
            _ => return None,
        })
    }

    /// The memory that these parameters need, `None` if a number is out of range.
    #[must_use]
    pub const fn geometry(&self) -> Option<Geometry> {
        Geometry::new(self.vcpus, self.threads, self.chunk_pages)
    }

    /// The page's bytes, little-endian, in the order of the fields.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let narrow = [
            self.version,
            self.vcpus,
            self.workload,
            self.flush,
            self.threads,
            self.chunk_pages,
            self.search_passes,
            self.flush_per_mille,
            self.peeks,
            self.spin_budget,
        ];
        let wide = [self.ple_window_cycles, self.record_limit, self.seed];
        let mut bytes = [0; size_of::<Self>()];
        let (low, high) = bytes.split_at_mut(size_of_val(&narrow));
        for (to, from) in low.chunks_exact_mut(4).zip(narrow) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        for (to, from) in high.chunks_exact_mut(8).zip(wide) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        bytes
    }
}

const _: () = {
    assert!(size_of::<Params>() == 64);
    assert!(core::mem::offset_of!(Params, spin_budget) == 36);
    assert!(core::mem::offset_of!(Params, ple_window_cycles) == 40);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_the_fields() {
        let params = Params { spin_budget: 0x0403_0201, seed: 9, ..Params::MINIMAL };
        let bytes = params.to_bytes();
        assert_eq!(bytes[36..40], [1, 2, 3, 4]);
        assert_eq!(bytes[56], 9);
    }

    #[test]
    fn numbers_without_meaning_are_refused() {
        assert_eq!(Params { workload: 3, ..Params::MINIMAL }.workload(), None);
        assert_eq!(Params { flush: 5, ..Params::MINIMAL }.flush(), None);
        assert_eq!(Params { vcpus: 0, ..Params::MINIMAL }.geometry(), None);
    }
}
