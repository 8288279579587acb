//! Interrupts there and back: one vCPU interrupts another, and spins until its handler has run.
//!
//! The vector is the flush's, as in the real guest, whatever the mode does about flushes: sent as an interrupt, never marked,
//! never halted for. It takes the sender's flush slot, which carries `ipi` meanwhile. Nothing was unmapped, so nothing becomes
//! stale by it.
use hostsched::CpuId;

use super::World;
use crate::ids::VcpuId;
use crate::observe::Event;
use crate::vcpu::{FlushSlot, Phase};

impl World {
    /// Interrupts the sibling that follows in turn.
    pub(super) fn begin_ipi(&mut self, cpu: CpuId, v: VcpuId, turn: u32) {
        let vcpu = &self.vcpus[v.i()];
        let vcpus = u32::try_from(self.vcpus_of(vcpu.vm).count()).unwrap_or(u32::MAX);
        assert!(vcpus > 1, "vCPU {v:?} has no sibling to interrupt");
        let target = (vcpu.number + 1 + turn % (vcpus - 1)) % vcpus;
        let u = self.sibling(v, target);
        let doing = self.vcpus[u.i()].doing() as usize;
        let now = self.now;
        let vcpu = &mut self.vcpus[v.i()];
        vcpu.phase = Phase::FlushSpin;
        vcpu.busy_until = now.max(vcpu.busy_until) + self.costs.ipi_send;
        let sent_at = vcpu.busy_until;
        vcpu.flush = FlushSlot {
            outstanding: 1 << target,
            ready_at: sent_at,
            started_at: now,
            sent_at,
            active: true,
            ipi: true,
            ..FlushSlot::default()
        };
        vcpu.flush.doing[doing] = 1 << target;
        self.tell(|world| Event::FlushBegin { vcpu: world.name(v), outstanding: 1 << target });
        self.send_flush_irq(cpu, v, u, sent_at);
        self.stats.counters.exits += u64::from(self.measuring());
    }

    /// The answer is there.
    pub(super) fn finish_ipi(&mut self, v: VcpuId) {
        let vcpu = &mut self.vcpus[v.i()];
        (vcpu.flush.active, vcpu.phase) = (false, Phase::Fetch);
        let waited_ns = self.now - vcpu.flush.started_at;
        self.tell(|world| Event::FlushEnd { vcpu: world.name(v), waited_ns, outstanding: 0 });
        if self.measuring() {
            let _ = self.stats.ipi_round_trip.record(waited_ns);
        }
    }
}
