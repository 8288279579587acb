//! What this host offers to KVM guests, found without leaving a trace; the text that `vmmlab doctor` prints comes from
//! here. Nothing is cached: a probe is a few system calls, and its answer can change (a module is loaded, a
//! permission is given).

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use kvm_bindings::KVM_MAX_CPUID_ENTRIES;
use kvm_ioctls::{Cap, Kvm as KvmDevice};

/// The KVM API version that has been frozen since Linux 2.6.22; every other value is refused by its own documentation
/// (Documentation/virt/kvm/api.rst, 4.1 KVM_GET_API_VERSION).
const KVM_API_VERSION: i32 = 12;

/// Where KVM lives.
const KVM_PATH: &str = "/dev/kvm";

/// Capabilities without which no guest of ours runs, with what they are needed for.
const NEEDED: &[(Cap, &str)] = &[
    (Cap::UserMemory, "KVM_CAP_USER_MEMORY: guest memory"),
    (Cap::ExtCpuid, "KVM_CAP_EXT_CPUID: the guest's CPUID"),
    (Cap::ImmediateExit, "KVM_CAP_IMMEDIATE_EXIT: kicks"),
];

/// Capabilities that make something possible and are not needed.
const USEFUL: &[(Cap, &str)] = &[
    (Cap::SyncRegs, "KVM_CAP_SYNC_REGS: registers without an ioctl"),
    (Cap::GetTscKhz, "KVM_CAP_GET_TSC_KHZ: exact conversion of guest times"),
    (Cap::Irqchip, "KVM_CAP_IRQCHIP: Linux guests"),
];

/// CPUID leaf in which KVM tells a guest what it may use: one bit a feature (Documentation/virt/kvm/x86/cpuid.rst).
const KVM_CPUID_FEATURES: u32 = 0x4000_0001;

/// Bits of its EAX that are about scheduling, flushes and interrupts.
const PV_FEATURES: &[(u32, &str)] = &[
    (5, "steal time"),
    (6, "PV EOI"),
    (7, "PV unhalt"),
    (9, "PV TLB flush"),
    (11, "PV IPIs"),
    (12, "poll control"),
    (13, "PV sched-yield"),
];

/// How the processor is shared with guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Virtualization {
    /// Intel VT-x.
    Vmx,
    /// AMD-V.
    Svm,
    /// Pagetable-based: guest ring 3 runs natively, guest ring 0 is emulated (module `kvm_pvm`).
    Pvm,
    /// KVM works and its kind cannot be told from sysfs and CPUID.
    Unknown,
}

impl fmt::Display for Virtualization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vmx => "VMX",
            Self::Svm => "SVM",
            Self::Pvm => "kvm_pvm",
            Self::Unknown => "unknown",
        })
    }
}

/// Why `/dev/kvm` cannot be used: one sentence that names the thing and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The device node is absent.
    #[error("/dev/kvm does not exist: load kvm_intel or kvm_amd, or enable nested virtualization in the host above")]
    Missing,
    /// The device node is there and may not be opened.
    #[error("/dev/kvm may not be opened by uid {uid}: add the user to the group that owns it (often 'kvm')")]
    Permission {
        /// Effective user id.
        uid: u32,
    },
    /// The device node is there and cannot be opened for another reason.
    #[error("/dev/kvm cannot be opened: {reason}")]
    Open {
        /// The system's words.
        reason: String,
    },
    /// Something else is behind the name.
    #[error("/dev/kvm is not KVM: KVM_GET_API_VERSION answers {reason}")]
    NotKvm {
        /// The system's words.
        reason: String,
    },
    /// A KVM of another API.
    #[error("/dev/kvm speaks KVM API version {version}; this program needs version {KVM_API_VERSION}")]
    ApiVersion {
        /// What it answered.
        version: i32,
    },
    /// A needed capability is absent.
    #[error("/dev/kvm lacks {what}")]
    Capability {
        /// The capability's name and what it is for.
        what: &'static str,
    },
    /// No VM can be created.
    #[error("KVM_CREATE_VM fails: {reason}; another hypervisor may hold the processor's virtualization")]
    CreateVm {
        /// The system's words.
        reason: String,
    },
}

/// What a usable `/dev/kvm` offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// How the processor is shared.
    pub virtualization: Virtualization,
    /// vCPUs a VM that KVM recommends at most.
    pub vcpus_recommended: usize,
    /// vCPUs a VM that KVM allows at most.
    pub vcpus_max: usize,
    /// Useful capabilities that are missing, by name.
    pub missing_useful: Vec<&'static str>,
    /// Pause-loop exits: parameters of the vendor module where they can be read.
    pub ple: Vec<(String, u64)>,
    /// KVM can have the interrupt controller in the kernel; the lab's own guest does without.
    pub irqchip: bool,
    /// Paravirtual features that KVM offers to guests, by name; the lab's own guest uses none of them.
    pub pv_features: Vec<&'static str>,
}

impl Offer {
    /// True where the processor itself exits after a loop of PAUSE, as far as the module's parameters tell.
    #[must_use]
    pub fn has_ple(&self) -> bool {
        self.ple.iter().any(|(name, value)| matches!(name.as_str(), "ple_gap" | "pause_filter_count") && *value != 0)
    }
}

/// What this host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// CPUs that this process may use, ascending.
    pub cpus: Vec<u32>,
    /// What KVM offers, or why it cannot be used.
    pub kvm: Result<Offer, Unusable>,
}

/// Looks at the host.
#[must_use]
pub fn probe() -> Probe {
    Probe { cpus: allowed_cpus(), kvm: open_kvm().and_then(|kvm| offer(&kvm)) }
}

/// The CPUs that the calling thread may use, ascending.
#[must_use]
pub fn allowed_cpus() -> Vec<u32> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| rustix::thread::CpuSet::new());
    let limit = u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u32::MAX);
    (0..limit).filter(|cpu| usize::try_from(*cpu).is_ok_and(|cpu| set.is_set(cpu))).collect()
}

/// Opens KVM and checks that it is one that we can use, with the exact reason if not.
///
/// # Errors
/// The reason.
pub fn open_kvm() -> Result<KvmDevice, Unusable> {
    open_kvm_at(KVM_PATH)
}

fn open_kvm_at(path: &str) -> Result<KvmDevice, Unusable> {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Unusable::Missing,
        ErrorKind::PermissionDenied => Unusable::Permission { uid: rustix::process::geteuid().as_raw() },
        _ => match e.raw_os_error() {
            // A device node whose driver is absent.
            Some(libc::ENODEV | libc::ENXIO) => Unusable::Missing,
            _ => Unusable::Open { reason: e.to_string() },
        },
    })?;
    // SAFETY: the descriptor is a fresh one of ours, given away here. Unsafe because `KvmDevice` closes it when it is
    // dropped. If it is no KVM device, the ioctls below fail with ENOTTY and nothing else happens.
    let kvm = unsafe { std::os::fd::FromRawFd::from_raw_fd(std::os::fd::IntoRawFd::into_raw_fd(file)) };
    check(kvm)
}

fn check(kvm: KvmDevice) -> Result<KvmDevice, Unusable> {
    match kvm.get_api_version() {
        KVM_API_VERSION => {}
        -1 => return Err(Unusable::NotKvm { reason: std::io::Error::last_os_error().to_string() }),
        version => return Err(Unusable::ApiVersion { version }),
    }
    if let Some((_, what)) = NEEDED.iter().find(|(cap, _)| !kvm.check_extension(*cap)) {
        return Err(Unusable::Capability { what });
    }
    kvm.create_vm().map_err(|e| Unusable::CreateVm { reason: e.to_string() })?;
    Ok(kvm)
}

fn offer(kvm: &KvmDevice) -> Result<Offer, Unusable> {
    Ok(Offer {
        virtualization: virtualization_here(),
        vcpus_recommended: kvm.get_nr_vcpus(),
        vcpus_max: kvm.get_max_vcpus(),
        missing_useful: USEFUL.iter().filter(|(cap, _)| !kvm.check_extension(*cap)).map(|(_, what)| *what).collect(),
        ple: ple_parameters(Path::new("/sys/module")),
        irqchip: kvm.check_extension(Cap::Irqchip),
        pv_features: pv_features(kvm),
    })
}

/// None where KVM does not tell.
fn pv_features(kvm: &KvmDevice) -> Vec<&'static str> {
    let Ok(cpuid) = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES) else { return Vec::new() };
    let eax = cpuid.as_slice().iter().find(|entry| entry.function == KVM_CPUID_FEATURES).map_or(0, |entry| entry.eax);
    PV_FEATURES.iter().filter(|(bit, _)| eax >> bit & 1 == 1).map(|(_, name)| *name).collect()
}

/// The kind of virtualization of this host.
pub(crate) fn virtualization_here() -> Virtualization {
    virtualization(Path::new("/sys/module"))
}

/// The vendor module that is loaded decides; where KVM is built in (no reference counts in sysfs), CPUID does.
fn virtualization(modules: &Path) -> Virtualization {
    let loaded = |module: &str| modules.join(module).exists();
    if loaded("kvm_pvm") {
        return Virtualization::Pvm;
    }
    let cpuid_vmx = std::arch::x86_64::__cpuid(1).ecx & (1 << 5) != 0;
    let cpuid_svm = std::arch::x86_64::__cpuid(0x8000_0000).eax >= 0x8000_0001
        && std::arch::x86_64::__cpuid(0x8000_0001).ecx & (1 << 2) != 0;
    match (loaded("kvm_intel") || cpuid_vmx, loaded("kvm_amd") || cpuid_svm) {
        (true, false) => Virtualization::Vmx,
        (false, true) => Virtualization::Svm,
        _ => Virtualization::Unknown,
    }
}

fn ple_parameters(modules: &Path) -> Vec<(String, u64)> {
    let names = [
        ("kvm_intel", "ple_gap"),
        ("kvm_intel", "ple_window"),
        ("kvm_amd", "pause_filter_count"),
        ("kvm_amd", "pause_filter_thresh"),
    ];
    names
        .iter()
        .filter_map(|(module, name)| {
            let text = fs::read_to_string(modules.join(module).join("parameters").join(name)).ok()?;
            Some(((*name).to_owned(), text.trim().parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_be_unusable_has_its_own_sentence() {
        assert_eq!(open_kvm_at("/dev/absent-kvm").unwrap_err(), Unusable::Missing);
        assert!(matches!(open_kvm_at("/dev/null").unwrap_err(), Unusable::NotKvm { .. }));
        assert!(matches!(open_kvm_at("/").unwrap_err(), Unusable::Open { .. }));
    }

    #[test]
    fn the_module_names_the_kind_and_its_pause_parameters() {
        let sys = tempfile::tempdir().unwrap();
        let parameters = sys.path().join("kvm_intel/parameters");
        fs::create_dir_all(&parameters).unwrap();
        fs::write(parameters.join("ple_gap"), "128\n").unwrap();
        assert_eq!(ple_parameters(sys.path()), [("ple_gap".to_owned(), 128)]);
        fs::create_dir(sys.path().join("kvm_pvm")).unwrap();
        assert_eq!(virtualization(sys.path()), Virtualization::Pvm);
    }
}
