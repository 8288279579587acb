//! Numbers of the simulated things.
//!
//! | type | counts | range |
//! |---|---|---|
//! | [`hostsched::CpuId`] | pCPUs | the topology's own numbers |
//! | [`VcpuId`] | vCPUs of all VMs, VM by VM | equals the vCPU thread's `TaskId` |
//! | [`ThreadId`] | guest threads of all VMs, vCPU by vCPU | dense |
//! | VM | index into the VMs, `usize` | `hostsched::VmId` and, plus one, its `GroupId` |
use hostsched::TaskId;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) struct $name(pub u32);
        impl $name {
            /// As an index of a table.
            #[inline]
            #[must_use]
            pub(crate) const fn i(self) -> usize {
                self.0 as usize
            }
            /// The one at `index` of a table.
            ///
            /// # Panics
            /// If the index does not fit 32 bits; the largest plan has 16,384 vCPUs.
            #[inline]
            #[must_use]
            pub(crate) fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("an id fits 32 bits"))
            }
        }
    };
}

id! {
    /// A vCPU.
    VcpuId
}
id! {
    /// A guest thread.
    ThreadId
}

impl VcpuId {
    /// Its thread on the host.
    #[inline]
    #[must_use]
    pub(crate) const fn task(self) -> TaskId {
        TaskId(self.0)
    }
}
