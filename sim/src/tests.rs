//! Properties of whole runs.
use plan::{
    Axes, Control, CpuList, Engine, Flush, Inject, Mode, RunPlan, RunRecord, RunStatus, Workload, WorkloadParams,
};

use crate::Sim;
use crate::machine::tests::nonple;
use crate::machine::{COSTS, Machine};
use crate::setup::Options;

const MS: u64 = 1_000_000;

/// The published host: 8 CPUs, VMs of 8 vCPUs, ebizzy; short.
pub(crate) fn plan(mode: Mode, vms: u32) -> RunPlan {
    RunPlan {
        vms,
        pcpus: CpuList::new((0..8).collect()).unwrap(),
        gang_cpus: 8,
        duration_ns: 400 * MS,
        warmup_ns: 50 * MS,
        params: WorkloadParams {
            chunk_pages: 64,
            search_passes: 4,
            flush_per_mille: 500,
            threads_per_vcpu: 2,
            ..WorkloadParams::default()
        },
        seed: 1,
        ..RunPlan::sample(mode)
    }
}

fn run_with(plan: &RunPlan, options: Options) -> RunRecord {
    Sim::new(nonple(), options).run(plan, &Control::default()).unwrap()
}

fn run(plan: &RunPlan) -> RunRecord {
    run_with(plan, Options::default())
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    for mode in [Mode::Base, Mode::PvFlush] {
        let one = run(&plan(mode, 3));
        assert_eq!(one, run(&plan(mode, 3)));
        assert_ne!(one.counters["sim_digest"], run(&RunPlan { seed: 2, ..plan(mode, 3) }).counters["sim_digest"]);
    }
}

#[test]
fn no_safe_strategy_reads_through_an_old_translation() {
    for mode in Mode::ALL.iter().copied() {
        for vms in [1, 3] {
            let record = run(&plan(mode, vms));
            assert_eq!((record.stale_reads, record.status), (0, RunStatus::Ok), "{mode}, {vms} VMs");
            assert!(record.counters["flushes"] > 0, "{mode}");
        }
    }
}

#[test]
fn halt_kick_as_posted_is_unsafe_and_says_so() {
    let posted = Options { halt_once: true, ..Options::default() };
    let record = run_with(&plan(Mode::HaltKick, 4), posted);
    assert!(record.stale_reads > 0);
    assert_eq!((record.status, record.failures[0].check.as_str()), (RunStatus::Failed, "stale-read"));
    assert!(record.counters["flush_early_returns"] > 0);
}

#[test]
fn a_lost_flush_is_caught_in_every_strategy() {
    for mode in [Mode::Base, Mode::HaltKick, Mode::OnEnter, Mode::PvFlush] {
        let record = run(&RunPlan { inject: Some(Inject::LostFlush), ..plan(mode, 2) });
        assert_eq!(record.status, RunStatus::Failed, "{mode}");
    }
}

#[test]
fn a_gang_runs_together() {
    let coverage = |mode| run(&plan(mode, 3)).gang_coverage;
    assert_eq!(coverage(Mode::Base), None);
    let [next, gang] = [Mode::GangNext, Mode::Gang].map(|mode| coverage(mode).unwrap());
    assert!(gang > 0.5 && gang > next, "V1 {next}, V2 {gang}");
    let rate = |mode| run(&plan(mode, 3)).records_per_s;
    assert!(rate(Mode::Gang) > 2.0 * rate(Mode::Pin));
}

#[test]
fn a_spin_that_lasts_leaves_the_guest_where_the_processor_can_tell() {
    let on = |text| Sim::new(Machine::from_toml(text).unwrap(), Options::default());
    let hints = |sim: Sim| sim.run(&plan(Mode::Ple, 3), &Control::default()).unwrap().counters["spin_hints"];
    assert!(hints(on(include_str!("../../experiments/machines/ple.toml"))) > 1000);
    assert_eq!(hints(on(include_str!("../../experiments/machines/nonple.toml"))), 0);
}

#[test]
fn who_waits_for_the_sleeping_is_slow() {
    let rate = |mode| run(&plan(mode, 4)).records_per_s;
    let base = rate(Mode::Base);
    for mode in [Mode::OnEnter, Mode::PvFlush, Mode::HaltKick, Mode::Hypercall] {
        assert!(rate(mode) > 2.0 * base, "{mode} {} against base {base}", rate(mode));
    }
}

#[test]
fn without_overcommit_no_mode_costs_much() {
    let rate = |mode: Mode| run(&RunPlan { axes: Axes { pin: true, ..mode.axes() }, ..plan(mode, 1) }).records_per_s;
    let base = rate(Mode::Base);
    for mode in Mode::ALL.iter().copied() {
        assert!(rate(mode) > 0.93 * base, "{mode} {} against base {base}", rate(mode));
    }
}

#[test]
fn a_pinned_vcpu_stays_where_it_is() {
    let record = run(&plan(Mode::Pin, 3));
    assert_eq!(record.counters["migrations"], 0);
    for vm in &record.placement.last_cpu {
        assert_eq!(*vm, (0..8).collect::<Vec<_>>());
    }
}

#[test]
fn yield_on_hlt_off_burns_the_cpu_of_a_halted_vcpu() {
    let rate = |yield_on_hlt| run_with(&plan(Mode::HaltKick, 4), Options { yield_on_hlt, ..Options::default() });
    assert!(rate(false).records_per_s < rate(true).records_per_s / 2.0);
}

#[test]
fn start_offsets_are_kept_out_of_the_measured_windows() {
    let staggered = Options { stagger_ns: 400 * MS + 50 * MS, ..Options::default() };
    // Each VM starts when the one before has ended: each is alone, and as fast as one alone.
    let alone = run(&plan(Mode::Pin, 1)).vms[0].records_per_s;
    for vm in run_with(&plan(Mode::Pin, 3), staggered).vms {
        assert!((vm.records_per_s / alone - 1.0).abs() < 0.05, "{} against {alone}", vm.records_per_s);
    }
}

#[test]
fn every_machine_can_be_read_and_says_what_is_fitted() {
    for text in [
        include_str!("../../experiments/machines/nonple.toml"),
        include_str!("../../experiments/machines/ple.toml"),
        include_str!("../../experiments/machines/generic.toml"),
    ] {
        let machine = Machine::from_toml(text).unwrap();
        assert_eq!(machine.sources.len(), COSTS.len());
    }
}

/// What `--nocapture` prints is the list of cost x mode.
#[test]
fn no_cost_acts_under_one_mode_only() {
    let ple = Machine::from_toml(include_str!("../../experiments/machines/ple.toml")).unwrap();
    let digest = |machine: &Machine, workload, mode| {
        let plan = RunPlan { workload, duration_ns: 150 * MS, warmup_ns: 0, ..plan(mode, 3) };
        Sim::new(machine.clone(), Options::default()).run(&plan, &Control::default()).unwrap().counters["sim_digest"]
    };
    let workloads = [Workload::Ebizzy, Workload::Dbench, Workload::Kernbench];
    let plain =
        workloads.map(|workload| Mode::ALL.iter().map(|mode| digest(&ple, workload, *mode)).collect::<Vec<_>>());
    for info in COSTS {
        // Where it is met: ebizzy takes no locks, sleeps for no disk and forks nothing.
        let met = match info.id {
            "lock_transfer" | "lock_hold" | "io_submit" => 1,
            "guest_wake" => 2,
            _ => 0,
        };
        let (workload, plain) = (workloads[met], &plain[met]);
        // Some costs act only when they grow, some only when they shrink, through a bound of another.
        let changed = [|cost: u64| (cost * 8).max(10), |cost: u64| (cost / 8).max(1)].map(|change| {
            let mut machine = ple.clone();
            let cost = machine.costs.get_mut(info.id).unwrap();
            *cost = change(*cost);
            machine
        });
        let acts = Mode::ALL.iter().zip(plain);
        let acts =
            acts.filter(|(mode, plain)| changed.iter().any(|machine| digest(machine, workload, **mode) != **plain));
        let acts: Vec<_> = acts.map(|(mode, _)| mode.name()).collect();
        println!("{:16} {}", info.id, acts.join(" "));
        assert!(acts.len() >= 2, "{} acts under {acts:?} only", info.id);
    }
}

#[test]
fn a_plan_for_cpus_that_are_not_there_names_them() {
    let error = Sim::new(nonple(), Options::default())
        .run(&RunPlan { pcpus: CpuList::new(vec![0, 9]).unwrap(), ..plan(Mode::Base, 1) }, &Control::default())
        .unwrap_err();
    assert!(error.to_string().contains("CPU 9"), "{error}");
}

#[test]
fn a_stopped_run_is_partial() {
    let control = Control::default();
    control.abort();
    let record = Sim::new(nonple(), Options::default()).run(&plan(Mode::HaltKick, 4), &control).unwrap();
    assert_eq!(record.status, RunStatus::Partial);
}

#[test]
fn a_vm_of_one_vcpu_has_nobody_to_flush() {
    for flush in Flush::ALL {
        let mode = Mode::ALL.iter().find(|mode| mode.axes().flush == *flush).unwrap();
        let record = run(&RunPlan { vcpus: 1, pcpus: CpuList::new(vec![0]).unwrap(), ..plan(*mode, 2) });
        assert_eq!(record.counters["flush_targets"], 0);
        assert!(record.vms.iter().all(|vm| vm.records > 0));
    }
}
