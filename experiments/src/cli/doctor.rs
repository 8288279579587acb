//! `vmmlab doctor`: what this host offers, and what will be missing. Looks, and leaves no trace.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::Args;
use plan::{CpuList, Mode};
use serde::Serialize;
use vmm::cgroup::RunCgroup;
use vmm::probe::{self, Offer, Unusable, Virtualization};

use super::limits::{Limit, limits};
use super::{Format, print};
use crate::exit::{Error, Exit};
use crate::host::Fingerprint;
use crate::table::grid;

/// The load that the limits are held against: the main example, eight 8-vCPU guests.
const EXAMPLE_VMS: u32 = 8;
const EXAMPLE_VCPUS: u32 = 8;

/// Parameters of the KVM modules that change how guests run.
const PARAMETERS: &[&str] = &[
    "kvm.halt_poll_ns",
    "kvm_amd.npt",
    "kvm_amd.avic",
    "kvm_amd.nested",
    "kvm_amd.pause_filter_count",
    "kvm_amd.pause_filter_thresh",
    "kvm_intel.ept",
    "kvm_intel.enable_apicv",
    "kvm_intel.nested",
    "kvm_intel.ple_gap",
    "kvm_intel.ple_window",
];

/// Options of `vmmlab doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// What is printed on stdout
    #[arg(long, value_enum, value_name = "table|json", default_value = "table", hide_possible_values = true)]
    format: Format,
}

/// How good a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Ok,
    /// It works, with something missing.
    Limited,
    /// It does not work.
    Missing,
}

#[derive(Debug, Serialize)]
struct Finding {
    topic: &'static str,
    state: State,
    text: String,
}

pub(super) fn doctor(args: &DoctorArgs) -> Result<Exit, Error> {
    let probe = probe::probe();
    let [files, signals] = limits(EXAMPLE_VMS, EXAMPLE_VCPUS);
    let findings = [
        host(),
        cpus(&probe.cpus),
        kvm(&probe.kvm),
        in_kernel(&probe.kvm),
        ple(&probe.kvm),
        cgroups(),
        limit("files", &files),
        limit("signals", &signals),
        noise(probe.cpus.len()),
    ];
    print(&match args.format {
        Format::Table => page(&findings),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&findings).unwrap_or_default()),
    })?;
    Ok(if probe.kvm.is_ok() { Exit::Ok } else { Exit::Unsupported })
}

fn page(findings: &[Finding]) -> String {
    let mut page = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "MISSING",
        };
        let text = format!("{:<8} {state:<8} {}", finding.topic, finding.text);
        // Writing to a String cannot fail.
        let _ = writeln!(page, "{}", grid::wrap(&text, 18));
    }
    page
}

fn host() -> Finding {
    let found = Fingerprint::read(Path::new("/"));
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".into());
    let text = format!(
        "{}, Linux {}, CPUs {} online",
        or_unknown(found.cpu),
        or_unknown(found.kernel),
        or_unknown(found.cpus_online)
    );
    Finding { topic: "host", state: State::Ok, text }
}

fn cpus(allowed: &[u32]) -> Finding {
    let list = CpuList::new(allowed.to_vec()).map_or_else(|| "none".into(), |list| list.to_string());
    let (state, note) = match allowed.len() {
        0 => (State::Missing, "; see taskset(1)"),
        1 => (State::Limited, "; on one CPU no two vCPUs run at once: gangs and pinning mean nothing"),
        2..8 => (State::Limited, "; a gang of 8 vCPUs cannot run at once, see --vcpus and --gang-cpus"),
        _ => (State::Ok, ""),
    };
    Finding { topic: "CPUs", state, text: format!("this process may use {list}{note}") }
}

fn kvm(kvm: &Result<Offer, Unusable>) -> Finding {
    let (state, text) = match kvm {
        Err(reason) => (State::Missing, format!("{reason}; no guest can run here")),
        Ok(offer) => {
            let kind = match offer.virtualization {
                Virtualization::Vmx | Virtualization::Svm => "the processor runs guests",
                Virtualization::Pvm => {
                    "guest ring 3 runs natively, ring 0 is emulated: exits and interrupts cost more than on VMX or SVM"
                }
                Virtualization::Unknown => "its kind cannot be told",
            };
            let missing: String = offer.missing_useful.iter().map(|what| format!("; without {what}")).collect();
            let state = match offer.virtualization {
                Virtualization::Vmx | Virtualization::Svm if missing.is_empty() => State::Ok,
                _ => State::Limited,
            };
            let (virt, most) = (offer.virtualization, offer.vcpus_max);
            (state, format!("/dev/kvm is usable, {virt}: {kind}; up to {most} vCPUs a VM{missing}"))
        }
    };
    Finding { topic: "KVM", state, text }
}

/// What KVM does in the kernel, and how its modules were loaded.
fn in_kernel(kvm: &Result<Offer, Unusable>) -> Finding {
    const TOPIC: &str = "kernel";
    let Ok(offer) = kvm else { return Finding { topic: TOPIC, state: State::Missing, text: "needs KVM".into() } };
    let found = Fingerprint::read(Path::new("/")).kvm_parameters;
    let parameters: Vec<_> =
        PARAMETERS.iter().filter_map(|name| Some(format!("{name}={}", found.get(*name)?))).collect();
    let or_none = |list: String| if list.is_empty() { "none".to_owned() } else { list };
    let text = format!(
        "{} in-kernel irqchip; paravirtual for Linux guests: {}; module parameters: {}",
        if offer.irqchip { "an" } else { "no" },
        or_none(offer.pv_features.join(", ")),
        or_none(parameters.join(" "))
    );
    Finding { topic: TOPIC, state: State::Ok, text }
}

fn ple(kvm: &Result<Offer, Unusable>) -> Finding {
    let text = match kvm {
        Err(_) => return Finding { topic: "PLE", state: State::Missing, text: "needs KVM".into() },
        Ok(offer) if offer.has_ple() => {
            let parameters: Vec<_> = offer.ple.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let text = format!("pause-loop exits: {}; every mode but {} has them too", parameters.join(" "), Mode::Ple);
            return Finding { topic: "PLE", state: State::Ok, text };
        }
        Ok(_) => format!("no pause-loop exits; mode {} has the guest tell the host of its spinning instead", Mode::Ple),
    };
    Finding { topic: "PLE", state: State::Limited, text }
}

/// Makes a run's cgroups and removes them: the only sure answer.
fn cgroups() -> Finding {
    let (state, text) = match RunCgroup::create(None, 1, 0, true) {
        Ok(made) => {
            let home = made.path().parent().unwrap_or(made.path()).display().to_string();
            (State::Ok, format!("gangs are threaded cgroups below {home}, flag user.cpu.gang"))
        }
        Err(error) => {
            let reason = Error::Cgroup(error).chain();
            (State::Limited, format!("{reason}; VMs are the gangs then, or name a delegated directory by --cgroup"))
        }
    };
    Finding { topic: "cgroups", state, text }
}

fn limit(topic: &'static str, limit: &Limit) -> Finding {
    let have = limit.have.map_or_else(|| "unlimited".into(), |n| n.to_string());
    let advice = if limit.enough() { String::new() } else { format!("; ulimit -{} raises it", limit.ulimit) };
    let Limit { what, need, .. } = limit;
    let text = format!("{have} {what}; {EXAMPLE_VMS} VMs x {EXAMPLE_VCPUS} vCPUs need about {need}{advice}");
    Finding { topic, state: if limit.enough() { State::Ok } else { State::Limited }, text }
}

/// What else wants the CPUs now.
fn noise(cpus: usize) -> Finding {
    let load = fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(' ').next().and_then(|first| first.parse::<f64>().ok()));
    let (state, text) = match load {
        Some(load) if load > 0.5 => {
            (State::Limited, format!("load {load:.1} on {cpus} CPUs: others take their share, intervals will be wide"))
        }
        Some(load) => (State::Ok, format!("load {load:.1} on {cpus} CPUs")),
        None => (State::Limited, "unknown".into()),
    };
    Finding { topic: "noise", state, text }
}
