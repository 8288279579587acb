//! Independent jobs on all cores, answers in the order of the jobs.
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does every job once, on as many threads as the process has CPUs. Which thread takes which job does not reach the answers.
pub(crate) fn in_parallel<J: Sync, A: Send>(jobs: &[J], work: impl Fn(&J) -> A + Sync) -> Vec<A> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    let take = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(i) else { break };
            let answer = work(job);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, answer));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(take))));
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..1000).collect();
        assert_eq!(in_parallel(&jobs, |n| n * n), jobs.iter().map(|n| n * n).collect::<Vec<_>>());
        assert!(in_parallel(&[], |n: &u64| *n).is_empty());
    }
}
