//! The handle of an open embedded store: its threads, and how they end.

use super::{
    commit::writer::{Work, Writer},
    folder::{boot, watermark},
    maintenance,
    open_report::Report,
    shared::{RunMode, Shared},
    threads::{checkpoint::Wanted, readers::Readers},
};
use crate::{Error, Hold, Sequence, sync::lock_unpoisoned};
use std::{
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicUsize, mpsc::SyncSender},
    thread::JoinHandle,
};
use tokio::sync::{Semaphore, mpsc::UnboundedSender, oneshot};

/// The unit of the inbox, in bytes.
pub(super) const ROOM: usize = 1 << 10;

/// A store in its own folder, for one process.
///
/// Call [`Embedded::close`] at the end. A store that is dropped, or whose process is killed, loses no acknowledged
/// commit and opens a little slower.
pub struct Embedded {
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: UnboundedSender<Work>,
    pub(super) writer: Arc<Mutex<Writer>>,
    /// The number of commits in the inbox.
    pub(super) waiting: Arc<AtomicUsize>,
    pub(super) room: Arc<Semaphore>,
    pub(super) readers: Mutex<Option<Arc<Readers>>>,
    pub(super) wanted: Mutex<Option<SyncSender<Wanted>>>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
}

/// An opened store, and the report of its opening.
pub struct Opened {
    /// The store.
    pub store: Embedded,
    /// The findings of the opening, and the repairs.
    pub report: Report,
}

pub(super) fn closed() -> Error {
    Error::Unavailable { why: "the store is closed".into() }
}

impl Embedded {
    /// Returns the hold of the store in `dir`, which must not be open.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the folder cannot be read.
    pub fn hold_in(dir: &Path) -> Result<Option<Hold>, Error> {
        let unread = |error| Error::Unavailable { why: format!("{}: {error}", dir.display()) };
        maintenance::read(dir).map_err(unread)
    }

    fn readers(&self) -> Result<Arc<Readers>, Error> {
        lock_unpoisoned(&self.readers).clone().ok_or_else(closed)
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.readers()?.read(&self.shared, read).await
    }

    /// Writes a snapshot of all acknowledged commits and drops the journal before it. Commits continue meanwhile.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Unavailable`] when it cannot be written; the former snapshot and journal stay.
    pub async fn checkpoint(&self) -> Result<Sequence, Error> {
        let (reply, answer) = oneshot::channel();
        let wanted = lock_unpoisoned(&self.wanted).clone().ok_or_else(closed)?;
        // The channel is as slow as a checkpoint, so waiting for it must not block the caller's runtime.
        self.read(move |_| wanted.send(reply).map_err(|_| closed())).await?;
        answer.await.map_err(|_| closed())?
    }

    /// Runs `read` on one state of the store. Commits wait meanwhile.
    pub(crate) async fn paused<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (paused, pausing) = oneshot::channel();
        let (resume, until) = std::sync::mpsc::channel();
        self.inbox.send(Work::Pause(paused, until)).map_err(|_| closed())?;
        pausing.await.map_err(|_| closed())?;
        let result = self.read(read).await;
        drop(resume);
        result
    }

    /// Commits all waiting requests, brings the index up to date, and ends all threads. Commits from now on are refused.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a thread ended in a panic; nothing acknowledged is lost by that.
    pub async fn close(&self) -> Result<(), Error> {
        self.shut_down(RunMode::Drain).await
    }

    /// Ends all threads where they are, as if the process had been killed.
    #[cfg(test)]
    pub(crate) async fn kill(&self) {
        self.shared.set_run_mode(RunMode::Stop);
        self.shut_down(RunMode::Stop).await.unwrap();
    }

    async fn shut_down(&self, run_mode: RunMode) -> Result<(), Error> {
        // An error means that the writer has ended already.
        let _ = self.inbox.send(Work::Stop);
        drop(lock_unpoisoned(&self.readers).take());
        drop(lock_unpoisoned(&self.wanted).take());
        let threads = std::mem::take(&mut *lock_unpoisoned(&self.threads));
        let (shared, (done, ended)) = (self.shared.clone(), oneshot::channel());
        let join = move || {
            let ended = end_threads(&shared, run_mode, threads);
            // Before the answer: its receiver may open the folder again.
            drop(shared);
            let _ = done.send(ended);
        };
        std::thread::Builder::new()
            .name("store-close".into())
            .spawn(join)
            .map_err(|error| Error::Unavailable { why: format!("no thread to close the store: {error}") })?;
        ended.await.map_err(|_| closed())?
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Without waiting: this may run on a worker of the caller's runtime. The folder stays locked until the
        // threads have ended.
        let _ = self.inbox.send(Work::Stop);
        self.shared.set_run_mode(RunMode::Stop);
    }
}

/// Ends the threads: the writer first, so that what it acknowledges last still reaches the index.
fn end_threads(shared: &Arc<Shared>, run_mode: RunMode, threads: Vec<JoinHandle<()>>) -> Result<(), Error> {
    let mut panicked = false;
    let mut threads = threads.into_iter();
    if let Some(writer) = threads.next() {
        panicked |= writer.join().is_err();
    }
    shared.set_run_mode(run_mode);
    for thread in threads {
        panicked |= thread.join().is_err();
    }
    if run_mode == RunMode::Drain {
        let sequence = shared.memtable().last();
        let written = watermark::Writer::open(&shared.dir)
            .and_then(|head| head.write(watermark::Watermark { sequence, opens: shared.opens }));
        if let Err(error) = written {
            tracing::warn!("HEAD in {} could not be written: {error}", shared.dir.display());
        }
    }
    let synced = lock_unpoisoned(&shared.deliveries).sync();
    if panicked {
        return Err(Error::Unavailable { why: "a thread of the store ended in a panic".into() });
    }
    if run_mode == RunMode::Drain {
        // Last of all. If it fails, the first start after a reboot probes every task first.
        if let Err(error) = synced.and_then(|()| boot::closed(&shared.dir)) {
            tracing::warn!("BOOT in {} could not be written: {error}", shared.dir.display());
        }
    }
    Ok(())
}
