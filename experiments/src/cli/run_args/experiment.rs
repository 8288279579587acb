//! The experiment that the options of `vmmlab run` describe.
//!
//! ```text
//!   --mode base,gang+pin=no  --vms 1,4  --flush on-enter  --lock pv
//!            │                  │             │                └─ the same for all, no row is named after it
//!            │                  │             └─ an axis: changes every mode, and its name
//!            └──── times ───────┘
//!   rows:  base+flush=on-enter+vms=1, gang+flush=on-enter+pin=no+vms=1, ... +vms=4, ... +vms=4
//!            └─ each becomes a RunPlan, which says whether it can be run; Experiment: these plans, so many blocks, a seed
//! ```
//! What one option alone can have has been checked by its parser; here is what only several of them, or the host, can
//! tell. What a plan may hold is checked by [`RunPlan::validate`], which names the options too.

use plan::{CpuList, HostPolicy, RunPlan, Sched, WorkloadParams};

use super::RunArgs;
use crate::exit::Error;
use crate::experiment::{Experiment, Metrics};
use crate::row::{Overrides, Row};
use crate::units::{Seed, Time};

impl RunArgs {
    /// The experiment that these options describe on a host whose CPUs `allowed` (ascending) may be used.
    ///
    /// # Errors
    /// One sentence that names the flag, the value and what would be right.
    pub fn experiment(&self, allowed: &[u32]) -> Result<Experiment, Error> {
        let pcpus = self.pcpus(allowed)?;
        let Self { host_policy, flush, spin, pin, .. } = *self;
        // Not `lock` and `sched`: they are the same for all modes, and no row is named after them.
        let given = Overrides { host_policy, flush, spin, pin, lock: None, sched: None, vms: None };
        let mut plans: Vec<RunPlan> = Vec::new();
        for (asked, vms) in self.rows()? {
            let row = Row { mode: asked.mode, overrides: given.or(asked.overrides) };
            let axes = row.axes().map_err(|e| Error::Usage(format!("--mode {asked}: {e}")))?;
            let mode = row.to_string();
            if plans.iter().any(|plan| plan.mode == mode) {
                return Err(Error::Usage(format!("--mode names '{mode}' twice; name each mode once")));
            }
            let sched = asked.overrides.sched.unwrap_or(self.sched);
            if sched == Sched::Host && axes.host_policy != HostPolicy::Cfs {
                let policy = axes.host_policy;
                return Err(Error::Usage(format!(
                    "--sched host has no host policy '{policy}' (mode {mode}): leave the mode out, or use --sched lab"
                )));
            }
            let lock = asked.overrides.lock.unwrap_or(self.lock);
            plans.push(RunPlan { sched, lock, ..self.plan(mode, axes, &pcpus, vms)? });
        }
        for plan in &plans {
            plan.validate()?;
        }
        if !(1..=Experiment::BLOCKS_MAX).contains(&self.blocks) {
            let (given, max) = (self.blocks, Experiment::BLOCKS_MAX);
            return Err(Error::Usage(format!("--blocks {given} is out of range: it takes 1 to {max}")));
        }
        if let Some(cgroup) = self.cgroup.as_deref().filter(|dir| !dir.is_dir()) {
            let dir = cgroup.display();
            return Err(Error::Usage(format!(
                "--cgroup {dir} is no directory; name a cgroup v2 directory delegated to you"
            )));
        }
        let seed = self.seed.unwrap_or_else(Seed::random);
        let (name, metrics) = ("run".into(), Metrics::default());
        Ok(Experiment { name, plans, blocks: self.blocks, seed: seed.0, simulated: None, metrics })
    }

    /// The rows with their numbers of VMs: all modes with the first number, then with the next; last those that have one of
    /// their own. Where there are several numbers, a row is named after its own.
    fn rows(&self) -> Result<Vec<(Row, u32)>, Error> {
        if let Some((_, twice)) = self.vms.iter().enumerate().find(|(at, vms)| self.vms[..*at].contains(vms)) {
            return Err(Error::Usage(format!("--vms names {twice} twice; name each number once")));
        }
        let several = self.vms.len() > 1;
        let (own, common): (Vec<Row>, Vec<Row>) = self.mode.iter().partition(|row| row.overrides.vms.is_some());
        let named = |row: &Row, vms| {
            let overrides = Overrides { vms: several.then_some(vms).or(row.overrides.vms), ..row.overrides };
            (Row { overrides, ..*row }, vms)
        };
        let common = self.vms.iter().flat_map(|vms| common.iter().map(|row| named(row, *vms)));
        Ok(common.chain(own.iter().filter_map(|row| Some((*row, row.overrides.vms?)))).collect())
    }

    fn pcpus(&self, allowed: &[u32]) -> Result<CpuList, Error> {
        let all = CpuList::new(allowed.to_vec())
            .ok_or_else(|| Error::Usage("this process may use no CPU at all; see taskset(1)".into()))?;
        let Some(asked) = &self.pcpus else { return Ok(all) };
        match asked.as_slice().iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(asked.clone()),
            Some(cpu) => Err(Error::Usage(format!(
                "--pcpus {asked}: CPU {cpu} is not there for this process; it may use CPUs {all}"
            ))),
        }
    }

    fn params(&self) -> Result<WorkloadParams, Error> {
        let mut params = WorkloadParams {
            chunk_pages: self.chunk_pages,
            search_passes: self.search_passes,
            flush_per_mille: self.flush_per_mille,
            threads_per_vcpu: self.threads_per_vcpu,
            ..WorkloadParams::default()
        };
        for (name, value) in &self.param {
            params.set(name, *value).map_err(|e| Error::Usage(format!("--param {name}={value}: {e}")))?;
            if !self.workload.params().any(|info| info.id == name) {
                let (workload, has): (_, Vec<_>) =
                    (self.workload, self.workload.params().map(|info| info.id).collect());
                let has = has.join(", ");
                return Err(Error::Usage(format!(
                    "--param {name}={value}: workload {workload} does not read it; it has {has}"
                )));
            }
        }
        Ok(params)
    }

    fn plan(&self, mode: String, axes: plan::Axes, pcpus: &CpuList, vms: u32) -> Result<RunPlan, Error> {
        let cpus = u32::try_from(pcpus.as_slice().len()).unwrap_or(u32::MAX);
        let [sched_latency_ns, sched_min_granularity_ns] = match self.slice {
            None => [self.sched_latency, self.sched_min_granularity].map(|time| time.map(|t| t.ns)),
            Some(slice) => {
                let vcpus_per_cpu = (u64::from(vms) * u64::from(self.vcpus)).div_ceil(cpus.into()).max(1);
                let longest = Time { ns: 1_000_000_000 / vcpus_per_cpu };
                let shortest = Time { ns: 100_000 };
                if slice < shortest || slice > longest {
                    return Err(Error::Usage(format!(
                        "--slice {slice} is out of range: with {vcpus_per_cpu} vCPUs per CPU it takes {shortest} to \
                         {longest}"
                    )));
                }
                [Some(slice.ns * vcpus_per_cpu), Some(slice.ns)]
            }
        };
        Ok(RunPlan {
            mode,
            axes,
            vms,
            vcpus: self.vcpus,
            pcpus: pcpus.clone(),
            sched: self.sched,
            gang_cpus: self.gang_cpus.unwrap_or(cpus.min(8)),
            hz: self.hz,
            sched_latency_ns,
            sched_min_granularity_ns,
            sched_wakeup_granularity_ns: self.sched_wakeup_granularity.map(|t| t.ns),
            ple_window_cycles: self.ple_window,
            spin_budget: self.spin_budget,
            duration_ns: self.duration.ns,
            warmup_ns: self.warmup.ns,
            workload: self.workload,
            params: self.params()?,
            lock: self.lock,
            neighbour: self.neighbour,
            inject: self.inject,
            seed: 0,
            block: 0,
            cgroup: self.cgroup.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use plan::{Flush, Spin};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    fn experiment(args: &str) -> Result<Experiment, String> {
        let cli = Cli::try_parse_from(["run"].into_iter().chain(args.split_whitespace())).map_err(|e| e.to_string())?;
        cli.run.experiment(&[0, 1, 4, 5]).map_err(|e| e.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let found = experiment("").unwrap();
        let modes: Vec<_> = found.plans.iter().map(|p| p.mode.as_str()).collect();
        assert_eq!(modes, ["base", "gang", "pvflush", "ple"]);
        let plan = &found.plans[0];
        assert_eq!((plan.vms, plan.vcpus, plan.hz, found.blocks), (2, 8, 1000, 8));
        assert_eq!((plan.duration_ns, plan.warmup_ns), (3_000_000_000, 500_000_000));
        assert_eq!((plan.gang_cpus, plan.pcpus.to_string()), (4, "0-1,4-5".into()));
        assert_eq!((plan.sched_latency_ns, plan.sched_min_granularity_ns), (None, None));
    }

    #[test]
    fn a_slice_sets_latency_and_granularity_for_the_load() {
        let plan = &experiment("--vms 2 --vcpus 8 --pcpus 0-1 --slice 4ms").unwrap().plans[0];
        assert_eq!(plan.sched_min_granularity_ns, Some(4_000_000));
        assert_eq!(plan.sched_latency_ns, Some(32_000_000));
    }

    #[test]
    fn an_axis_flag_renames_the_modes_that_it_changes() {
        let found = experiment("--mode base,pvflush,gang+pin=no --flush on-enter").unwrap();
        let modes: Vec<_> = found.plans.iter().map(|p| p.mode.as_str()).collect();
        assert_eq!(modes, ["base+flush=on-enter", "pvflush+flush=on-enter", "gang+flush=on-enter+pin=no"]);
        assert!(found.plans.iter().all(|p| p.axes.flush == Flush::OnEnter && p.axes.spin == Spin::Busy));
    }

    #[test]
    fn several_numbers_of_vms_are_rows_of_their_own() {
        let found = experiment("--vms 1,4 --mode base,gang").unwrap();
        let rows: Vec<_> = found.plans.iter().map(|p| (p.mode.as_str(), p.vms)).collect();
        assert_eq!(rows, [("base+vms=1", 1), ("gang+vms=1", 1), ("base+vms=4", 4), ("gang+vms=4", 4)]);
        assert_eq!(found.bands(), [1, 4]);
        let found = experiment("--vms 1 --mode base,base+vms=3").unwrap();
        let rows: Vec<_> = found.plans.iter().map(|p| (p.mode.as_str(), p.vms)).collect();
        assert_eq!(rows, [("base", 1), ("base+vms=3", 3)]);
    }

    #[test]
    fn bad_input_is_one_sentence_with_flag_value_and_what_would_be_right() {
        for (args, wants) in [
            ("--vms 0", ["--vms 0", "1 to 256"]),
            ("--vms 1,2,1", ["--vms names 1 twice", "each number once"]),
            ("--vms 1,2 --mode base,base+vms=2", ["'base+vms=2' twice", "each mode once"]),
            ("--vms 1,300", ["--vms 300", "1 to 256"]),
            ("--vms 4000000000", ["--vms 4000000000", "1 to 256"]),
            ("--vcpus 65", ["--vcpus 65", "1 to 64"]),
            ("--vms 256 --vcpus 64", ["--vms 256 x --vcpus 64", "more than 4096"]),
            ("--vms=-1", ["'-1' for '--vms", "whole number"]),
            ("--blocks 0", ["--blocks 0", "1 to 1000"]),
            ("--hz 1", ["--hz 1", "10 to 10000"]),
            ("--pcpus 0-3", ["--pcpus 0-3: CPU 2", "may use CPUs 0-1,4-5"]),
            ("--pcpus 3-0", ["'3-0'", "smaller CPU first"]),
            ("--mode gnag", ["'gnag'", "did you mean 'gang'?"]),
            ("--mode base,base", ["'base' twice", "each mode once"]),
            ("--mode base --spin halt", ["--mode base: --flush ipi", "'busy' or 'ple'"]),
            ("--duration 100ms", ["--duration 100ms", "--warmup of 500ms"]),
            ("--duration 3", ["'3' for '--duration", "3s, 500ms or 5us"]),
            ("--sched host", ["--sched host has no host policy 'gang'", "use --sched lab"]),
            ("--slice 1s", ["--slice 1s", "100us to 250ms"]),
            ("--slice 1ms --sched-latency 3ms", ["--slice", "cannot be used with '--sched-latency"]),
            ("--sched-latency 1us", ["--sched-latency 1us", "100us to 1s"]),
            ("--flush-per-mille 1001", ["--flush-per-mille 1001", "0 to 1000"]),
            ("--workload ebbizy", ["'ebbizy'", "did you mean 'ebizzy'?"]),
            ("--inject lost-flsh", ["'lost-flsh'", "did you mean 'lost-flush'?"]),
            ("--workload hackbench --param gruops=2", ["'gruops'", "did you mean 'groups'?"]),
            ("--workload hackbench --param groups=65", ["--param groups 65", "1 to 64"]),
            ("--workload hackbench --param jobs=2", ["jobs=2: workload hackbench does not read it", "groups, pairs"]),
            ("--workload hackbench --param groups", ["'groups'", "write NAME=N"]),
            ("--workload hackbench --vms 256 --vcpus 1 --param groups=64", ["655360 threads", "more than 131072"]),
            ("--lock pv", ["--lock pv changes nothing in workload ebizzy", "leave it out"]),
            ("--neighbour slepeer", ["'slepeer'", "did you mean 'sleeper'?"]),
            ("--lock vp", ["'vp'", "did you mean 'pv'?"]),
            ("--cgroup /absent", ["--cgroup /absent", "delegated to you"]),
            ("--seed x", ["'x' for '--seed", "42 or 0x2a"]),
        ] {
            let error = experiment(args).unwrap_err();
            assert!(wants.iter().all(|want| error.contains(want)), "{args}: {error}");
        }
    }
}
