//! What the simulator can do beyond a plan: switches of the guest and of the run's protocol.
use hostsched::policy::PleSwitches;

/// Switches; the default is a guest without bugs in a steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// HLT leaves the guest (`kvm-intel.yield_on_hlt`): false keeps the CPU burning in it.
    pub yield_on_hlt: bool,
    /// halt-kick as it was posted: one halt, no second look. Unsafe: stale reads are counted.
    pub halt_once: bool,
    /// The flush handler acknowledges and does not flush (`--inject lost-flush`).
    pub lost_flush: bool,
    /// `ple_gap`: a pause loop whose turns are longer than this is not seen by the processor.
    pub ple_gap_cycles: u64,
    /// Who receives a directed yield: what kernels after 3.2 changed.
    pub ple: PleSwitches,
    /// Each VM starts, and ends, so much after the one before. 0 is the steady state.
    pub stagger_ns: u64,
    /// Timer interrupts a second in the guest.
    pub guest_hz: u64,
    /// vCPUs stay in the root group, as where VMs have no cgroups: there are no gangs then.
    pub flat: bool,
    /// A CPU that goes idle balances at an idle CPU's interval from then on, as since 3.16.
    pub idle_next_balance: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            yield_on_hlt: true,
            halt_once: false,
            lost_flush: false,
            ple_gap_cycles: 128,
            ple: PleSwitches::default(),
            stagger_ns: 0,
            guest_hz: 1000,
            flat: false,
            idle_next_balance: false,
        }
    }
}
