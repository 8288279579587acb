//! A set of CPUs: the kernel's `cpumask`, sized by its content.
//!
//! The first 128 CPUs live in the value itself; larger numbers (up to [`CPUS_MAX`]) spill into a vector that never ends
//! in a zero word, so that equal sets compare and hash equal whatever happened to them before.
//!
//! ```text
//!   inline[0]    inline[1]     rest[0]        rest[1] ...
//!   CPU 0..63    CPU 64..127   CPU 128..191   CPU 192..255
//! ```
//!
//! Questions (`contains`, `first`, `next`, `iter`, `iter_and`, `weight`, `is_subset`) never allocate; they are what the
//! scheduler asks while it decides. Names follow `include/linux/cpumask.h`.

use std::fmt;

/// Number of a logical CPU, as the kernel numbers them; numbers may have gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuId(pub u32);

impl CpuId {
    /// The CPU's place in arrays that have one slot a CPU.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

/// CPU numbers lie below this: the largest `NR_CPUS` that x86 Linux can be configured for.
pub const CPUS_MAX: u32 = 8192;

const INLINE_WORDS: usize = 2;

/// A set of CPUs below [`CPUS_MAX`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuSet {
    inline: [u64; INLINE_WORDS],
    /// Words beyond the inline ones; the last is never 0.
    rest: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { inline: [0; INLINE_WORDS], rest: Vec::new() }
    }

    /// The set of one CPU (`cpumask_of`).
    #[must_use]
    pub fn of(cpu: CpuId) -> Self {
        let mut set = Self::new();
        set.insert(cpu);
        set
    }

    /// CPUs 0 to `count` - 1.
    ///
    /// # Panics
    /// If `count` is above [`CPUS_MAX`].
    #[must_use]
    pub fn first_n(count: u32) -> Self {
        (0..count).map(CpuId).collect()
    }

    #[inline]
    fn word_count(&self) -> usize {
        INLINE_WORDS + self.rest.len()
    }

    /// Word `index`, 0 beyond the end.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        match self.inline.get(index) {
            Some(word) => *word,
            None => self.rest.get(index - INLINE_WORDS).copied().unwrap_or(0),
        }
    }

    /// Makes word `index` equal to `value` and keeps the end of `rest` free of zeros.
    fn set_word(&mut self, index: usize, value: u64) {
        if let Some(word) = self.inline.get_mut(index) {
            *word = value;
            return;
        }
        let at = index - INLINE_WORDS;
        if at >= self.rest.len() {
            if value == 0 {
                return;
            }
            self.rest.resize(at + 1, 0);
        }
        self.rest[at] = value;
        while self.rest.last() == Some(&0) {
            self.rest.pop();
        }
    }

    /// Adds a CPU; true if it was not there.
    ///
    /// # Panics
    /// If `cpu` is not below [`CPUS_MAX`]. Numbers from outside are checked where they enter (`Machine::new`).
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        assert!(cpu.0 < CPUS_MAX, "CPU {cpu} is not below {CPUS_MAX}");
        let (index, bit) = place(cpu);
        let word = self.word(index);
        self.set_word(index, word | bit);
        word & bit == 0
    }

    /// Takes a CPU out; true if it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let (index, bit) = place(cpu);
        let word = self.word(index);
        self.set_word(index, word & !bit);
        word & bit != 0
    }

    /// True if `cpu` is in the set (`cpumask_test_cpu`).
    #[inline]
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (index, bit) = place(cpu);
        self.word(index) & bit != 0
    }

    /// True if there is no CPU in the set.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inline == [0; INLINE_WORDS] && self.rest.is_empty()
    }

    /// Number of CPUs in the set (`cpumask_weight`).
    #[inline]
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.inline.iter().chain(&self.rest).map(|word| word.count_ones()).sum()
    }

    /// The lowest CPU (`cpumask_first`).
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The lowest CPU above `cpu` (`cpumask_next`).
    #[inline]
    #[must_use]
    pub fn next(&self, cpu: CpuId) -> Option<CpuId> {
        let (index, bit) = place(cpu);
        // Bits above `bit`: the complement of `bit` and all below it.
        Bits { a: self, b: None, index, bits: self.word(index) & !(bit | (bit - 1)) }.next()
    }

    /// The CPUs, ascending (`for_each_cpu`).
    #[inline]
    #[must_use]
    pub fn iter(&self) -> Bits<'_> {
        Bits { a: self, b: None, index: 0, bits: self.word(0) }
    }

    /// The CPUs that are in both sets, ascending, without making the intersection (`for_each_cpu_and`).
    #[inline]
    #[must_use]
    pub fn iter_and<'a>(&'a self, other: &'a CpuSet) -> Bits<'a> {
        Bits { a: self, b: Some(other), index: 0, bits: self.word(0) & other.word(0) }
    }

    /// The lowest CPU that is in both sets (`cpumask_first_and`).
    #[inline]
    #[must_use]
    pub fn first_and(&self, other: &CpuSet) -> Option<CpuId> {
        self.iter_and(other).next()
    }

    /// True if the sets share a CPU (`cpumask_intersects`).
    #[inline]
    #[must_use]
    pub fn intersects(&self, other: &CpuSet) -> bool {
        (0..self.word_count()).any(|index| self.word(index) & other.word(index) != 0)
    }

    /// True if every CPU of this set is in `other` (`cpumask_subset`).
    #[inline]
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        (0..self.word_count()).all(|index| self.word(index) & !other.word(index) == 0)
    }

    /// CPUs in both.
    #[must_use]
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a & b)
    }

    /// CPUs in either.
    #[must_use]
    pub fn or(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a | b)
    }

    /// CPUs here and not in `other`.
    #[must_use]
    pub fn and_not(&self, other: &CpuSet) -> CpuSet {
        self.zip(other, |a, b| a & !b)
    }

    fn zip(&self, other: &CpuSet, f: impl Fn(u64, u64) -> u64) -> CpuSet {
        let mut set = CpuSet::new();
        // Downwards, so that `rest` gets its final size at once.
        for index in (0..self.word_count().max(other.word_count())).rev() {
            set.set_word(index, f(self.word(index), other.word(index)));
        }
        set
    }
}

/// Word and bit of a CPU.
#[inline]
fn place(cpu: CpuId) -> (usize, u64) {
    (cpu.index() / 64, 1 << (cpu.0 % 64))
}

/// The CPU of a bit; `index` is below `CPUS_MAX` / 64 in every set.
#[inline]
fn cpu_at(index: usize, bit: u32) -> CpuId {
    CpuId(u32::try_from(index).map_or(CPUS_MAX, |index| index * 64 + bit))
}

/// Iterator over the CPUs of a set, or of the intersection of two.
#[derive(Debug, Clone)]
pub struct Bits<'a> {
    a: &'a CpuSet,
    b: Option<&'a CpuSet>,
    index: usize,
    /// What is left of word `index`.
    bits: u64,
}

impl Iterator for Bits<'_> {
    type Item = CpuId;

    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        while self.bits == 0 {
            self.index += 1;
            if self.index >= self.a.word_count() {
                return None;
            }
            self.bits = self.a.word(self.index) & self.b.map_or(u64::MAX, |b| b.word(self.index));
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(cpu_at(self.index, bit))
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = CpuId;
    type IntoIter = Bits<'a>;
    #[inline]
    fn into_iter(self) -> Bits<'a> {
        self.iter()
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl fmt::Display for CpuSet {
    /// The kernel's list form, `0-3,8`; nothing for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| next.0 == last.0 + 1) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last != first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Mostly small CPUs, some in the spilled words, the largest one too.
    fn cpus() -> impl Strategy<Value = BTreeSet<u32>> {
        let cpu = prop_oneof![4 => 0u32..130, 1 => 120u32..600, 1 => CPUS_MAX - 70..CPUS_MAX];
        prop::collection::btree_set(cpu, 0..40)
    }

    fn set(cpus: &BTreeSet<u32>) -> CpuSet {
        cpus.iter().copied().map(CpuId).collect()
    }

    fn numbers(cpus: impl Iterator<Item = CpuId>) -> Vec<u32> {
        cpus.map(|cpu| cpu.0).collect()
    }

    proptest! {
        #[test]
        fn a_set_answers_like_a_tree_of_numbers(a in cpus(), b in cpus(), probe in 0u32..CPUS_MAX) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(numbers(x.iter()), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(x.weight() as usize, a.len());
            prop_assert_eq!(x.is_empty(), a.is_empty());
            prop_assert_eq!(x.first().map(|c| c.0), a.first().copied());
            prop_assert_eq!(x.contains(CpuId(probe)), a.contains(&probe));
            prop_assert_eq!(x.next(CpuId(probe)).map(|c| c.0), a.range(probe + 1..).next().copied());
            let both: Vec<u32> = a.intersection(&b).copied().collect();
            prop_assert_eq!(numbers(x.iter_and(&y)), both.clone());
            prop_assert_eq!(x.first_and(&y).map(|c| c.0), both.first().copied());
            prop_assert_eq!(x.intersects(&y), !both.is_empty());
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.and(&y), set(&both.into_iter().collect()));
            prop_assert_eq!(x.or(&y), set(&a.union(&b).copied().collect()));
            prop_assert_eq!(x.and_not(&y), set(&a.difference(&b).copied().collect()));
        }

        #[test]
        fn removing_leaves_no_trace(a in cpus(), extra in 0u32..CPUS_MAX) {
            let before = set(&a);
            let mut after = before.clone();
            let added = after.insert(CpuId(extra));
            prop_assert_eq!(added, !a.contains(&extra));
            if added {
                prop_assert!(after.remove(CpuId(extra)));
            }
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn the_list_form_is_the_kernels() {
        for (cpus, want) in
            [(vec![], ""), (vec![3], "3"), (vec![0, 1, 2, 8], "0-2,8"), (vec![0, 2, 200, 201], "0,2,200-201")]
        {
            assert_eq!(cpus.into_iter().map(CpuId).collect::<CpuSet>().to_string(), want);
        }
    }
}
