//! Heat of the last-level caches: how much of a VM's working set is still there.
//!
//! Units: heat 0 (all gone) to [`WARM`]; nanoseconds of work. Problem: a VM that comes back finds the cache full of what
//! others touched meanwhile; VMs that share a cache all the time each hold a part of it. Approach: work fills the cache
//! at a fixed rate and pushes out everybody's lines alike, so that
//!
//! ```text
//!   others work t on this cache:   heat  <-  heat * 2^(-t / half_life)
//!   the VM itself works t:         heat  <-  1 - (1 - heat) * 2^(-t / half_life)
//! ```
//! Both are applied lazily, when the VM next starts a piece of work there, so a switch costs nothing. Powers of two are
//! linear between whole halvings (at most 6 % off).
//!
//! Example: two VMs share a cache evenly: each settles at 1/2. One of them alone in turns of many half-lives: near 1.

/// Heat of a VM whose lines are all there.
pub(crate) const WARM: u64 = 1 << 16;

/// `x` after `t` ns of decay.
pub(crate) fn decayed(x: u64, t: u64, half_life: u64) -> u64 {
    let halvings = t / half_life;
    if halvings >= 32 {
        return 0;
    }
    let x = x >> halvings;
    x - x * (t % half_life) / (2 * half_life)
}

/// A VM's share of one cache.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    heat: u64,
    /// The cache's total of work when heat was last computed.
    seen: u64,
}

/// One last-level cache.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    half_life: u64,
    /// Work done on its CPUs so far, by all VMs.
    work: u64,
    shares: Vec<Share>,
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub(crate) fn new(vms: usize, half_life: u64) -> Self {
        Self { half_life, work: 0, shares: vec![Share::default(); vms] }
    }

    /// The VM does `ns` of work on this cache from now on. Returns its heat before that.
    #[inline]
    pub(crate) fn touch(&mut self, vm: usize, ns: u64) -> u64 {
        let share = &mut self.shares[vm];
        // What this VM did itself since then is not in the difference: `seen` moves with its own work.
        let heat = decayed(share.heat, self.work - share.seen, self.half_life);
        share.heat = WARM - decayed(WARM - heat, ns, self.half_life);
        self.work += ns;
        share.seen = self.work;
        heat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: u64 = 1_000_000;

    #[test]
    fn heat_halves_with_each_half_life_of_others_work() {
        let mut cache = Cache::new(2, H);
        cache.touch(0, 40 * H);
        assert_eq!(cache.touch(0, 0), WARM);
        cache.touch(1, H);
        assert_eq!(cache.touch(0, 0), WARM / 2);
        cache.touch(1, 2 * H);
        assert_eq!(cache.touch(0, 0), WARM / 8);
    }

    #[test]
    fn two_vms_that_share_evenly_settle_at_half() {
        let mut cache = Cache::new(2, H);
        let mut heat = [0; 2];
        for _ in 0..10_000 {
            heat = [cache.touch(0, H / 10), cache.touch(1, H / 10)];
        }
        assert!(heat.iter().all(|h| (WARM * 45 / 100..WARM * 55 / 100).contains(h)), "{heat:?}");
    }

    #[test]
    fn a_vm_alone_is_warm() {
        let mut cache = Cache::new(2, H);
        for _ in 0..1000 {
            cache.touch(0, H / 10);
        }
        assert!(cache.touch(0, H / 10) > WARM * 99 / 100);
    }
}
