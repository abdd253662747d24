//! A fixed number of threads over a list: for hashing, where one is too few.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// As many threads as the machine has processors.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// `work` on every item, in the order of the list as far as threads allow;
/// the results have the order of the list.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let position = next.fetch_add(1, Ordering::Relaxed);
        items.get(position).map(|item| (position, item))
    };
    let run = || -> Vec<(usize, R)> {
        std::iter::from_fn(take).map(|(position, item)| (position, work(item))).collect()
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
        let mut results = run();
        for helper in helpers {
            match helper.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items_whatever_the_threads_do() {
        let items: Vec<u64> = (0..1000).collect();
        for threads in [1, 2, 7, 2000] {
            let squares = map(&items, threads, |n| n * n);
            assert!(squares.iter().zip(&items).all(|(square, n)| *square == n * n));
            assert_eq!(squares.len(), items.len());
        }
        assert!(map(&[] as &[u8], 4, |n| *n).is_empty());
    }
}
