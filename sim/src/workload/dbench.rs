//! dbench: clients of a file server, each a thread: look-ups under a lock, computing, and now and then a wait for the disk.
//!
//! ```text
//!   3 x { dcache lock { }   work }   a tenth of the requests: journal lock { }   disk   record
//! ```
//! It measures what I/O waits and short locks do together: vCPUs that halt for the disk lose their place with their gang, and
//! wake where others run. One disk serves all VMs, so more VMs do not get more done once it is busy. Not modelled: the page
//! cache and its write-back, merged requests, the I/O threads of the VMM, the mix of operations (published in MB/s; ours is
//! requests a second, the same in every mode).
use super::{Env, Op, SPREAD_PERCENT};
use crate::world::LockId;

/// `dcache_lock` of 2.6.32.
const DCACHE: LockId = LockId(0);
/// `j_state_lock` of the journal.
const JOURNAL: LockId = LockId(1);
pub(super) const LOCKS: usize = 2;

/// Look-ups of a request.
const LOOKUPS: u32 = 3;

/// A client.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Dbench {
    next: Step,
    lookups: u32,
}

#[derive(Debug, Clone, Copy, Default)]
enum Step {
    #[default]
    Name,
    Named,
    NameDone,
    Compute,
    Decide,
    Log,
    Logged,
    Disk,
    Done,
}

impl Dbench {
    pub(super) fn next(&mut self, env: &mut Env<'_>) -> Op {
        let (op, next) = match self.next {
            Step::Name => (Op::Lock(DCACHE), Step::Named),
            Step::Named => (Op::Work(env.costs.lock_hold), Step::NameDone),
            Step::NameDone => (Op::Unlock(DCACHE), Step::Compute),
            Step::Compute => {
                self.lookups = (self.lookups + 1) % LOOKUPS;
                let work = u64::from(env.params.request_us) * 1000 / u64::from(LOOKUPS);
                let next = if self.lookups == 0 { Step::Decide } else { Step::Name };
                (Op::Work(env.rng.around(work, SPREAD_PERCENT)), next)
            }
            Step::Decide if env.rng.per_mille(env.params.io_per_mille.into()) => (Op::Lock(JOURNAL), Step::Log),
            Step::Decide | Step::Done => (Op::Record, Step::Name),
            Step::Log => (Op::Work(env.costs.lock_hold), Step::Logged),
            Step::Logged => (Op::Unlock(JOURNAL), Step::Disk),
            Step::Disk => (Op::Disk, Step::Done),
        };
        self.next = next;
        op
    }
}
