//! Guest-physical memory map, descriptor selectors and start registers.
//!
//! Everything below the pool is mapped at its own address (virtual = guest-physical); the chunks of the workload are
//! mapped a second time in the *window*, the only mapping that is ever unmapped and flushed.
//!
//! ```text
//!   guest-physical
//!   0x0000_1000  GDT, IDT, parameters      3 pages                 (ring 3: no access, no access, read-only)
//!   0x0001_0000  system pages              one a vCPU: TSS and I/O bitmap, ring-0 stack       (ring 0 only)
//!   0x0008_0000  vCPU pages                one a vCPU: VcpuPage, shared with the host
//!   0x0020_0000  image                     header, text, data, bss
//!   0x0040_0000  ring-3 stacks             eight pages a vCPU, the lowest unmapped
//!   0x0060_0000  page tables               PML4, PDPT, page directories, low page tables
//!   0x0070_0000  leaf page tables          of the window, one or two a slot, written by the guest
//!   0x0100_0000  results blocks            sixteen pages a vCPU: Results
//!   0x0140_0000  pool                      frames of the chunks, and one source chunk a vCPU
//!   behind it    thread stacks             two pages a thread of the guest's scheduler
//!   behind them  heap                      tables of the workload
//!
//!   virtual
//!   0x40_0000_0000  window                 slot s at WINDOW_BASE + s * stride
//! ```
//!
//! Sizes are in bytes unless the name says pages.

use crate::VCPUS_MAX;

/// Page and frame size.
pub const PAGE_SIZE: u64 = 4096;
/// What one page-directory entry maps.
pub const HUGE_SIZE: u64 = 2 << 20;

/// Global descriptor table.
pub const GDT: u64 = 0x1000;
/// Interrupt descriptor table: 256 gates of 16 bytes.
pub const IDT: u64 = 0x2000;
/// Parameters page ([`Params`](crate::params::Params)).
pub const PARAMS: u64 = 0x3000;
/// First system page.
pub const SYSTEM: u64 = 0x1_0000;
/// First vCPU page.
pub const VCPU: u64 = 0x8_0000;
/// Where the image is linked; it ends before [`STACKS`]. The [`ImageHeader`](crate::header::ImageHeader) stands here.
pub const IMAGE: u64 = 0x20_0000;
/// First ring-3 stack.
pub const STACKS: u64 = 0x40_0000;
/// Size of one stack with its guard page, which is the lowest.
pub const STACK_SIZE: u64 = 8 * PAGE_SIZE;
/// Top-level page table, the value of CR3.
pub const PML4: u64 = 0x60_0000;
/// The one page-directory-pointer table.
pub const PDPT: u64 = PML4 + PAGE_SIZE;
/// Page directories of the identity map: one a GiB.
pub const LOW_PDS: u64 = PDPT + PAGE_SIZE;
/// How many of them there are: no VM may have more memory than this many GiB.
pub const LOW_PD_COUNT: u64 = 16;
/// Page directories of the window.
pub const WINDOW_PDS: u64 = LOW_PDS + LOW_PD_COUNT * PAGE_SIZE;
/// How many of them there are.
pub const WINDOW_PD_COUNT: u64 = 4;
/// Page tables of the identity map below [`PML4`], where access rights differ by page.
pub const LOW_PTS: u64 = WINDOW_PDS + WINDOW_PD_COUNT * PAGE_SIZE;
/// How many of them there are.
pub const LOW_PT_COUNT: u64 = PML4 / HUGE_SIZE;
/// First leaf page table of the window.
pub const LEAF_PTS: u64 = 0x70_0000;
/// First results block.
pub const RESULTS: u64 = 0x100_0000;
/// Size of one results block.
pub const RESULTS_SIZE: u64 = 16 * PAGE_SIZE;
/// First frame of the pool.
pub const POOL: u64 = 0x140_0000;
/// Where the window starts: page-directory-pointer entry 256.
pub const WINDOW_BASE: u64 = 256 << 30;

/// Ring-0 code selector of the gates.
pub const KERNEL_CS: u16 = 0x08;
/// Ring-3 stack selector.
pub const USER_SS: u16 = 0x23;
/// Ring-3 code selector.
pub const USER_CS: u16 = 0x2b;
/// Task-register selector. Nothing loads it from the table: TR is set by the host.
pub const TSS_SELECTOR: u16 = 0x30;
/// The descriptors behind them: null, kernel code, kernel data, (none), user data, user code.
pub const GDT_ENTRIES: [u64; 6] =
    [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0, 0x00cf_f300_0000_ffff, 0x00af_fb00_0000_ffff];

/// Size of a TSS without its I/O bitmap.
pub const TSS_SIZE: u64 = 0x68;
/// Where the TSS says that its I/O bitmap begins: right behind it.
pub const IO_MAP_BASE: u16 = 0x68;
/// I/O bitmap: one bit a port up to the doorbell's last, and the closing byte that the processor wants.
pub const IO_BITMAP_SIZE: u64 = (crate::call::PORT_BASE + crate::call::PORT_COUNT) as u64 / 8 + 1;
/// TR limit: last byte of TSS and bitmap.
pub const TSS_LIMIT: u32 = IO_MAP_BASE as u32 + (crate::call::PORT_BASE + crate::call::PORT_COUNT) as u32 / 8;

/// CR0: PE, MP, ET, NE, WP, PG.
pub const CR0: u64 = 0x8001_0033;
/// CR4: PAE, OSFXSR, OSXMMEXCPT (the ordinary Rust target uses SSE).
pub const CR4: u64 = 0x620;
/// EFER: LME, LMA, NXE.
pub const EFER: u64 = 0xd00;
/// RFLAGS at the start and always in ring 3: IF, and the bit that is always set. IOPL is 0: ports are opened by the
/// bitmap.
pub const RFLAGS: u64 = 0x202;

/// Interrupt vectors: flush, the timer tick, the disk. Every other vector is an exception (below 32) or never raised.
pub const FLUSH_VECTOR: u8 = 0xf0;
/// The guest's timer tick: below [`FLUSH_VECTOR`], which therefore goes first where both are pending at an entry.
pub const TIMER_VECTOR: u8 = 0xec;
/// The disk has answered. Its gate leads to the timer's handler: both send the running thread to look around.
pub const DISK_VECTOR: u8 = 0xe8;
/// Vectors of exceptions, each with a gate.
pub const EXCEPTION_COUNT: usize = 32;

/// Spare chunks of each vCPU beyond one a thread: room for frames that wait for their grace period.
pub const SPARE_SETS: u32 = 14;

/// System page of a vCPU.
#[must_use]
pub const fn system_page(vcpu: u32) -> u64 {
    SYSTEM + vcpu as u64 * PAGE_SIZE
}

/// vCPU page of a vCPU: its `gs` base.
#[must_use]
pub const fn vcpu_page(vcpu: u32) -> u64 {
    VCPU + vcpu as u64 * PAGE_SIZE
}

/// Results block of a vCPU.
#[must_use]
pub const fn results_block(vcpu: u32) -> u64 {
    RESULTS + vcpu as u64 * RESULTS_SIZE
}

/// First address above the ring-3 stack of a vCPU.
#[must_use]
pub const fn stack_top(vcpu: u32) -> u64 {
    STACKS + (vcpu as u64 + 1) * STACK_SIZE
}

/// What depends on the number of vCPUs and the workload: slots, frames, memory size.
///
/// A *slot* is the place in the window of one logical thread's chunk. A *set* is the frames of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    vcpus: u32,
    threads: u32,
    chunk_pages: u32,
    kthreads: u32,
    heap_pages: u32,
}

/// Stack of a thread of the guest's scheduler.
pub const KTHREAD_STACK_SIZE: u64 = 2 * PAGE_SIZE;

impl Geometry {
    /// Largest chunk in pages.
    pub const CHUNK_PAGES_MAX: u32 = 1024;
    /// Most logical threads of a vCPU.
    pub const THREADS_MAX: u32 = 16;
    /// Most slots.
    pub const SLOTS_MAX: u32 = VCPUS_MAX * Self::THREADS_MAX;

    /// Most threads of the guest's scheduler.
    pub const KTHREADS_MAX: u32 = 8192;
    /// Largest heap in pages: 1 GiB.
    pub const HEAP_PAGES_MAX: u32 = 1 << 18;

    /// Without threads of the guest's scheduler and without a heap. `None` if a number is 0 or above its maximum.
    #[must_use]
    pub const fn new(vcpus: u32, threads: u32, chunk_pages: u32) -> Option<Self> {
        let bad = vcpus == 0
            || vcpus > VCPUS_MAX
            || threads == 0
            || threads > Self::THREADS_MAX
            || chunk_pages == 0
            || chunk_pages > Self::CHUNK_PAGES_MAX;
        if bad { None } else { Some(Self { vcpus, threads, chunk_pages, kthreads: 0, heap_pages: 0 }) }
    }

    /// The same with threads of the guest's scheduler and a heap. `None` if a number is above its maximum.
    #[must_use]
    pub const fn with_threads(self, kthreads: u32, heap_pages: u32) -> Option<Self> {
        if kthreads > Self::KTHREADS_MAX || heap_pages > Self::HEAP_PAGES_MAX {
            return None;
        }
        Some(Self { kthreads, heap_pages, ..self })
    }

    /// Threads of the guest's scheduler.
    #[must_use]
    pub const fn kthreads(&self) -> u32 {
        self.kthreads
    }

    /// Pages of the heap.
    #[must_use]
    pub const fn heap_pages(&self) -> u32 {
        self.heap_pages
    }

    /// Number of vCPUs.
    #[must_use]
    pub const fn vcpus(&self) -> u32 {
        self.vcpus
    }

    /// Logical threads of a vCPU.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        self.threads
    }

    /// Pages of a chunk.
    #[must_use]
    pub const fn chunk_pages(&self) -> u32 {
        self.chunk_pages
    }

    /// Slots of the VM.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.vcpus * self.threads
    }

    /// Leaf page tables of a slot.
    #[must_use]
    pub const fn leaf_pts_per_slot(&self) -> u32 {
        self.chunk_pages.div_ceil(512)
    }

    /// Distance of two slots in the window; a slot has its page tables for itself.
    #[must_use]
    pub const fn stride(&self) -> u64 {
        self.leaf_pts_per_slot() as u64 * HUGE_SIZE
    }

    /// Virtual address of a slot.
    #[must_use]
    pub const fn slot_address(&self, slot: u32) -> u64 {
        WINDOW_BASE + slot as u64 * self.stride()
    }

    /// First leaf page table of a slot: page `p` of the slot has entry `p` of the 8-byte entries from here.
    #[must_use]
    pub const fn leaf_pt(&self, slot: u32) -> u64 {
        LEAF_PTS + (slot * self.leaf_pts_per_slot()) as u64 * PAGE_SIZE
    }

    /// Sets of a vCPU that chunks are allocated from.
    #[must_use]
    pub const fn sets(&self) -> u32 {
        self.threads + SPARE_SETS
    }

    /// First frame of set `set` of `vcpu`; set number [`Geometry::sets`] is the vCPU's source chunk.
    #[must_use]
    pub const fn set_address(&self, vcpu: u32, set: u32) -> u64 {
        POOL + (vcpu as u64 * (self.sets() as u64 + 1) + set as u64) * self.chunk_pages as u64 * PAGE_SIZE
    }

    /// Lowest address of the stack of a thread of the guest's scheduler.
    #[must_use]
    pub const fn kthread_stack(&self, kthread: u32) -> u64 {
        self.set_address(self.vcpus, 0) + kthread as u64 * KTHREAD_STACK_SIZE
    }

    /// First byte of the heap.
    #[must_use]
    pub const fn heap(&self) -> u64 {
        self.kthread_stack(self.kthreads)
    }

    /// Bytes of guest memory, a multiple of 2 MiB.
    #[must_use]
    pub const fn memory_size(&self) -> u64 {
        (self.heap() + self.heap_pages as u64 * PAGE_SIZE).next_multiple_of(HUGE_SIZE)
    }
}

const _: () = {
    let biggest = Geometry {
        vcpus: VCPUS_MAX,
        threads: Geometry::THREADS_MAX,
        chunk_pages: Geometry::CHUNK_PAGES_MAX,
        kthreads: Geometry::KTHREADS_MAX,
        heap_pages: Geometry::HEAP_PAGES_MAX,
    };
    assert!(SYSTEM + VCPUS_MAX as u64 * PAGE_SIZE <= VCPU);
    assert!(VCPU + VCPUS_MAX as u64 * PAGE_SIZE <= IMAGE);
    assert!(STACKS + VCPUS_MAX as u64 * STACK_SIZE <= PML4);
    assert!(LOW_PTS + LOW_PT_COUNT * PAGE_SIZE <= LEAF_PTS);
    assert!(biggest.leaf_pt(Geometry::SLOTS_MAX) <= RESULTS);
    assert!(RESULTS + VCPUS_MAX as u64 * RESULTS_SIZE <= POOL);
    assert!(biggest.memory_size() <= LOW_PD_COUNT << 30);
    assert!(biggest.stride() * Geometry::SLOTS_MAX as u64 <= WINDOW_PD_COUNT << 30);
    assert!(IO_MAP_BASE as u64 == TSS_SIZE && TSS_LIMIT as u64 == TSS_SIZE + IO_BITMAP_SIZE - 1);
    assert!(PML4.is_multiple_of(HUGE_SIZE) && POOL.is_multiple_of(HUGE_SIZE));
    // TSS and bitmap leave most of the system page to the ring-0 stack.
    assert!(TSS_SIZE + IO_BITMAP_SIZE <= 1024);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_geometries_are_refused() {
        assert_eq!(Geometry::new(0, 2, 16), None);
        assert_eq!(Geometry::new(65, 2, 16), None);
        assert_eq!(Geometry::new(8, 17, 16), None);
        assert_eq!(Geometry::new(8, 2, 0), None);
        assert_eq!(Geometry::new(8, 2, 1025), None);
    }

    #[test]
    fn sets_of_all_vcpus_are_disjoint_and_inside_memory() {
        let g = Geometry::new(3, 2, 600).unwrap();
        let size = u64::from(g.chunk_pages()) * PAGE_SIZE;
        let mut end = POOL;
        for vcpu in 0..3 {
            for set in 0..=g.sets() {
                assert_eq!(g.set_address(vcpu, set), end);
                end += size;
            }
        }
        assert!(end <= g.memory_size());
    }

    #[test]
    fn stacks_and_heap_stand_behind_the_pool() {
        let plain = Geometry::new(2, 1, 1).unwrap();
        let g = plain.with_threads(3, 5).unwrap();
        assert_eq!(g.kthread_stack(0), plain.set_address(2, 0));
        assert_eq!(g.heap() - g.kthread_stack(0), 3 * KTHREAD_STACK_SIZE);
        assert!(g.heap() + 5 * PAGE_SIZE <= g.memory_size());
        assert_eq!(plain.with_threads(Geometry::KTHREADS_MAX + 1, 0), None);
        assert_eq!(plain.with_threads(0, Geometry::HEAP_PAGES_MAX + 1), None);
    }

    #[test]
    fn slots_have_their_page_tables_for_themselves() {
        let g = Geometry::new(2, 2, 513).unwrap();
        assert_eq!(g.leaf_pt(1) - g.leaf_pt(0), 2 * PAGE_SIZE);
        assert_eq!(g.slot_address(1) - g.slot_address(0), 2 * HUGE_SIZE);
    }
}
