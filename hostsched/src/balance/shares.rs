//! How much a task weighs in the load of its CPU, through all its groups (`h_load`), and how much a move would change
//! (`effective_load`).
//!
//! Worked example: a group whose entity makes up half of the root load of 2048 holds two equal tasks: `h_load` of the
//! group is 1023 (2048 x 1024 / 2049) and of each task 511.
use std::sync::atomic::Ordering::Relaxed;

use crate::entity::Slot;
use crate::host::Host;
use crate::rq::Rq;
use crate::weight::MIN_SHARES;

impl Rq {
    /// Computes `h_load` of every group queue that has load (`update_h_load`, `tg_load_down`, 3.4).
    pub(crate) fn update_h_load(&mut self) {
        self.h_load_pass += 1;
        self.cfs[0].h_load = self.runnable_load(Slot::NIL);
        self.cfs[0].h_load_pass = self.h_load_pass;
        let mut queue = self.leaves.head;
        while !queue.is_nil() {
            self.h_load_down(queue);
            queue = self.cfs[queue.i()].shares.next;
        }
    }

    /// Parents first.
    fn h_load_down(&mut self, queue: Slot) {
        if self.cfs[queue.i()].h_load_pass == self.h_load_pass {
            return;
        }
        let parent = self.ents[queue.i()].queue;
        self.h_load_down(parent);
        let h_load =
            self.cfs[parent.i()].h_load.wrapping_mul(self.entity_load(queue)) / (self.runnable_load(parent) + 1);
        let q = &mut self.cfs[queue.i()];
        q.h_load = h_load;
        q.h_load_pass = self.h_load_pass;
    }

    /// A task's part of its CPU's load (`task_h_load`, 3.4).
    pub(crate) fn task_h_load(&self, task: Slot) -> u64 {
        let queue = self.ents[task.i()].queue;
        self.entity_load(task).wrapping_mul(self.cfs[queue.i()].h_load) / (self.runnable_load(queue) + 1)
    }

    /// Change of this CPU's root load if `wl` were added to a group's queue here and `wg` to the group as a whole
    /// (`effective_load`, 3.4). The mixture of signed and unsigned arithmetic is the kernel's.
    pub(crate) fn effective_load(&self, host: &Host, group: Slot, wl: i64, wg: i64) -> i64 {
        let (mut wl, mut wg) = (wl, wg);
        let mut queue = group;
        while !queue.is_nil() {
            let tg = &host.groups[queue.i()];
            let shares = tg.shares.load(Relaxed);
            let all = wg + self.calc_tg_weight(tg, queue);
            let here = self.cfs[queue.i()].load.weight.cast_signed().wrapping_add(wl);
            wl = if all > 0 && here < all {
                (here.cast_unsigned().wrapping_mul(shares) / all.cast_unsigned()).cast_signed()
            } else {
                shares.cast_signed()
            };
            wl = wl.max(MIN_SHARES.cast_signed()) - self.ents[queue.i()].load.weight.cast_signed();
            wg = 0;
            queue = self.ents[queue.i()].queue;
        }
        wl
    }
}
