//! Many CPUs, few of them of interest: the earliest of one event per CPU (a winner tree; ties go to the lowest CPU), and a
//! set of CPUs that is walked upwards while it changes.

/// No event.
pub(super) const NEVER: u64 = u64::MAX;

/// Times by CPU, with their minimum at hand.
#[derive(Clone, Debug)]
pub(super) struct Earliest {
    /// A heap-ordered binary tree: node n has children 2n and 2n + 1; the leaves are the CPUs.
    tree: Vec<u64>,
    leaves: usize,
}

impl Earliest {
    pub(super) fn new(cpus: usize) -> Self {
        let leaves = cpus.next_power_of_two();
        Self { tree: vec![NEVER; 2 * leaves], leaves }
    }

    /// Sets the time of a CPU.
    #[inline]
    pub(super) fn set(&mut self, cpu: usize, at: u64) {
        let mut n = self.leaves + cpu;
        if self.tree[n] == at {
            return;
        }
        self.tree[n] = at;
        while n > 1 {
            n /= 2;
            let min = self.tree[2 * n].min(self.tree[2 * n + 1]);
            if self.tree[n] == min {
                break;
            }
            self.tree[n] = min;
        }
    }

    /// The earliest time.
    #[inline]
    pub(super) fn time(&self) -> u64 {
        self.tree[1]
    }

    /// The lowest CPU that has it.
    #[inline]
    pub(super) fn cpu(&self) -> usize {
        let mut n = 1;
        while n < self.leaves {
            n *= 2;
            if self.tree[n] != self.tree[n / 2] {
                n += 1;
            }
        }
        n - self.leaves
    }
}

/// A set of CPUs.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    words: Vec<u64>,
}

impl Marked {
    pub(super) fn new(cpus: usize) -> Self {
        Self { words: vec![0; cpus.div_ceil(64)] }
    }

    #[inline]
    pub(super) fn set(&mut self, cpu: usize) {
        self.words[cpu / 64] |= 1 << (cpu % 64);
    }

    #[inline]
    pub(super) fn contains(&self, cpu: usize) -> bool {
        self.words[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    /// Takes the CPU out; true if it was in.
    #[inline]
    pub(super) fn take(&mut self, cpu: usize) -> bool {
        let was = self.contains(cpu);
        self.words[cpu / 64] &= !(1 << (cpu % 64));
        was
    }

    /// The lowest member from `cpu` on.
    #[inline]
    pub(super) fn from(&self, cpu: usize) -> Option<usize> {
        let mut i = cpu / 64;
        let mut bits = self.words.get(i)? & (u64::MAX << (cpu % 64));
        while bits == 0 {
            i += 1;
            bits = *self.words.get(i)?;
        }
        Some(i * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_walked_upwards() {
        let mut m = Marked::new(130);
        for cpu in [129, 3, 64] {
            m.set(cpu);
        }
        assert_eq!((m.from(0), m.from(4), m.from(65), m.from(130)), (Some(3), Some(64), Some(129), None));
        assert!(m.take(64) && !m.take(64));
        assert_eq!(m.from(4), Some(129));
    }

    #[test]
    fn the_earliest_wins_and_ties_go_to_the_lowest_cpu() {
        let mut e = Earliest::new(5);
        assert_eq!(e.time(), NEVER);
        for (cpu, at) in [(4, 7), (3, 5), (1, 5)] {
            e.set(cpu, at);
        }
        assert_eq!((e.time(), e.cpu()), (5, 1));
        e.set(1, NEVER);
        assert_eq!((e.time(), e.cpu()), (5, 3));
        e.set(3, 9);
        assert_eq!((e.time(), e.cpu()), (7, 4));
    }

    #[test]
    fn one_cpu_is_a_tree_too() {
        let mut e = Earliest::new(1);
        e.set(0, 3);
        assert_eq!((e.time(), e.cpu()), (3, 0));
    }
}
