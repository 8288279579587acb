//! A row of the table: a mode, perhaps with single axes of its own.
//!
//! ```text
//!   gang                    the preset
//!   gang+flush=on-enter     the preset with one axis changed; the row is named so, and may be asked for so
//!   gang --flush on-enter   the same, for every mode of the list
//! ```
//! An axis that is set to what the preset has anyway does not change the name. `sched` is no axis of a mode, but set in the same
//! way, so that both schedulers can stand in one interleaved run: `base,base+sched=host`; so is `lock`: `base,base+lock=pv`.
//! So is the number of VMs, which stands last: `--vms 1,4 --mode base,gang` has the rows `base+vms=1`, `gang+vms=1`,
//! `base+vms=4` and `gang+vms=4`. So a row's name says which band it belongs to, wherever rows are told apart by name.

use std::fmt;
use std::str::FromStr;

use plan::{Axes, Flush, HostPolicy, Lock, Mode, ModeError, Sched, Spin};

/// A mode with the axes that were set by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The preset.
    pub mode: Mode,
    /// What differs from it.
    pub overrides: Overrides,
}

/// Axes that were set by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `host-policy`.
    pub host_policy: Option<HostPolicy>,
    /// `flush`.
    pub flush: Option<Flush>,
    /// `spin`.
    pub spin: Option<Spin>,
    /// `pin`.
    pub pin: Option<bool>,
    /// `lock`; rows are named after it only where they set it themselves.
    pub lock: Option<Lock>,
    /// `sched`; rows are named after it only where they set it themselves.
    pub sched: Option<Sched>,
    /// `vms`; rows are named after it where there are several numbers of VMs.
    pub vms: Option<u32>,
}

impl Overrides {
    /// These, and `others` where these say nothing.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            host_policy: self.host_policy.or(others.host_policy),
            flush: self.flush.or(others.flush),
            spin: self.spin.or(others.spin),
            pin: self.pin.or(others.pin),
            lock: self.lock.or(others.lock),
            sched: self.sched.or(others.sched),
            vms: self.vms.or(others.vms),
        }
    }
}

impl Row {
    /// The axes in force.
    ///
    /// A flush strategy that is set brings its way of waiting along, unless that is set too: `--flush pvflush` halts,
    /// and `--flush ipi` on a halting mode is busy.
    ///
    /// # Errors
    /// When the flush strategy and the way of waiting that was asked for contradict each other.
    pub fn axes(&self) -> Result<Axes, ModeError> {
        let Overrides { host_policy, flush, spin, pin, lock: _, sched: _, vms: _ } = self.overrides;
        let preset = self.mode.axes();
        let mut axes = Axes {
            host_policy: host_policy.unwrap_or(preset.host_policy),
            flush: flush.unwrap_or(preset.flush),
            spin: spin.unwrap_or(preset.spin),
            pin: pin.unwrap_or(preset.pin),
        };
        if spin.is_none() && axes.validate().is_err() {
            axes.spin = if axes.spin == Spin::Halt { Spin::Busy } else { Spin::Halt };
        }
        axes.validate()?;
        Ok(axes)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overrides { host_policy, flush, spin, pin, lock, sched, vms } = self.overrides;
        let preset = self.mode.axes();
        write!(f, "{}", self.mode)?;
        if let Some(policy) = host_policy.filter(|p| *p != preset.host_policy) {
            write!(f, "+host-policy={policy}")?;
        }
        if let Some(flush) = flush.filter(|f| *f != preset.flush) {
            write!(f, "+flush={flush}")?;
        }
        if let Some(spin) = spin.filter(|s| *s != preset.spin) {
            write!(f, "+spin={spin}")?;
        }
        if let Some(pin) = pin.filter(|p| *p != preset.pin) {
            write!(f, "+pin={}", if pin { "yes" } else { "no" })?;
        }
        if let Some(lock) = lock {
            write!(f, "+lock={lock}")?;
        }
        if let Some(sched) = sched {
            write!(f, "+sched={sched}")?;
        }
        if let Some(vms) = vms {
            write!(f, "+vms={vms}")?;
        }
        Ok(())
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('+');
        let mode = parts.next().unwrap_or_default().parse().map_err(|e: ModeError| e.to_string())?;
        let mut overrides = Overrides::default();
        for part in parts {
            let axis = part.split_once('=').ok_or_else(|| {
                format!(
                    "'+{part}' sets no axis: write +host-policy=, +flush=, +spin=, +pin=, +lock=, +sched= or +vms= and a \
                     value"
                )
            })?;
            let set = match axis {
                ("host-policy", value) => value.parse().map(|v| overrides.host_policy = Some(v)),
                ("flush", value) => value.parse().map(|v| overrides.flush = Some(v)),
                ("lock", value) => value.parse().map(|v| overrides.lock = Some(v)),
                ("sched", value) => value.parse().map(|v| overrides.sched = Some(v)),
                ("spin", value) => value.parse().map(|v| overrides.spin = Some(v)),
                ("vms", value) => {
                    // Its range is checked with the plan.
                    let vms = value.parse().map_err(|_| format!("'+vms={value}' is no number of VMs"))?;
                    overrides.vms = Some(vms);
                    Ok(())
                }
                ("pin", value @ ("yes" | "no")) => {
                    overrides.pin = Some(value == "yes");
                    Ok(())
                }
                ("pin", value) => return Err(format!("'+pin={value}' is neither yes nor no")),
                (axis, _) => {
                    return Err(format!(
                        "axis '{axis}' does not exist: there are host-policy, flush, spin, pin, lock, sched and vms"
                    ));
                }
            };
            set.map_err(|e| e.to_string())?;
        }
        Ok(Self { mode, overrides })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        text.parse().unwrap()
    }

    #[test]
    fn every_mode_is_a_row_and_keeps_its_name() {
        for mode in Mode::ALL {
            assert_eq!(row(mode.name()).to_string(), mode.name());
            assert_eq!(row(mode.name()).axes(), Ok(mode.axes()));
        }
    }

    #[test]
    fn a_changed_axis_stands_in_the_name_and_reads_back() {
        let text = "gang+host-policy=gang-next+flush=on-enter+spin=ple+pin=no+lock=pv+sched=lab+vms=4";
        assert_eq!(row(text).to_string(), text);
        assert_eq!(row("gang+pin=yes").to_string(), "gang");
    }

    #[test]
    fn a_flush_brings_its_way_of_waiting_unless_told_otherwise() {
        assert_eq!(row("base+flush=pvflush").axes().unwrap().spin, Spin::Halt);
        assert_eq!(row("pvflush+flush=ipi").axes().unwrap().spin, Spin::Busy);
        assert!(row("base+flush=pvflush+spin=ple").axes().is_err());
        assert!(row("base+spin=halt").axes().is_err());
    }

    #[test]
    fn nonsense_is_answered_with_what_would_be_right() {
        for (text, want) in [
            ("gnag", "did you mean 'gang'?"),
            ("base+flush=ipl", "did you mean 'ipi'?"),
            ("base+pinned", "'+pinned' sets no axis"),
            ("base+pin=maybe", "neither yes nor no"),
            ("base+colour=red", "axis 'colour' does not exist"),
            ("base+vms=many", "'+vms=many' is no number of VMs"),
        ] {
            let error = text.parse::<Row>().unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
