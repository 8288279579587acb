//! What an experiment does not measure: said on every page, because a figure is quoted further than its limits.

use plan::{RunStatus, Workload};

use crate::result::ResultFile;

/// Sentences, the most general ones last.
pub(super) fn sentences(result: &ResultFile) -> Vec<String> {
    let mut said = Vec::new();
    let mut workloads: Vec<Workload> = result.experiment.plans.iter().map(|plan| plan.workload).collect();
    workloads.dedup();
    for workload in workloads {
        let about = workload.about();
        said.push(format!("What {workload} does: {}. What it says nothing about: {}.", about.text, about.caveat));
        said.extend(reading(workload).map(str::to_owned));
    }
    said.extend(engine(result));
    said.extend(runs(result));
    let inject = result.experiment.plans.iter().find_map(|plan| plan.inject);
    said.extend(
        inject
            .map(|fault| format!("A fault was put in on purpose ({fault}): no figure here is one of a whole system.")),
    );
    said.push(
        "It is about this host, this load and these settings. Another number of VMs, another slice or another processor is \
         another experiment."
            .into(),
    );
    said.push("The blocks are the repetitions; the seconds, VMs and vCPUs inside a run are not.".into());
    said
}

/// How its figures are easily misread.
fn reading(workload: Workload) -> Option<&'static str> {
    match workload {
        Workload::Ebizzy => Some(
            "ebizzy flushes far more often than most programs: it shows the largest gain that a remedy for flushes can have, not \
             the usual one.",
        ),
        Workload::Ipi => Some(
            "No program does nothing but interrupt: its figures are prices of one interrupt, not gains of programs.",
        ),
        Workload::Flush | Workload::TlbStorm => {
            Some("No program does nothing but flush: its ratios are prices of one flush, not gains of programs.")
        }
        Workload::Spinlock => {
            Some("No program does nothing but lock: its ratios are the worst case, not gains of programs.")
        }
        Workload::Gup => {
            Some("It is a test of safety, not a benchmark: what counts is that no walk finds its frame reused.")
        }
        Workload::Hackbench | Workload::Kernbench | Workload::Specjbb | Workload::Dbench => None,
    }
}

fn engine(result: &ResultFile) -> Option<String> {
    match result.engine.as_str() {
        "sim" => Some(
            "It was simulated: guests are models, costs come from the machine's description. It answers in which direction a \
             remedy works and why; by how much, only a real host can say."
                .into(),
        ),
        "kvm" if result.host.kvm.as_deref().is_some_and(|kind| kind.contains("pvm")) => Some(
            "The host's KVM is kvm_pvm: guest page faults and exits cost more than with hardware virtualization, so remedies that \
             avoid exits gain more here, and those that add exits lose more."
                .into(),
        ),
        _ => None,
    }
}

fn runs(result: &ResultFile) -> Option<String> {
    let failed = result.runs.iter().filter(|run| run.status == RunStatus::Failed).count();
    let mut text = String::new();
    if result.summary.len() < 2 {
        text.push_str("There is only one mode, so nothing is compared. ");
    }
    if failed > 0 {
        text.push_str(&format!(
            "{failed} runs failed their own checks; their figures are in no average and no chart. "
        ));
    }
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}
