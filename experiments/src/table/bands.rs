//! COST and WHY of a run: its metrics as columns, a row a mode. What they are stands in [`plan::metric`].

use std::fmt::Write;

use plan::RunRecord;
use plan::metric::{self, Family, METRICS};

use super::words;

/// A column: a metric under a short heading.
pub(super) struct Narrow {
    pub(super) head: [&'static str; 2],
    id: &'static str,
}

impl Narrow {
    /// The value of one run.
    pub(super) fn value(&self, run: &RunRecord) -> Option<f64> {
        metric::find(self.id)?.value(run)
    }

    /// How a value is shown.
    pub(super) fn show(&self, value: f64) -> String {
        words::value(metric::find(self.id).map_or("", |metric| &*metric.unit), Some(value))
    }
}

const fn column(first: &'static str, second: &'static str, id: &'static str) -> Narrow {
    Narrow { head: [first, second], id }
}

/// What a mode pays: fairness, the neighbours' wait, time, switches.
pub(super) const COST: &[Narrow] = &[
    column("fairness", "(Jain)", "fairness_jain"),
    column("VM min", "/max", "vm_min_max"),
    column("CPU share", "least", "vm_share_min"),
    column("", "most", "vm_share_max"),
    column("runq wait", "p99", "runqueue_wait_p99"),
    column("CPU time", "/record", "cpu_ns_per_record"),
    column("forced", "idle", "forced_idle"),
    column("switches", "/s", "switches_per_s"),
    column("migra-", "tions/s", "migrations_per_s"),
    column("gang", "IPIs/s", "gang_ipis_per_s"),
    column("exits", "/s", "exits_per_s"),
];

/// What a mode takes from the neighbour.
pub(super) const NEIGHBOUR: &[Narrow] = &[
    column("wake-up", "p50", "neighbour_wake_p50"),
    column("", "p99", "neighbour_wake_p99"),
    column("CPU", "share", "neighbour_share"),
];

/// The mechanism: the flush, the waiting, the gang.
pub(super) const WHY: &[Narrow] = &[
    column("flush wait", "p50", "flush_wait_p50"),
    column("", "p99", "flush_wait_p99"),
    column("guest", "waits", "guest_waits"),
    column("IPIs/", "flush", "ipis_per_flush"),
    column("marks/", "flush", "marks_per_flush"),
    column("kicks", "/s", "kicks_per_s"),
    column("yields", "/s", "yields_per_s"),
    column("runq wait", "p50", "runqueue_wait_p50"),
    column("gang", "cover", "gang_coverage"),
    column("idle", "", "idle"),
    column("round trip", "p50", "ipi_round_trip_p50"),
    column("", "p99", "ipi_round_trip_p99"),
];

/// Spinlocks of the guest: how long they are waited for, and who loses its CPU meanwhile.
pub(super) const LOCKS: &[Narrow] = &[
    column("lock wait", "p50", "lock_wait_p50"),
    column("", "p99", "lock_wait_p99"),
    column("holder", "preem./s", "lock_holder_preemptions_per_s"),
    column("waiter", "preem./s", "lock_waiter_preemptions_per_s"),
    column("halts", "/s", "lock_halts_per_s"),
    column("kicks", "/s", "lock_kicks_per_s"),
];

/// How long a flush waits for a target, by what that one did when the interrupt was sent.
pub(super) const ACKS: &[Narrow] = &[
    column("ack p50", "running", "flush_ack_running_p50"),
    column("", "preempted", "flush_ack_preempted_p50"),
    column("", "halted", "flush_ack_halted_p50"),
    column("", "irqs off", "flush_ack_halted_irqs_off_p50"),
    column("", "idle", "flush_ack_idle_p50"),
];

/// Every metric in words, by band: what `vmmlab list` prints.
#[must_use]
pub fn legend() -> String {
    let mut text = String::new();
    for family in Family::ALL {
        for metric in METRICS.iter().filter(|metric| metric.family == family) {
            let what =
                format!("  {:<7} {:<29} {} ({})", family.name(), metric.id, metric.text, metric.direction.words());
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", super::grid::wrap(&what, 40));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_metric_of_its_band() {
        let bands = [
            (COST, Family::Cost),
            (NEIGHBOUR, Family::Cost),
            (WHY, Family::Why),
            (LOCKS, Family::Why),
            (ACKS, Family::Why),
        ];
        for (columns, family) in bands {
            for column in columns {
                assert_eq!(metric::find(column.id).map(|metric| metric.family), Some(family), "{}", column.id);
            }
        }
    }
}
