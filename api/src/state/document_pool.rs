//! Threads that parse and plan documents, so that a large document delays no other request.
//!
//! Used by handlers and extractors of `http`. Invariant: a caller uses at most two of these threads at a time, and all callers together at most the number of
//! processors.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    thread,
};
use tokio::{runtime::Handle, sync::Semaphore, task::spawn_blocking};
use tracing::Instrument as _;

/// The maximum length of a text that is parsed directly, in bytes: 16 KiB, which takes less than a millisecond.
const SHORT: usize = 16 << 10;
/// The maximum number of concurrent documents of one tenant, or of one user of the operator.
const AT_ONCE: usize = 2;
/// The maximum number of their waiting documents.
const WAITING: usize = 64;

/// Limits the number of concurrent documents.
#[derive(Clone, Debug)]
pub(crate) struct DocumentPool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    all: Semaphore,
    by_owner: Mutex<BTreeMap<String, Owner>>,
}

/// The owners of current documents.
#[derive(Debug)]
struct Owner {
    permits: Arc<Semaphore>,
    /// The number of its current and waiting documents.
    places: usize,
}

/// Too many documents of one owner are waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit is {AT_ONCE} large documents of one tenant or user at a time, with {WAITING} more waiting"
)]
pub(crate) struct Crowded;

/// A place of an owner; the owner is removed with its last place.
struct Place<'a> {
    pool: &'a Inner,
    owner: &'a str,
    permits: Arc<Semaphore>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut owners = self.pool.by_owner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get_mut(self.owner) {
            owner.places -= 1;
            if owner.places == 0 {
                owners.remove(self.owner);
            }
        }
    }
}

impl Default for DocumentPool {
    fn default() -> Self {
        Self::of(thread::available_parallelism().map_or(2, usize::from).max(2))
    }
}

impl DocumentPool {
    fn of(threads: usize) -> Self {
        Self(Arc::new(Inner { all: Semaphore::new(threads), by_owner: Mutex::default() }))
    }

    fn place<'a>(&'a self, owner: &'a str) -> Result<Place<'a>, Crowded> {
        let mut owners = self.0.by_owner.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Owner { permits: Arc::new(Semaphore::new(AT_ONCE)), places: 0 };
        let stands = owners.entry(owner.to_owned()).or_insert_with(new);
        if stands.places >= AT_ONCE + WAITING {
            return Err(Crowded);
        }
        stands.places += 1;
        Ok(Place { pool: &self.0, owner, permits: stands.permits.clone() })
    }

    /// Runs `work` on a text of this length: directly if it is short.
    ///
    /// # Errors
    /// [`Crowded`]. A panic of the work is passed on to the caller.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        owner: &str,
        length: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Crowded> {
        if length <= SHORT {
            return Ok(work());
        }
        self.work(owner, work).await
    }

    /// Runs a future on one of these threads.
    ///
    /// # Errors
    /// [`Crowded`]. A panic of the work is passed on to the caller.
    pub(crate) async fn plan<T: Send + 'static>(
        &self,
        owner: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Crowded> {
        let (runtime, work) = (Handle::current(), work.in_current_span());
        self.work(owner, move || runtime.block_on(work)).await
    }

    async fn work<T: Send + 'static>(
        &self,
        owner: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Crowded> {
        let place = self.place(owner)?;
        // The semaphores are never closed.
        let _own = place.permits.acquire().await;
        let _one_of_all = self.0.all.acquire().await;
        match spawn_blocking(work).await {
            Ok(done) => Ok(done),
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and drops this future too.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
        time::Duration,
    };

    #[tokio::test(flavor = "current_thread")]
    async fn one_owner_uses_two_threads_and_others_continue() {
        let pool = DocumentPool::of(8);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let done = Arc::new(AtomicBool::new(false));
        let slow: Vec<_> = (0..AT_ONCE + WAITING)
            .map(|_| {
                let (pool, running, most, done) = (pool.clone(), running.clone(), most.clone(), done.clone());
                tokio::spawn(async move {
                    let work = move || {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        while !done.load(Ordering::SeqCst) {
                            thread::sleep(Duration::from_millis(1));
                        }
                        running.fetch_sub(1, Ordering::SeqCst);
                    };
                    pool.read("acme", SHORT + 1, work).await
                })
            })
            .collect();
        // Waits until each of them has its place.
        for _ in 0..10 * (AT_ONCE + WAITING) {
            tokio::task::yield_now().await;
        }

        assert_eq!(pool.read("acme", SHORT + 1, || ()).await, Err(Crowded));
        assert_eq!(pool.read("acme", SHORT, || 7).await, Ok(7));
        assert_eq!(pool.plan("globex", async { 7 }).await, Ok(7));

        done.store(true, Ordering::SeqCst);
        for slow in slow {
            assert_eq!(slow.await.unwrap(), Ok(()));
        }
        assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
        assert!(pool.0.by_owner.lock().unwrap().is_empty());
    }
}
