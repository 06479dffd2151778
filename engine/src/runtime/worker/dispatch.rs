//! The dispatcher: leases due tasks while it has capacity, and waits for the next.
//!
//! Invariant: a worker that is dropped returns its task.

use crate::{Engine, Error, MINUTE, SECOND};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use store::{Epoch, Lease, TaskId, Timestamp};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

impl<P: Send + Sync + 'static> Engine<P> {
    /// Works until `stop` resolves, then drains: leases no more tasks, lets running work end within
    /// [`Options::drain`](crate::Options::drain), and returns the rest.
    ///
    /// # Errors
    /// Returns an error if the store fails permanently.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let places = Arc::new(Semaphore::new(self.inner.options.concurrency));
        let mut working: JoinSet<()> = JoinSet::new();
        let closing = Shutdown::default();
        tokio::pin!(stop);
        'work: loop {
            if let Some(others_first) = self.inner.version_routing.yields(self.inner.clock.now()) {
                tokio::time::sleep(others_first).await;
            }
            while self.refuses_work() {
                tokio::select! {
                    () = &mut stop => break 'work,
                    () = tokio::time::sleep(SECOND) => {}
                }
            }
            self.inner.wakeup.start_looking();
            let wait = match self.dispatch(&places, &mut working, &closing).await {
                Ok(wait) => wait,
                Err(error @ store::Error::Refused { .. }) => return Err(error.into()),
                Err(error) => {
                    tracing::error!(%error, "due tasks could not be leased; trying again");
                    SECOND
                }
            };
            let until = self.inner.clock.now().after(wait);
            self.inner.wakeup.sleep_until(until);
            tokio::select! {
                // Priority: the stop first, then finished tasks, then new ones.
                biased;
                () = &mut stop => break,
                Some(_) = working.join_next(), if !working.is_empty() => {}
                () = self.inner.wakeup.notified(), if places.available_permits() > 0 => {}
                () = self.inner.store.wait_for_changes(), if places.available_permits() > 0 => {}
                () = self.inner.clock.sleep_until(until) => {}
            }
        }
        closing.close();
        tracing::info!(in_flight = working.len(), "stopping: waiting for running work");
        let drained = async { while working.join_next().await.is_some() {} };
        if tokio::time::timeout(self.inner.options.drain, drained).await.is_err() {
            tracing::warn!("running work did not end in time; its tasks are returned");
        }
        Ok(())
    }

    /// Leases due tasks up to the capacity. Returns how long to wait for the next.
    async fn dispatch(
        &self,
        places: &Arc<Semaphore>,
        working: &mut JoinSet<()>,
        closing: &Shutdown,
    ) -> Result<Duration, store::Error> {
        loop {
            let free = places.available_permits();
            // The clock may have been found wrong since the last round; the caller then waits until it is right.
            if self.refuses_work() {
                return Ok(SECOND);
            }
            if free == 0 {
                return Ok(MINUTE);
            }
            let now = self.inner.clock.now();
            let options = &self.inner.options;
            let leases = self.inner.store.lease(&options.holder, now, options.lease, free).await?;
            if leases.is_empty() {
                let next = self.inner.store.next_due().await?;
                return Ok(next
                    .map_or(MINUTE, |next| next.since(now))
                    .clamp(Duration::from_millis(1), MINUTE));
            }
            for lease in leases {
                let Ok(place) = places.clone().try_acquire_owned() else { break };
                let (engine, closing) = (self.clone(), closing.clone());
                // On the heap once: the runtime moves a task several times, and this one has some kilobytes.
                working.spawn(Box::pin(engine.work_in(place, lease, closing)));
            }
            while working.try_join_next().is_some() {}
        }
    }

    /// Works on a task, and then on further due tasks while they are in memory. Only fetched tasks need the
    /// dispatcher.
    async fn work_in(self, place: OwnedSemaphorePermit, lease: Lease, closing: Shutdown) {
        self.inner.metrics.in_flight(1);
        let mut next = Some(lease);
        while let Some(lease) = next {
            let give_back =
                ReleaseOnDrop { engine: self.clone(), task: lease.task.id, epoch: lease.epoch, armed: true };
            self.work(lease).await;
            give_back.disarm();
            next = self.next_from_memory(&closing).await;
            // Yields, so that a long series of one tenant does not block a thread.
            tokio::task::consume_budget().await;
        }
        self.inner.metrics.in_flight(-1);
        drop(place);
        // Tasks that this worker was expected to take.
        self.inner.wakeup.notify();
    }

    async fn next_from_memory(&self, closing: &Shutdown) -> Option<Lease> {
        let (now, options) = (self.inner.clock.now(), &self.inner.options);
        if self.refuses_work() || closing.is_closing() || self.inner.version_routing.yields(now).is_some() {
            return None;
        }
        let lease = self.inner.store.lease_from_memory(&options.holder, now, options.lease)?;
        // The other tasks of the last commit are for other workers.
        if let Ok(Some(next)) = self.inner.store.next_due().await
            && next <= now
        {
            self.inner.wakeup.notify();
        }
        Some(lease)
    }

    /// Returns a task, to be delivered again at `due`.
    pub(crate) async fn hand_back(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), store::Error> {
        self.inner.store.release(task, epoch, due, deliveries).await?;
        self.inner.wakeup.notify_before([due]);
        Ok(())
    }

    /// Runs every due task, one after the other, until none is due. For tests and examples.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn run_until_idle(&self) -> Result<usize, Error> {
        let mut worked = 0;
        while self.work_next().await? {
            worked += 1;
        }
        Ok(worked)
    }

    /// Runs the first due task. Returns true if there was one.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn work_next(&self) -> Result<bool, Error> {
        let options = &self.inner.options;
        let leases =
            self.inner.store.lease(&options.holder, self.inner.clock.now(), options.lease, 1).await?;
        let Some(lease) = leases.into_iter().next() else { return Ok(false) };
        self.work(lease).await;
        Ok(true)
    }
}

/// Signals the workers of one run to end.
#[derive(Clone, Default)]
struct Shutdown(Arc<AtomicBool>);

impl Shutdown {
    fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_closing(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Returns a task when its worker is dropped, as in a stop that could not wait.
struct ReleaseOnDrop<P: Send + Sync + 'static> {
    engine: Engine<P>,
    task: TaskId,
    epoch: Epoch,
    armed: bool,
}

impl<P: Send + Sync + 'static> ReleaseOnDrop<P> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl<P: Send + Sync + 'static> Drop for ReleaseOnDrop<P> {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.armed, tokio::runtime::Handle::try_current()) {
            let (engine, task, epoch) = (self.engine.clone(), self.task, self.epoch);
            runtime.spawn(async move {
                engine.hand_back(task, epoch, engine.inner.clock.now().after(SECOND), 1).await
            });
        }
    }
}
