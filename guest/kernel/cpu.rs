//! This vCPU, the other vCPUs, and the doorbell, as ring 3 sees them.

use core::arch::asm;
use core::fmt::{self, Write};

use abi::call::{Call, Report};
use abi::layout;
use abi::params::Params;
use abi::results::{Counters, Results};
use abi::sync::Ordering::Relaxed;
use abi::vcpu::{Phase, VcpuPage};

/// The page of any vCPU.
pub(crate) fn page(vcpu: u32) -> &'static VcpuPage {
    assert!(vcpu < abi::VCPUS_MAX);
    // SAFETY: the host maps a page for each of the 64 possible vCPUs there, for ever, and all its fields are atomics,
    // for which any bytes are valid. Unsafe because the address is a constant of the memory map.
    unsafe { &*(layout::vcpu_page(vcpu) as *const VcpuPage) }
}

/// The parameters page.
pub(crate) fn params() -> &'static Params {
    // SAFETY: the host filled the page before boot and never writes it again; ring 3 cannot. Its fields are integers.
    unsafe { &*(layout::PARAMS as *const Params) }
}

/// This vCPU.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    pub(crate) index: u32,
    pub(crate) page: &'static VcpuPage,
    pub(crate) results: &'static Results,
}

impl Cpu {
    pub(crate) fn new(index: u32) -> Self {
        let page = page(index);
        // SAFETY: as for the page; `page` has checked the index.
        let results = unsafe { &*(layout::results_block(index) as *const Results) };
        Self { index, page, results }
    }

    /// The vCPU that executes this.
    pub(crate) fn this() -> Self {
        const INDEX: usize = core::mem::offset_of!(VcpuPage, host.0.index);
        let index: u32;
        // SAFETY: `gs` is based at this vCPU's page from the first instruction on, so this reads its number. Unsafe
        // because Rust cannot name a segment.
        unsafe { asm!("mov {:e}, gs:[{}]", out(reg) index, const INDEX, options(nostack, preserves_flags, readonly)) };
        Self::new(index)
    }

    pub(crate) fn counters(&self) -> &'static Counters {
        &self.results.counters
    }

    pub(crate) fn phase(&self, phase: Phase) {
        self.page.call.0.phase.store(phase as u32, Relaxed);
    }

    pub(crate) fn call(&self, call: Call, arg: u32) {
        // SAFETY: the TSS opens the port; the host may read and write shared memory during the call, all of it
        // atomics, so the instruction is declared to touch memory (no `nomem`).
        unsafe { asm!("out dx, eax", in("dx") call.port(), in("eax") arg, options(nostack, preserves_flags)) }
    }

    pub(crate) fn call_mask(&self, call: Call, mask: u64) {
        self.page.call.0.arg0.store(mask, Relaxed);
        self.call(call, 0);
    }

    /// Reports and stops for good; vectors are still taken.
    pub(crate) fn stop(&self, report: Report) -> ! {
        self.phase(Phase::Done);
        self.call(Call::Report, report as u32);
        loop {
            self.call(Call::Halt, 0);
        }
    }
}

/// Prints one message through `Call::Console`, cut to the buffer.
pub(crate) fn print(cpu: Cpu, message: fmt::Arguments<'_>) {
    struct Console(&'static VcpuPage, usize);
    impl Write for Console {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for (to, byte) in self.0.console.0.iter().skip(self.1).zip(text.bytes()) {
                to.store(byte, Relaxed);
                self.1 += 1;
            }
            Ok(())
        }
    }
    let mut console = Console(cpu.page, 0);
    // Writing to the buffer cannot fail; a `Display` that does is cut there.
    let _ = console.write_fmt(message);
    cpu.call(Call::Console, u32::try_from(console.1).unwrap_or(0));
}

/// Cycles; ring 3 reads the host's own counter.
pub(crate) fn rdtsc() -> u64 {
    // SAFETY: CR4.TSD is clear.
    unsafe { core::arch::x86_64::_rdtsc() }
}
