//! What a guest can write, and what may be loaded as one.

use abi::call::Call;
use abi::histogram::BUCKETS;
use abi::layout;
use abi::params::Params;
use abi::results::{Counters, Results};
use abi::state::{FLUSH, HALTED, Marked, PREEMPTED, Stop};
use abi::vcpu::{CONSOLE_SIZE, Phase, VcpuPage};
use fuzz::{Script, mutate, target};
use hdrhistogram::Histogram;
use linux_loader::loader::{Elf, KernelLoader};
use plan::HistogramSummary;
use vmm::clock::cycles_to_ns;
use vmm::doorbell::Doorbell;
use vmm::latch::KickLatch;
use vmm::memory::GuestMemory;
use vmm::snapshot::Buckets;
use vmm::sync::Ordering;
use vmm::vectors::PendingVectors;

const PAGE: usize = 4096;

/// Memory for the pages of 64 vCPUs.
fn pages() -> GuestMemory {
    GuestMemory::new(64 * 4096).expect("memory")
}

fn page(memory: &GuestMemory, vcpu: u32) -> &VcpuPage {
    memory.shared(u64::from(vcpu) * 4096).expect("a page of it")
}

/// Fills `bytes` bytes at `address` with what is left of the script, again and again.
fn fill(memory: &GuestMemory, address: u64, bytes: usize, pattern: &[u8]) {
    let filled: Vec<u8> = pattern.iter().chain([&0]).copied().cycle().take(bytes).collect();
    memory.write(address, &filled).expect("inside");
}

/// One vCPU rings again and again, with any port, size, argument and mask; what comes out is carried out on the pages and
/// latches of its VM as the VMM would.
fn ring(memory: &GuestMemory, input: &[u8]) {
    let mut script = Script::new(input);
    let vcpus = u32::from(script.byte() % 64) + 1;
    let me = u32::from(script.byte()) % vcpus;
    let vectors: Vec<PendingVectors> = (0..vcpus).map(|_| PendingVectors::default()).collect();
    let latches: Vec<KickLatch> = (0..vcpus).map(|_| KickLatch::default()).collect();
    let own = page(memory, me);
    for _ in 0..16 {
        let port = match script.byte() {
            known @ 0..=199 => 0x500 + u16::from(known % 12),
            other => u16::from(other) << 8 | u16::from(script.byte()),
        };
        let argument = script.number().to_le_bytes();
        let size = if script.one_in(8) { script.below(9) } else { 4 };
        own.call.0.arg0.store(script.number(), Ordering::Relaxed);
        let (call, doorbell) = match Doorbell::parse(port, &argument[..size], own, vcpus, me) {
            Ok(rung) => rung,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        assert_eq!(call.port(), port);
        match doorbell {
            Doorbell::SendIpi(targets) => {
                assert_eq!(targets.iter().count(), targets.len() as usize);
                for vcpu in targets.iter() {
                    assert_ne!(vcpu, me);
                    vectors[vcpu as usize].raise(layout::FLUSH_VECTOR, 1);
                    assert_eq!(vectors[vcpu as usize].highest(), Some(layout::FLUSH_VECTOR));
                }
            }
            Doorbell::FlushOnEnter(targets) => {
                for vcpu in targets.iter() {
                    let word = &page(memory, vcpu).state.0;
                    let _ = word.demand_flush();
                    assert!(word.enter().flush, "a demanded flush is taken by the next entry");
                }
            }
            Doorbell::KickCpu(vcpu) => {
                latches[vcpu as usize].kick();
                assert!(latches[vcpu as usize].consume() && latches[vcpu as usize].totals().balanced());
            }
            Doorbell::Console(len) => assert!(own.console_text(len).count() <= CONSOLE_SIZE),
            Doorbell::Io(time) => assert!(time.as_secs() <= 1),
            Doorbell::Report(_) => assert_eq!(call, Call::Report),
            Doorbell::SendResched(vcpu) => assert!(vcpu < vcpus),
            // They carry nothing that the guest chose.
            Doorbell::Nop | Doorbell::Halt | Doorbell::SpinHint | Doorbell::DiskIo => {}
        }
    }
}

target!(doorbell, pages(), |memory, input| ring(memory, input));

/// Host and initiators move the state word while the guest stores anything into it.
fn move_word(memory: &GuestMemory, input: &[u8]) {
    let word = &page(memory, 0).state.0;
    let mut script = Script::new(input);
    memory.write(0, &script.number().to_le_bytes()).expect("inside");
    // The flush that must not be lost: pending since a mark, if the guest did not store since.
    let mut owed = false;
    for _ in 0..40 {
        match script.byte() % 8 {
            0 => {
                word.stop(Stop::Preempted);
            }
            1 => {
                word.stop(Stop::Halted);
            }
            2 => {
                word.stop(Stop::MidInstruction);
            }
            3 => owed |= word.mark_flush() == Marked::Deferred,
            4 => {
                let _ = word.demand_flush();
                owed = true;
            }
            5 => {
                let bits = script.byte();
                memory.write(0, &[bits, script.byte(), script.byte(), script.byte()]).expect("inside");
                owed = u32::from(bits) & FLUSH != 0;
            }
            _ => {
                assert!(!owed || word.flush_pending(), "a pending flush was wiped");
                assert!(word.enter().flush || !owed, "a pending flush was not taken");
                assert_eq!(word.mark_flush(), Marked::Running, "an entry clears all bits");
                owed = false;
            }
        }
    }
    // Whatever the guest left: a stopped vCPU can be marked, and the mark is taken.
    word.stop(Stop::Preempted);
    assert_eq!(word.mark_flush(), Marked::Deferred);
    let entered = word.enter();
    assert!(entered.flush && entered.was_stopped);
    assert_eq!(PREEMPTED & HALTED, 0);
}

target!(state_word, pages(), |memory, input| move_word(memory, input));

/// Every field of a vCPU's page that the host reads, from any bytes.
fn read_page(memory: &GuestMemory, input: &[u8]) {
    fill(memory, 0, PAGE, input);
    let page = page(memory, 0);
    let len = u32::from_le_bytes(std::array::from_fn(|at| input.get(at).copied().unwrap_or(0)));
    assert!(page.console_text(len).all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
    assert!(!Phase::name(page.call.0.phase.load(Ordering::Relaxed)).is_empty());
    let exception = &page.exception.0;
    let said = vmm::leave::Leave::Exception {
        vector: exception.vector.load(Ordering::Relaxed),
        error: exception.error.load(Ordering::Relaxed),
        rip: exception.rip.load(Ordering::Relaxed),
        cr2: exception.cr2.load(Ordering::Relaxed),
    };
    assert!(said.to_string().len() < 200);
    let _ = vmm::profile::resolve(guest::symbols(), exception.rip.load(Ordering::Relaxed));
}

target!(vcpu_page, pages(), |memory, input| read_page(memory, input));

/// Two looks at a results page that holds anything: counts that fall, sums that overflow, times without a clock.
fn read_results(memory: &GuestMemory, input: &[u8]) {
    let mut script = Script::new(input);
    let tsc_khz = u32::try_from(script.number() & u64::from(u32::MAX)).expect("32 bits");
    let (first, second) = input.split_at(input.len() / 2);
    let results: &Results = memory.shared(0).expect("inside");
    let size = size_of::<Results>();
    fill(memory, 0, size, first);
    let look = || (results.counters.read(), Buckets::read(&results.flush_wait), Buckets::read(&results.record_time));
    let before = look();
    fill(memory, u64::try_from(script.below(size)).expect("small"), size, second);
    let after = look();
    let mut sum = Histogram::<u64>::new_with_bounds(1, 1_000_000_000_000, 3).expect("bounds");
    after.1.add_since(&before.1, tsc_khz, &mut sum);
    after.2.add_since(&before.2, tsc_khz, &mut sum);
    assert!(sum.len() <= 2 * BUCKETS as u64 * u64::from(u32::MAX));
    // Encoding takes most of the time, and does not depend on who counted.
    if script.one_in(32) {
        let summary = HistogramSummary::of(&sum);
        assert_eq!(summary.whole().map_or(0, |whole| whole.len()), sum.len());
    }
    let change = |at: usize| after.0[at].saturating_sub(before.0[at]);
    let _ = (0..Counters::NAMES.len()).map(change).fold(0, u64::saturating_add);
    let _ = cycles_to_ns(after.0[0], tsc_khz);
}

target!(results_page, pages(), |memory, input| read_results(memory, input));

const ELF_WORDS: &[&str] =
    &["\x7fELF\x02\x01\x01\0", "vmmlab\0\x01", "\u{7f}\u{7f}", "\0\0\0\0\0\0\0\0", "_start", "_ZN"];

/// An image that is damaged anywhere is refused or read, by both of its readers.
fn load(state: &mut (GuestMemory, Vec<Vec<u8>>), input: &[u8]) {
    let (memory, images) = state;
    let mut script = Script::new(input);
    let image = if script.one_in(8) { input.to_vec() } else { head_damaged(images, &mut script) };
    if let Ok(header) = guest::header_of(&image) {
        let _ = guest::boot::regions(&header, &Params::MINIMAL, false);
    }
    assert!(guest::symbols_of(&image).is_sorted_by(|a, b| a.address < b.address));
    let _ = Elf::load(memory.mmap(), None, &mut std::io::Cursor::new(&image), None);
}

/// The headers and tables are what a loader believes: damage there more often than in the code.
fn head_damaged(images: &[Vec<u8>], script: &mut Script<'_>) -> Vec<u8> {
    let mut image = if script.one_in(4) { mutate(images, ELF_WORDS, script) } else { script.pick(images).clone() };
    let tables = [0..64, 64..400, image.len().saturating_sub(2_000)..image.len()];
    for _ in 0..=script.below(6) {
        let table = script.pick(&tables).clone();
        let at = table.start + script.below(table.len());
        let value = script.number().to_le_bytes();
        let size = *script.pick(&[1, 2, 4, 8]);
        for (to, from) in image.iter_mut().skip(at).zip(&value[..size]) {
            *to = *from;
        }
    }
    image
}

target!(elf_image, (GuestMemory::new(32 << 20).expect("memory"), vec![guest::IMAGE.to_vec()]), |state, input| load(
    state, input
));

/// Any parameters have a memory map inside the memory that they ask for, or none.
fn map(input: &[u8]) {
    let mut script = Script::new(input);
    let mut narrow = |small: u64| -> u32 {
        let number = script.number();
        u32::try_from(if number.is_multiple_of(2) { number / 2 % small } else { number & u64::from(u32::MAX) })
            .expect("32 bits")
    };
    let params = Params { vcpus: narrow(66), threads: narrow(18), chunk_pages: narrow(1026), ..Params::MINIMAL };
    let (workload, flush) = (narrow(8), narrow(8));
    let params = Params { workload, flush, ..params };
    let _ = (params.workload(), params.flush());
    let Some(geometry) = params.geometry() else { return };
    assert!(geometry.memory_size() <= layout::LOW_PD_COUNT << 30, "the identity map covers every guest");
    // Tables for the largest guests take a while to write: one of them in a hundred.
    if params.vcpus * params.threads * params.chunk_pages < 4_000 {
        let header = guest::header().expect("the lab's own image");
        for region in guest::boot::regions(&header, &params, true).expect("it has a geometry") {
            assert!(region.gpa + region.bytes.len() as u64 <= geometry.memory_size());
        }
    }
}

target!(guest_parameters, (), |_state, input| map(input));
