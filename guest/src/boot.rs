//! What the host puts into guest memory and registers before the first entry: a pure function of the parameters.
//!
//! ```text
//!   CR3 ─► PML4[0] ─► PDPT[0..16]    ─► low page directories ─► first 6 MiB: page tables, rights by page
//!                     │                                         rest of memory: 2 MiB pages, ring 3 read-write
//!                     └─ PDPT[256..] ─► window page directories ─► leaf page tables, empty: the guest fills them
//! ```

use abi::header::{ImageHeader, STUB_SIZE};
use abi::layout::{self, Geometry, HUGE_SIZE, PAGE_SIZE};
use abi::params::Params;

/// Bytes for guest memory.
#[derive(Debug, Clone)]
pub struct Region {
    /// Guest-physical address of the first byte.
    pub gpa: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Registers of a vCPU at its first entry; selectors and descriptor attributes are as in [`abi::layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Instruction pointer.
    pub rip: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Base of `gs`.
    pub gs_base: u64,
    /// Base of TR; its limit is [`layout::TSS_LIMIT`].
    pub tss_base: u64,
}

/// Limit of GDTR.
pub const GDT_LIMIT: u16 = 6 * 8 - 1;
/// Limit of IDTR.
pub const IDT_LIMIT: u16 = 256 * 16 - 1;

// Page-table entry bits.
const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const USER: u64 = 4;
const HUGE: u64 = 0x80;
const TABLE: u64 = PRESENT | WRITE | USER;

/// The start registers of a vCPU.
#[must_use]
pub fn start(header: &ImageHeader, vcpu: u32) -> Start {
    Start {
        rip: header.entry,
        rsp: layout::stack_top(vcpu),
        gs_base: layout::vcpu_page(vcpu),
        tss_base: layout::system_page(vcpu),
    }
}

/// Everything to copy into zeroed guest memory before the first entry, besides the image itself.
///
/// `lost_flush` installs the flush handler that flushes nothing. `None` if the parameters have no geometry.
#[must_use]
pub fn regions(header: &ImageHeader, params: &Params, lost_flush: bool) -> Option<Vec<Region>> {
    let geometry = params.geometry()?;
    let mut regions = vec![
        Region { gpa: layout::GDT, bytes: words(layout::GDT_ENTRIES) },
        Region { gpa: layout::IDT, bytes: idt(header, lost_flush) },
        Region { gpa: layout::PARAMS, bytes: params.to_bytes().into() },
        Region { gpa: layout::PML4, bytes: upper_tables(&geometry) },
    ];
    for vcpu in 0..geometry.vcpus() {
        regions.push(Region { gpa: layout::system_page(vcpu), bytes: tss(vcpu) });
        regions.push(Region { gpa: layout::vcpu_page(vcpu), bytes: abi::state::HALTED.to_le_bytes().into() });
        let index = layout::vcpu_page(vcpu) + abi::vcpu::INDEX_OFFSET;
        regions.push(Region { gpa: index, bytes: vcpu.to_le_bytes().into() });
    }
    Some(regions)
}

/// A guest address or size as an index; both are 64 bits on the only architecture that this runs on.
#[allow(clippy::cast_possible_truncation)]
const fn index(address: u64) -> usize {
    address as usize
}

fn words(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Interrupt gates (they clear IF) of DPL 0 for exceptions and the flush, timer and disk vectors; nothing else is present.
fn idt(header: &ImageHeader, lost_flush: bool) -> Vec<u8> {
    let gate = |handler: u64| {
        let selector = u64::from(layout::KERNEL_CS) << 16;
        let attributes = 0x8e00 << 32;
        [(handler & 0xffff) | selector | attributes | (handler & 0xffff_0000) << 32, handler >> 32]
    };
    let mut gates = [[0; 2]; 256];
    for (gate_of, handler) in gates.iter_mut().zip((header.exceptions..).step_by(index(STUB_SIZE))) {
        *gate_of = gate(handler);
    }
    gates[layout::EXCEPTION_COUNT..].fill([0; 2]);
    let flush = if lost_flush { header.flush_lost } else { header.flush };
    gates[usize::from(layout::FLUSH_VECTOR)] = gate(flush);
    for vector in [layout::TIMER_VECTOR, layout::DISK_VECTOR] {
        gates[usize::from(vector)] = gate(header.timer);
    }
    words(gates.into_iter().flatten())
}

/// TSS with RSP0 at the end of the system page, and the bitmap that opens the doorbell's ports.
fn tss(vcpu: u32) -> Vec<u8> {
    let mut bytes = vec![0; index(layout::TSS_SIZE)];
    let rsp0 = layout::system_page(vcpu) + PAGE_SIZE;
    bytes[4..12].copy_from_slice(&rsp0.to_le_bytes());
    bytes[0x66..0x68].copy_from_slice(&layout::IO_MAP_BASE.to_le_bytes());
    bytes.resize(index(layout::TSS_SIZE + layout::IO_BITMAP_SIZE), 0xff);
    for port in abi::call::PORT_BASE..abi::call::PORT_BASE + abi::call::PORT_COUNT {
        bytes[index(layout::TSS_SIZE) + usize::from(port / 8)] &= !(1 << (port % 8));
    }
    bytes
}

/// All tables from [`layout::PML4`] to the last low page table.
fn upper_tables(geometry: &Geometry) -> Vec<u8> {
    let first = layout::PML4;
    let mut entries = vec![0_u64; index((layout::LOW_PTS - first + layout::LOW_PT_COUNT * PAGE_SIZE) / 8)];
    let mut set = |table: u64, at: u64, entry: u64| entries[index((table - first) / 8 + at)] = entry;

    set(layout::PML4, 0, layout::PDPT | TABLE);
    for gib in 0..layout::LOW_PD_COUNT {
        set(layout::PDPT, gib, (layout::LOW_PDS + gib * PAGE_SIZE) | TABLE);
    }
    for gib in 0..layout::WINDOW_PD_COUNT {
        set(layout::PDPT, (layout::WINDOW_BASE >> 30) + gib, (layout::WINDOW_PDS + gib * PAGE_SIZE) | TABLE);
    }
    for number in 0..geometry.memory_size() / HUGE_SIZE {
        let entry = if number < layout::LOW_PT_COUNT {
            (layout::LOW_PTS + number * PAGE_SIZE) | TABLE
        } else {
            (number * HUGE_SIZE) | TABLE | HUGE
        };
        set(layout::LOW_PDS, number, entry);
    }
    for page in 0..layout::LOW_PT_COUNT * 512 {
        let address = page * PAGE_SIZE;
        set(layout::LOW_PTS, page, rights(address).map_or(0, |rights| address | rights));
    }
    let leaves = u64::from(geometry.slots() * geometry.leaf_pts_per_slot());
    for number in 0..leaves {
        set(layout::WINDOW_PDS, number, (layout::LEAF_PTS + number * PAGE_SIZE) | TABLE);
    }
    words(entries)
}

/// Rights of a page below [`layout::PML4`]; `None`: unmapped.
fn rights(address: u64) -> Option<u64> {
    match address {
        0..layout::GDT => None,
        layout::PARAMS => Some(PRESENT | USER),
        layout::GDT..layout::VCPU => Some(PRESENT | WRITE),
        layout::STACKS.. if (address - layout::STACKS).is_multiple_of(layout::STACK_SIZE) => None,
        _ => Some(TABLE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: ImageHeader = ImageHeader {
        magic: abi::header::MAGIC,
        version: abi::VERSION as u64,
        entry: 0x20_1000,
        flush: 0x20_2000,
        flush_lost: 0x20_3000,
        timer: 0x20_3800,
        exceptions: 0x20_4000,
    };

    fn memory(params: &Params) -> Vec<u8> {
        let mut memory = vec![0; index(layout::POOL)];
        for region in regions(&HEADER, params, false).unwrap() {
            let at = index(region.gpa);
            memory[at..at + region.bytes.len()].copy_from_slice(&region.bytes);
        }
        memory
    }

    fn entry(memory: &[u8], table: u64, number: u64) -> u64 {
        let at = index(table + number % 512 * 8);
        u64::from_le_bytes(memory[at..at + 8].try_into().unwrap())
    }

    /// Walks the tables: the address of the last entry, and its value.
    fn walk(memory: &[u8], address: u64) -> (u64, u64) {
        let mut table = layout::PML4;
        for shift in [39, 30, 21, 12] {
            let value = entry(memory, table, address >> shift);
            if shift == 12 || value & PRESENT == 0 || value & HUGE != 0 {
                return (table + (address >> shift) % 512 * 8, value);
            }
            table = value & !0xfff;
        }
        unreachable!()
    }

    #[test]
    fn memory_below_the_pool_is_mapped_at_itself_with_rights_by_page() {
        let memory = memory(&Params { vcpus: 2, ..Params::MINIMAL });
        let rights = |address| walk(&memory, address).1 & 0xfff;
        assert_eq!(rights(0), 0, "page 0 is unmapped");
        assert_eq!(rights(layout::IDT), PRESENT | WRITE, "ring 3 must not write gates");
        assert_eq!(rights(layout::PARAMS), PRESENT | USER);
        assert_eq!(rights(layout::system_page(1)), PRESENT | WRITE);
        assert_eq!(rights(layout::IMAGE), TABLE);
        assert_eq!(rights(layout::stack_top(0) - 8), TABLE);
        assert_eq!(rights(layout::stack_top(0)), 0, "guard page of the next stack");
        assert_eq!(rights(layout::POOL), TABLE | HUGE);
        assert_eq!(walk(&memory, layout::vcpu_page(1)).1 & !0xfff, layout::vcpu_page(1));
    }

    #[test]
    fn slots_of_the_window_end_in_the_leaf_tables_that_the_guest_writes() {
        let params = Params { vcpus: 3, threads: 2, chunk_pages: 600, ..Params::MINIMAL };
        let memory = memory(&params);
        let geometry = params.geometry().unwrap();
        for slot in 0..geometry.slots() {
            for page in [0, 511, 512, 599] {
                let (at, value) = walk(&memory, geometry.slot_address(slot) + page * PAGE_SIZE);
                assert_eq!((at, value), (geometry.leaf_pt(slot) + page * 8, 0));
            }
        }
    }

    #[test]
    fn ring_3_may_use_the_doorbell_ports_and_no_others() {
        let tss = tss(0);
        let closed = |port: u16| tss[0x68 + usize::from(port / 8)] >> (port % 8) & 1 == 1;
        let last = abi::call::PORT_BASE + abi::call::PORT_COUNT - 1;
        for port in 0..=last {
            assert_eq!(closed(port), port < abi::call::PORT_BASE, "port {port:#x}");
        }
        assert_eq!(tss.len() as u64 - 1, u64::from(layout::TSS_LIMIT));
        assert_eq!(tss.last(), Some(&0xff));
    }

    #[test]
    fn only_exceptions_flush_timer_and_disk_have_gates() {
        let idt = idt(&HEADER, true);
        let handler = |vector: usize| {
            let at = vector * 16;
            let word = |at: usize| u64::from_le_bytes(idt[at..at + 8].try_into().unwrap());
            (word(at) & 0xffff) | (word(at) >> 32 & 0xffff_0000) | word(at + 8) << 32
        };
        assert_eq!(handler(0), 0x20_4000);
        assert_eq!(handler(14), 0x20_4000 + 14 * STUB_SIZE);
        assert_eq!(handler(32), 0);
        assert_eq!(handler(usize::from(layout::FLUSH_VECTOR)), HEADER.flush_lost);
        assert_eq!(handler(usize::from(layout::TIMER_VECTOR)), HEADER.timer);
        assert_eq!(handler(usize::from(layout::DISK_VECTOR)), HEADER.timer);
    }
}
