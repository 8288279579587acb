//! What a run of host tasks measured.
use std::collections::BTreeMap;

use plan::Control;

use super::check::broken;
use super::idle::IdleState;
use super::machine::HostMachine;
use super::new::{Setup, SetupError};
use super::world::World;

/// Counters of the measured time, all CPUs together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) switches: u64,
    pub(crate) migrations: u64,
    pub(crate) migrations_far: u64,
    pub(crate) wakeups: u64,
    pub(crate) wakeups_on_waker: u64,
    pub(crate) wakeups_other_core: u64,
    pub(crate) wakeups_far: u64,
    pub(crate) wakeups_idle: u64,
    pub(crate) wakeups_deep: u64,
    pub(crate) idle_asked: u64,
    pub(crate) idle_exits: [u64; IdleState::COUNT],
    pub(crate) idle_exit_ns: u64,
    pub(crate) refill_ns: u64,
    pub(crate) transfer_ns: u64,
    pub(crate) taken_back_ns: u64,
    pub(crate) dropped: u64,
    pub(crate) bus_wait_ns: u64,
    pub(crate) route_wait_ns: u64,
}

/// What hostsched has counted of its balancing since the start: (active balances, those that moved a task, failed idle
/// balances, tasks that balancing pulled).
type Balancing = [u64; 4];

/// What a run measured. Everything is a count or a sum of ns over the measured time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The run came to its end.
    pub ended: bool,
    /// Measured time, ns.
    pub duration_ns: u64,
    /// What the benchmark counts, all tasks together; its unit is that of [`Load::unit`](super::Load::unit).
    pub units: u64,
    /// Counters by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// Events handled.
    pub events: u64,
    /// Digest of them.
    pub digest: u64,
}

impl Outcome {
    /// A counter; 0 if there is none of that name.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

/// Runs a setup on a machine.
///
/// # Errors
/// A machine or load that cannot be simulated; an invariant that does not hold.
pub fn run(machine: &HostMachine, setup: &Setup, control: &Control) -> Result<Outcome, SetupError> {
    let mut world = World::new(machine, setup)?;
    let end = world.measure_from + setup.duration_ns;
    let mut ended = world.run_until(world.measure_from, || control.aborted());
    let before = balancing(&world);
    let busy_before = world.buses.busy();
    ended = ended && world.run_until(end, || control.aborted());
    if let Some(why) = broken(&mut world) {
        return Err(SetupError::Invariant(why));
    }
    let [active, pushed, failed, gained] = std::array::from_fn(|i| balancing(&world)[i] - before[i]);
    let [bus, memory] = std::array::from_fn(|i| world.buses.busy()[i] - busy_before[i]);
    let c = &world.counters;
    let [c1, c3, c6] = c.idle_exits;
    let counters = [
        ("switches", c.switches),
        ("migrations", c.migrations),
        ("migrations_far", c.migrations_far),
        ("wakeups", c.wakeups),
        ("wakeups_on_waker", c.wakeups_on_waker),
        ("wakeups_other_core", c.wakeups_other_core),
        ("wakeups_far", c.wakeups_far),
        ("wakeups_idle", c.wakeups_idle),
        ("wakeups_deep", c.wakeups_deep),
        ("idle_asked", c.idle_asked),
        ("idle_exits_c1", c1),
        ("idle_exits_c3", c3),
        ("idle_exits_c6", c6),
        ("idle_exit_ns", c.idle_exit_ns),
        ("refill_ns", c.refill_ns),
        ("transfer_ns", c.transfer_ns),
        ("taken_back_ns", c.taken_back_ns),
        ("dropped", c.dropped),
        ("bus_wait_ns", c.bus_wait_ns),
        ("route_wait_ns", c.route_wait_ns),
        ("bus_busy_ns", bus),
        ("memory_busy_ns", memory),
        ("active_balances", active),
        ("active_balances_moved", pushed),
        ("idle_balances_failed", failed),
        ("balance_moved", gained),
    ];
    Ok(Outcome {
        ended,
        duration_ns: setup.duration_ns,
        units: world.tasks.iter().map(|task| task.units).sum(),
        counters: counters.into_iter().collect(),
        events: world.events,
        digest: world.digest,
    })
}

fn balancing(world: &World) -> Balancing {
    let mut sum = [0; 4];
    for stats in world.rqs.iter().flat_map(|rq| rq.domain_stats()) {
        sum[0] += stats.alb_count;
        sum[1] += stats.alb_pushed;
        sum[2] += stats.lb_failed[0];
        sum[3] += stats.lb_gained.iter().sum::<u64>();
    }
    sum
}
