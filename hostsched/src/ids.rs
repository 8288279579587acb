//! Names and units: what the numbers of the scheduler count.
//!
//! | type | unit | range |
//! |---|---|---|
//! | [`CpuId`](crate::topology::CpuId) | a host CPU, the kernel's own number | below `Machine::cpu_slots` |
//! | [`TaskId`] | a schedulable task (a vCPU thread, a host task) | dense, below `Limits::tasks` |
//! | [`GroupId`] | a task group (cgroup); 0 is the root group | below `Limits::groups` |
//! | [`VmId`] | the tasks that are vCPUs of one machine | below `Limits::tasks` |
//! | [`Nanos`] | nanoseconds of one monotonic clock common to all CPUs | u64 |
//! | [`Vruntime`] | nanoseconds scaled by 1024 / weight; wraps, so it is only ever *compared by difference* | u64 |
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index of a table.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id that stands at `index` of a table.
            ///
            /// # Panics
            /// If the index does not fit 32 bits: the tables of this crate are far smaller.
            #[inline]
            #[must_use]
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("an id fits 32 bits"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A task: anything that can be scheduled.
    TaskId
}
id! {
    /// A task group (`struct task_group`, a cpu cgroup).
    GroupId
}
id! {
    /// A virtual machine: `kvm_vcpu_on_spin` looks for its candidates among the tasks of one.
    VmId
}

impl GroupId {
    /// The root group: every task that is in no other group.
    pub const ROOT: Self = Self(0);
}

/// Nanoseconds: an instant of the common clock, or a length of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// From milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }
}

impl Add for Nanos {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Virtual runtime: execution time scaled by the inverse of the weight. It wraps, as in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Vruntime(pub u64);

impl Vruntime {
    /// `self - earlier` as a signed number of virtual nanoseconds.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }

    /// True when `self` is due before `other` (`entity_before`).
    #[inline]
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        self.since(other) < 0
    }

    /// The later of the two (`max_vruntime`).
    #[inline]
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if other.since(self) > 0 { other } else { self }
    }

    /// The earlier of the two (`min_vruntime`).
    #[inline]
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if other.since(self) < 0 { other } else { self }
    }

    /// `self + delta`, wrapping.
    #[inline]
    #[must_use]
    pub const fn plus(self, delta: u64) -> Self {
        Self(self.0.wrapping_add(delta))
    }

    /// `self - delta`, wrapping.
    #[inline]
    #[must_use]
    pub const fn minus(self, delta: u64) -> Self {
        Self(self.0.wrapping_sub(delta))
    }

    /// Made relative to the queue that it leaves (`vruntime -= cfs_rq->min_vruntime`), see [`Self::absolute`].
    #[inline]
    #[must_use]
    pub const fn relative(self, min_vruntime: Self) -> Self {
        Self(self.0.wrapping_sub(min_vruntime.0))
    }

    /// Made absolute in the queue that it joins (`vruntime += cfs_rq->min_vruntime`).
    #[inline]
    #[must_use]
    pub const fn absolute(self, min_vruntime: Self) -> Self {
        Self(self.0.wrapping_add(min_vruntime.0))
    }
}

/// As the kernel prints it: signed, because a fresh queue starts below zero.
impl fmt::Display for Vruntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.cast_signed().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vruntime_order_survives_the_wrap() {
        let old = Vruntime(u64::MAX - 5);
        let new = old.plus(10);
        assert!(old.before(new) && !new.before(old));
        assert_eq!(new.since(old), 10);
        assert_eq!(old.max(new), new);
        assert_eq!(old.min(new), old);
    }

    #[test]
    fn relative_then_absolute_is_the_identity_on_one_queue() {
        let (v, base) = (Vruntime(3), Vruntime(u64::MAX - 1_048_575));
        assert_eq!(v.relative(base).absolute(base), v);
    }
}
