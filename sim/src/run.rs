//! The engine that experiments see: a plan in, a record out.
use std::collections::BTreeMap;
use std::sync::Arc;

use hostsched::Nanos;
use plan::{Control, Engine, EngineError, Failure, RunPlan, RunRecord, RunStatus, Sched};

use crate::check::broken;
use crate::fault::Fault;
use crate::machine::Machine;
use crate::observe::Watch;
use crate::record::record;
use crate::setup::Options;
use crate::traced::Tracer;
use crate::world::{EPOCH_NS, World};

/// The simulator as an engine: one machine, any number of plans.
#[derive(Debug, Clone)]
pub struct Sim {
    machine: Machine,
    options: Options,
    faults: Vec<Fault>,
    watches: Vec<Arc<dyn Watch>>,
}

impl Sim {
    /// Simulates on that machine.
    #[must_use]
    pub fn new(machine: Machine, options: Options) -> Self {
        Self { machine, options, faults: Vec::new(), watches: Vec::new() }
    }

    /// Lets these faults happen in every run.
    #[must_use]
    pub fn with_faults(self, faults: Vec<Fault>) -> Self {
        Self { faults, ..self }
    }

    /// Refuses what cannot be simulated, or not on this machine.
    ///
    /// # Errors
    /// One sentence that names the option and what would be right.
    pub fn check(&self, plan: &RunPlan) -> Result<(), EngineError> {
        plan.validate().map_err(|error| EngineError::BadPlan(error.to_string()))?;
        if plan.sched == Sched::Host {
            let why = "--sched host has no meaning in the simulator: there is no kernel below it; use --sched lab";
            return Err(EngineError::BadPlan(why.into()));
        }
        if !plan.workload.is_simulated() {
            let why = format!("workload {} walks real page tables: it needs --engine kvm", plan.workload);
            return Err(EngineError::BadPlan(why));
        }
        let missing = self.faults.iter().find_map(|fault| Some((fault, fault.missing(plan, &self.machine)?)));
        missing.map_or(Ok(()), |(fault, what)| {
            Err(EngineError::BadPlan(format!("--fault {} happens to nothing: there is no {what}", fault.written())))
        })
    }

    /// Shows every run to a sink of that observer, beside those that it has.
    #[must_use]
    pub fn watched(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watches.push(watch);
        self
    }
}

impl Engine for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run_traced(
        &self,
        plan: &RunPlan,
        control: &Control,
        limits: trace::Limits,
    ) -> Result<(RunRecord, trace::Trace), EngineError> {
        let tracer = Arc::new(Tracer::new(limits));
        let record = self.clone().watched(Arc::clone(&tracer) as _).run(plan, control)?;
        Ok((record, tracer.take().unwrap_or_default()))
    }

    fn run(&self, plan: &RunPlan, control: &Control) -> Result<RunRecord, EngineError> {
        self.check(plan)?;
        let world = World::new(&self.machine, plan, self.options);
        let mut world = world.map_err(|error| EngineError::BadPlan(error.to_string()))?;
        world.expect_faults(&self.faults);
        world.sinks = self.watches.iter().filter_map(|watch| watch.begin(plan)).collect();
        let end = world.vms.iter().map(|vm| vm.measure_to).max().unwrap_or(world.now);
        let counters = |world: &World| world.host.policy_counters(Nanos(world.now));
        let mut ended = world.run_until(world.measure_from, || control.aborted());
        let before = counters(&world);
        ended = ended && world.run_until(end, || control.aborted());
        let ended_at = world.now - EPOCH_NS;
        world.sinks.iter_mut().for_each(|sink| sink.end(ended_at));
        let broken = broken(&mut world);
        let mut policies: BTreeMap<&str, u64> = counters(&world).into_iter().collect();
        for (name, value) in before {
            if let Some(counted) = policies.get_mut(name) {
                *counted -= value;
            }
        }
        let mut record = record(&world, &self.machine, plan, &policies, ended);
        if let Some(message) = broken {
            record.status = RunStatus::Failed;
            record.failures.push(Failure { check: "invariant".into(), message });
        }
        Ok(record)
    }
}
