//! `KVM_INTERRUPT`, the one ioctl for which kvm-ioctls has no wrapper.

use std::io;
use std::os::fd::AsRawFd;

use kvm_bindings::{KVMIO, kvm_interrupt};
use kvm_ioctls::VcpuFd;
use vmm_sys_util::ioctl::{_IOC_WRITE, ioctl_expr, ioctl_with_ref};

/// `_IOW(KVMIO, 0x86, struct kvm_interrupt)` of include/uapi/linux/kvm.h; the structure is one 32-bit number.
const KVM_INTERRUPT: libc::c_ulong = ioctl_expr(_IOC_WRITE, KVMIO, 0x86, 4);
const _: () = assert!(size_of::<kvm_interrupt>() == 4);

/// Queues `vector` in the vCPU: KVM delivers it at the next entry, whatever the interrupt flag says, and forgets a
/// vector that was queued before. To be called only when [`Injection::decide`](crate::vectors::Injection::decide)
/// says so, by the thread that owns the vCPU.
///
/// # Errors
/// The errno (EEXIST: a vector is queued already; ENXIO: there is an in-kernel irqchip).
pub fn inject(vcpu: &VcpuFd, vector: u8) -> io::Result<()> {
    let interrupt = kvm_interrupt { irq: vector.into() };
    // SAFETY: the descriptor is a vCPU's and the argument is a kvm_interrupt that outlives the call, as the ioctl's
    // definition wants; KVM only reads it. Unsafe because an ioctl takes an untyped pointer.
    match unsafe { ioctl_with_ref(&vcpu.as_raw_fd(), KVM_INTERRUPT, &interrupt) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
