//! How much load to move (`calculate_imbalance`, `fix_small_imbalance`, 3.4).
//!
//! Worked example: two CPUs, two nice-0 tasks on the other, none here. Loads 2048 and 0, average 1024. One task above
//! capacity: 1024. The other CPU can give min(2048 - 1024, 1024) = 1024 before it falls below the average, this one can
//! take 1024 - 0: move 1024, one task.
use super::power::SCALE;

/// What the two groups look like. Loads are per 1024 of power unless the name says per task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Imbalance {
    pub(super) max_load: u64,
    /// Weighted load, to be divided by the number of tasks.
    pub(super) busiest_load_per_task: u64,
    pub(super) busiest_nr_running: u64,
    pub(super) busiest_capacity: u64,
    pub(super) busiest_power: u64,
    pub(super) group_imb: bool,
    pub(super) this_load: u64,
    /// Weighted load, to be divided by the number of tasks.
    pub(super) this_load_per_task: u64,
    pub(super) this_nr_running: u64,
    pub(super) this_power: u64,
    /// Of the domain.
    pub(super) avg_load: u64,
    /// Load per task of the CPU that asks.
    pub(super) cpu_load_per_task: u64,
}

impl Imbalance {
    /// Load to move; the arithmetic wraps where the kernel's does.
    pub(super) fn calculate(mut self) -> u64 {
        self.busiest_load_per_task /= self.busiest_nr_running;
        if self.group_imb {
            self.busiest_load_per_task = self.busiest_load_per_task.min(self.avg_load);
        }
        if self.max_load < self.avg_load {
            return self.fix_small(0);
        }
        // A group below its capacity can only be the busiest of 3.18: there is no load above capacity then to limit by.
        let above_capacity = if self.group_imb || self.busiest_nr_running < self.busiest_capacity {
            u64::MAX
        } else {
            (self.busiest_nr_running - self.busiest_capacity) * SCALE * SCALE / self.busiest_power
        };
        let max_pull = (self.max_load - self.avg_load).min(above_capacity);
        let give = max_pull.wrapping_mul(self.busiest_power);
        let take = self.avg_load.wrapping_sub(self.this_load).wrapping_mul(self.this_power);
        let imbalance = give.min(take) / SCALE;
        if imbalance < self.busiest_load_per_task { self.fix_small(imbalance) } else { imbalance }
    }

    /// Bumps an imbalance of less than a task to one task where that levels or raises the used power.
    fn fix_small(mut self, imbalance: u64) -> u64 {
        let own = self.this_load_per_task.checked_div(self.this_nr_running);
        let factor = if own.is_some_and(|own| self.busiest_load_per_task > own) { 1 } else { 2 };
        self.this_load_per_task = own.unwrap_or(self.cpu_load_per_task);
        let scaled = self.busiest_load_per_task * SCALE / self.busiest_power;
        let after = self.max_load.wrapping_sub(self.this_load).wrapping_add(scaled);
        if after >= scaled * factor {
            return self.busiest_load_per_task;
        }
        let now = (self.busiest_power * self.busiest_load_per_task.min(self.max_load)
            + self.this_power * self.this_load_per_task.min(self.this_load))
            / SCALE;
        let left = self.max_load.saturating_sub(scaled);
        let mut moved = if left > 0 { self.busiest_power * self.busiest_load_per_task.min(left) } else { 0 };
        let capped = (self.max_load * self.busiest_power).min(self.busiest_load_per_task * SCALE);
        let added = capped / self.this_power;
        moved += self.this_power * self.this_load_per_task.min(self.this_load + added);
        if moved / SCALE > now { self.busiest_load_per_task } else { imbalance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_moves_one_task() {
        let two_on_one = Imbalance {
            max_load: 2048,
            busiest_load_per_task: 2048,
            busiest_nr_running: 2,
            busiest_capacity: 1,
            busiest_power: 1024,
            group_imb: false,
            this_load: 0,
            this_load_per_task: 0,
            this_nr_running: 0,
            this_power: 1024,
            avg_load: 1024,
            cpu_load_per_task: 0,
        };
        assert_eq!(two_on_one.calculate(), 1024);
    }
}
