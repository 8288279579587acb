//! The fingerprint: which host a result comes from, so that unlike things are not compared unawares.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What decides results on a host. Whatever cannot be read is absent, never guessed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// Processor model, as the kernel names it.
    pub cpu: Option<String>,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// CPUs online, as a list.
    pub cpus_online: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// How KVM virtualizes: `VMX`, `SVM`, `kvm_pvm`; absent without a usable KVM.
    pub kvm: Option<String>,
    /// `module.parameter` of the KVM modules.
    pub kvm_parameters: BTreeMap<String, String>,
    /// Topology in its normal form.
    pub topology: Option<String>,
    /// SHA-256 of the guest image.
    pub guest_digest: Option<String>,
}

impl Fingerprint {
    /// Reads what files tell, below `root` (`/`, or a test's tree).
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned());
        let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let (_, value) = cpuinfo.lines().filter_map(|l| l.split_once(':')).find(|(key, _)| key.trim() == name)?;
            Some(value.trim().to_owned())
        };
        Self {
            cpu: field("model name"),
            microcode: field("microcode"),
            cpus_online: text("sys/devices/system/cpu/online"),
            kernel: text("proc/sys/kernel/osrelease"),
            kvm_parameters: kvm_parameters(&root.join("sys/module")),
            ..Self::default()
        }
    }
}

/// Every readable parameter of every module whose name starts with `kvm`.
fn kvm_parameters(modules: &Path) -> BTreeMap<String, String> {
    let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found = BTreeMap::new();
    for module in list(modules).filter(|m| m.file_name().to_string_lossy().starts_with("kvm")) {
        for parameter in list(&module.path().join("parameters")) {
            if let Ok(value) = fs::read_to_string(parameter.path()) {
                let [module, name] = [&module, &parameter].map(|e| e.file_name().to_string_lossy().into_owned());
                found.insert(format!("{module}.{name}"), value.trim().to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_absent() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Lab CPU @ 2.4GHz\n\nprocessor\t: 1\n");
        write("sys/module/kvm/parameters/halt_poll_ns", "200000\n");
        write("sys/module/other/parameters/x", "1\n");
        let found = Fingerprint::read(root.path());
        assert_eq!(found.cpu.as_deref(), Some("Lab CPU @ 2.4GHz"));
        assert_eq!(found.kvm_parameters, BTreeMap::from([("kvm.halt_poll_ns".into(), "200000".into())]));
        assert_eq!((found.microcode, found.kernel), (None, None));
    }
}
