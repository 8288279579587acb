//! The clock of each core: at its highest, or following the load.
//!
//! Units: MHz, per cent. `Performance` runs at the highest frequency. `Ondemand` looks at each core every `clock_sample`
//! (`dbs_check_cpu`, Linux 3.4): above `up_threshold` per cent busy it goes to the highest; below that, less
//! [`DOWN_DIFFERENTIAL`], to the frequency at which the load would be there. So a task that is spread thinly over many
//! cores runs on slow ones, although it never rests.

/// `DEF_FREQUENCY_DOWN_DIFFERENTIAL`.
const DOWN_DIFFERENTIAL: u64 = 10;

/// Who sets the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Governor {
    /// Always the highest.
    #[default]
    Performance,
    /// By load.
    Ondemand {
        /// Per cent busy from which the highest is used; 80 in mainline 3.4.
        up_threshold: u64,
    },
}

/// A core's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) mhz: u64,
    min: u64,
    max: u64,
}

impl Clock {
    /// At the start of a run the machine has been at rest.
    pub(crate) fn new(governor: Governor, min: u64, max: u64) -> Self {
        let min = min.min(max);
        let mhz = if governor == Governor::Performance { max } else { min };
        Self { mhz, min, max }
    }

    /// The governor looks: the busiest CPU of the core was busy for `busy` of the last `period` ns.
    pub(crate) fn sample(&mut self, governor: Governor, busy: u64, period: u64) {
        let Governor::Ondemand { up_threshold } = governor else { return };
        let load = (100 * busy / period.max(1)).min(100);
        let low = up_threshold.saturating_sub(DOWN_DIFFERENTIAL).max(1);
        if load > up_threshold {
            self.mhz = self.max;
        } else if load < low {
            self.mhz = (load * self.mhz / low).clamp(self.min, self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ondemand_rises_at_once_and_falls_to_what_the_load_needs() {
        let governor = Governor::Ondemand { up_threshold: 80 };
        let mut clock = Clock::new(governor, 1600, 2400);
        assert_eq!(clock.mhz, 1600);
        clock.sample(governor, 81, 100);
        assert_eq!(clock.mhz, 2400);
        clock.sample(governor, 75, 100);
        assert_eq!(clock.mhz, 2400, "between the two thresholds it stays");
        clock.sample(governor, 50, 100);
        assert_eq!(clock.mhz, 1714);
        clock.sample(governor, 0, 100);
        assert_eq!(clock.mhz, 1600);
        assert_eq!(Clock::new(Governor::Performance, 1600, 2400).mhz, 2400);
    }
}
