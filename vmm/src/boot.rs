//! From parameters to a VM whose vCPUs can be entered: one linear function of named steps.
//!
//! There is no firmware and no boot code. The image is an ELF file, the descriptor and page tables are bytes that
//! [`guest::boot`] computes, and every vCPU starts in ring 3 at the image's entry (docs/guest-abi.md, "Start").

use std::io::Cursor;

use abi::header::ImageHeader;
use abi::layout;
use abi::params::Params;
use guest::boot::{GDT_LIMIT, IDT_LIMIT, Start};
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_dtable, kvm_regs, kvm_segment, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm as KvmDevice, VcpuFd, VmFd};
use linux_loader::loader::{Elf, KernelLoader};

use crate::memory::{GuestMemory, MemoryError};
use crate::probe::{Virtualization, virtualization_here};

/// Three unused pages below 4 GiB that KVM on older Intel processors needs for its own TSS (KVM_SET_TSS_ADDR); the place
/// that other VMMs use. A guest's memory must end below it.
const KVM_TSS_ADDRESS: usize = 0xfffb_d000;

/// Largest memory of a guest, in bytes.
pub const MEMORY_MAX: u64 = KVM_TSS_ADDRESS as u64;

/// Why a VM did not boot.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// Parameters outside the guest's geometry.
    #[error(
        "{vcpus} vCPUs with {threads} threads and chunks of {chunk_pages} pages are more than the guest's memory map holds"
    )]
    Geometry {
        /// vCPUs.
        vcpus: u32,
        /// Logical threads a vCPU.
        threads: u32,
        /// Pages of a chunk.
        chunk_pages: u32,
    },
    /// Guest memory.
    #[error("guest memory cannot be prepared")]
    Memory(#[from] MemoryError),
    /// The guest image.
    #[error("the guest image cannot be loaded")]
    Image(#[from] linux_loader::loader::Error),
    /// A KVM call.
    #[error("{call} failed")]
    Kvm {
        /// Its name.
        call: &'static str,
        /// Its errno.
        #[source]
        source: kvm_ioctls::Error,
    },
}

/// What is loaded as the guest.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// An ELF executable.
    pub elf: &'a [u8],
    /// Its header, checked.
    pub header: ImageHeader,
    /// For tests: code that runs instead, at [`CODE`].
    pub code: Option<&'a [u8]>,
    /// For tests: bytes that replace the image's own, by guest-physical address.
    pub patches: &'a [(u64, Vec<u8>)],
}

/// Where code that replaces the kernel's stands: the last page of the image's area, which the kernel does not reach.
pub const CODE: u64 = layout::STACKS - layout::PAGE_SIZE;

/// A VM that can run.
#[derive(Debug)]
pub struct Booted {
    /// The VM.
    pub vm: VmFd,
    /// Its memory; outlives `vm`.
    pub memory: GuestMemory,
    /// Its vCPUs, by number.
    pub vcpus: Vec<VcpuFd>,
    /// TSC frequency that they see, in kHz.
    pub tsc_khz: u32,
}

/// Boots one VM up to, not including, the first entry.
///
/// # Errors
/// The step that failed.
pub fn boot(kvm: &KvmDevice, image: &Image<'_>, params: &Params, lost_flush: bool) -> Result<Booted, BootError> {
    let memory = create_memory(params)?;
    load_image(&memory, image)?;
    write_start_state(&memory, image, params, lost_flush)?;
    let vm = create_vm(kvm)?;
    register_memory(&vm, &memory)?;
    let cpuid = supported_cpuid(kvm)?;
    let tss_type = tss_type(virtualization_here());
    let vcpus = (0..params.vcpus)
        .map(|vcpu| {
            let fd = create_vcpu(&vm, vcpu)?;
            set_cpuid(&fd, cpuid.clone(), vcpu)?;
            let start = guest::boot::start(&image.header, vcpu);
            set_registers(&fd, &Start { rip: image.code.map_or(start.rip, |_| CODE), ..start }, tss_type)?;
            Ok(fd)
        })
        .collect::<Result<Vec<_>, BootError>>()?;
    let tsc_khz = vcpus.first().map_or(Ok(0), VcpuFd::get_tsc_khz).map_err(failed("KVM_GET_TSC_KHZ"))?;
    Ok(Booted { vm, memory, vcpus, tsc_khz })
}

fn failed(call: &'static str) -> impl Fn(kvm_ioctls::Error) -> BootError {
    move |source| BootError::Kvm { call, source }
}

fn create_memory(params: &Params) -> Result<GuestMemory, BootError> {
    Ok(GuestMemory::new(params.geometry().ok_or_else(|| no_geometry(params))?.memory_size())?)
}

fn no_geometry(params: &Params) -> BootError {
    BootError::Geometry { vcpus: params.vcpus, threads: params.threads, chunk_pages: params.chunk_pages }
}

fn load_image(memory: &GuestMemory, image: &Image<'_>) -> Result<(), BootError> {
    Elf::load(memory.mmap(), None, &mut Cursor::new(image.elf), None)?;
    if let Some(code) = image.code {
        memory.write(CODE, code)?;
    }
    image.patches.iter().try_for_each(|(address, bytes)| memory.write(*address, bytes))?;
    Ok(())
}

fn write_start_state(
    memory: &GuestMemory,
    image: &Image<'_>,
    params: &Params,
    lost_flush: bool,
) -> Result<(), BootError> {
    let regions = guest::boot::regions(&image.header, params, lost_flush).ok_or_else(|| no_geometry(params))?;
    regions.iter().try_for_each(|region| memory.write(region.gpa, &region.bytes))?;
    Ok(())
}

/// No in-kernel irqchip: halts and interrupts come to us, so that the lab's scheduler sees everything.
fn create_vm(kvm: &KvmDevice) -> Result<VmFd, BootError> {
    let vm = kvm.create_vm().map_err(failed("KVM_CREATE_VM"))?;
    vm.set_tss_address(KVM_TSS_ADDRESS).map_err(failed("KVM_SET_TSS_ADDR"))?;
    Ok(vm)
}

fn register_memory(vm: &VmFd, memory: &GuestMemory) -> Result<(), BootError> {
    for (slot, (guest_phys_addr, memory_size, userspace_addr)) in (0..).zip(memory.regions()) {
        let region = kvm_userspace_memory_region { slot, flags: 0, guest_phys_addr, memory_size, userspace_addr };
        // SAFETY: the range is a mapping of `memory`, which `Booted` and `Vm` keep until after the VM's descriptor is
        // closed, and no other slot overlaps it. Unsafe because KVM will let the guest write there.
        unsafe { vm.set_user_memory_region(region) }.map_err(failed("KVM_SET_USER_MEMORY_REGION"))?;
    }
    Ok(())
}

fn supported_cpuid(kvm: &KvmDevice) -> Result<CpuId, BootError> {
    kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(failed("KVM_GET_SUPPORTED_CPUID"))
}

fn create_vcpu(vm: &VmFd, vcpu: u32) -> Result<VcpuFd, BootError> {
    vm.create_vcpu(vcpu.into()).map_err(failed("KVM_CREATE_VCPU"))
}

/// The host's CPUID with the vCPU's own number where the processor has its APIC id (Intel SDM vol. 2, CPUID leaves 1
/// and 0xb).
fn set_cpuid(fd: &VcpuFd, mut cpuid: CpuId, vcpu: u32) -> Result<(), BootError> {
    for entry in cpuid.as_mut_slice() {
        match entry.function {
            0x1 => entry.ebx = entry.ebx & 0x00ff_ffff | vcpu << 24,
            0xb => entry.edx = vcpu,
            _ => {}
        }
    }
    fd.set_cpuid2(&cpuid).map_err(failed("KVM_SET_CPUID2"))
}

/// Type of the segment in TR. VM entry of VMX wants a busy TSS (Intel SDM vol. 3, "Checks on Guest Segment Registers").
/// SVM does not look, but QEMU's emulation of a processor with SVM consults the I/O bitmap of an available one only.
const fn tss_type(virtualization: Virtualization) -> u8 {
    match virtualization {
        Virtualization::Svm => 0x9,
        Virtualization::Vmx | Virtualization::Pvm | Virtualization::Unknown => 0xb,
    }
}

fn set_registers(fd: &VcpuFd, start: &Start, tss_type: u8) -> Result<(), BootError> {
    let mut sregs = fd.get_sregs().map_err(failed("KVM_GET_SREGS"))?;
    let data = segment(layout::USER_SS, 0x3, 0);
    sregs.cs = kvm_segment { l: 1, db: 0, ..segment(layout::USER_CS, 0xb, 0) };
    (sregs.ss, sregs.ds, sregs.es, sregs.fs) = (data, data, data, data);
    sregs.gs = segment(layout::USER_SS, 0x3, start.gs_base);
    // TR: a 64-bit TSS, a system segment without granularity.
    sregs.tr = kvm_segment {
        limit: layout::TSS_LIMIT,
        dpl: 0,
        s: 0,
        g: 0,
        db: 0,
        ..segment(layout::TSS_SELECTOR, tss_type, start.tss_base)
    };
    sregs.ldt = kvm_segment { type_: 0x2, unusable: 1, ..kvm_segment::default() };
    sregs.gdt = kvm_dtable { base: layout::GDT, limit: GDT_LIMIT, ..kvm_dtable::default() };
    sregs.idt = kvm_dtable { base: layout::IDT, limit: IDT_LIMIT, ..kvm_dtable::default() };
    (sregs.cr0, sregs.cr3, sregs.cr4, sregs.efer) = (layout::CR0, layout::PML4, layout::CR4, layout::EFER);
    fd.set_sregs(&sregs).map_err(failed("KVM_SET_SREGS"))?;
    let regs = kvm_regs { rip: start.rip, rsp: start.rsp, rflags: layout::RFLAGS, ..kvm_regs::default() };
    fd.set_regs(&regs).map_err(failed("KVM_SET_REGS"))
}

/// A flat ring-3 segment.
const fn segment(selector: u16, type_: u8, base: u64) -> kvm_segment {
    kvm_segment {
        base,
        limit: u32::MAX,
        selector,
        type_,
        present: 1,
        dpl: 3,
        db: 1,
        s: 1,
        l: 0,
        g: 1,
        avl: 0,
        unusable: 0,
        padding: 0,
    }
}
