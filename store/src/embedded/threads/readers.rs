//! Threads that read from sled, so that a slow disk blocks no worker of the caller's runtime.

use crate::{Error, embedded::shared::Shared, sync::lock_unpoisoned};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Passes reads to the threads.
pub(crate) struct Readers {
    jobs: Sender<Job>,
}

impl Readers {
    /// Starts `count` threads; they end when this is dropped.
    pub(crate) fn start(count: usize) -> std::io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (jobs, waiting) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let start = |n| {
            let waiting = waiting.clone();
            thread::Builder::new().name(format!("store-read-{n}")).spawn(move || work(&waiting))
        };
        let threads = (0..count.max(1)).map(start).collect::<Result<Vec<_>, _>>()?;
        Ok((Self { jobs }, threads))
    }

    /// Runs `read` on one of the threads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        shared: &Arc<Shared>,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let shared = shared.clone();
        let job = move || {
            let result = catch_unwind(AssertUnwindSafe(|| read(&shared)));
            let panicked = |_| Err(Error::Unavailable { why: "reading the index panicked".into() });
            let _ = reply.send(result.unwrap_or_else(panicked));
        };
        let closed = || Error::Unavailable { why: "the store is closed".into() };
        self.jobs.send(Box::new(job)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    loop {
        // A separate statement: the lock is held while waiting, never while reading.
        let job = lock_unpoisoned(waiting).recv();
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}
