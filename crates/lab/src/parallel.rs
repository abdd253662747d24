//! The same work on many things, on all processors.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;

/// Does `work` to each of `items` and returns the results, in their
/// order. After a failure nothing new is started; the first one is returned.
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let workers = || -> Result<()> {
        while let Some((number, item)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            items.get(number).map(|item| (number, item))
        } {
            let result = work(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(workers)).collect();
        running.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_their_items() {
        let items: Vec<u32> = (0..1_000).collect();
        assert_eq!(
            each(&items, |n| Ok(n * 2)).unwrap(),
            (0..1_000).map(|n| n * 2).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_failure_is_returned() {
        let result = each(&[1, 2, 3], |n| if *n == 2 { anyhow::bail!("two") } else { Ok(()) });
        assert_eq!(result.unwrap_err().to_string(), "two");
    }
}
