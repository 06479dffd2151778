//! Stores a simulated platform in a file: one line of JSON per changing request, synced before it is answered.
//!
//! Concurrent calls share a sync. An incomplete last line is dropped when the file is opened: its request was not
//! answered before the crash.

use crate::simulated::Request;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

#[derive(Debug)]
pub(in crate::simulated) struct RequestLog {
    file: File,
    written: AtomicU64,
    synced: Mutex<u64>,
    broken: AtomicBool,
}

impl RequestLog {
    /// Opens or creates the file and reads its requests.
    ///
    /// # Errors
    ///
    /// Errors of the file system. `InvalidData` with the line number if a line before the last one is not a request.
    pub(in crate::simulated) fn open(path: &Path) -> io::Result<(Self, Vec<Request>)> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (requests, whole) = parse(&bytes)?;
        if whole < bytes.len() {
            tracing::warn!(
                torn = bytes.len() - whole,
                "the last line of the simulated world's log is incomplete, and is dropped"
            );
            file.set_len(whole as u64)?;
        }
        file.seek(SeekFrom::Start(whole as u64))?;
        file.sync_all()?;
        let journal =
            Self { file, written: AtomicU64::new(0), synced: Mutex::new(0), broken: AtomicBool::new(false) };
        Ok((journal, requests))
    }

    /// Appends a line and returns the position for [`RequestLog::sync`]. The caller ensures the order. A partially
    /// written line is removed.
    pub(in crate::simulated) fn append(&self, request: &Request) -> io::Result<u64> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(io::Error::other("an earlier write failed: restart the simulated world"));
        }
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let before = self.file.metadata()?.len();
        let written = (&self.file).write_all(&line);
        if written.is_err() {
            let restored = self.file.set_len(before).and_then(|()| (&self.file).seek(SeekFrom::End(0)));
            self.broken.store(restored.is_err(), Ordering::SeqCst);
        }
        written.map(|()| self.written.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Waits until the first `upto` lines are on disk.
    pub(in crate::simulated) fn sync(&self, upto: u64) -> io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= upto {
            return Ok(());
        }
        let written = self.written.load(Ordering::SeqCst);
        if let Err(error) = self.file.sync_data() {
            self.broken.store(true, Ordering::SeqCst);
            return Err(error);
        }
        *synced = written;
        Ok(())
    }
}

/// Parses requests, and returns them with the number of bytes in complete lines.
fn parse(bytes: &[u8]) -> io::Result<(Vec<Request>, usize)> {
    let mut requests = Vec::new();
    let mut whole = 0;
    for (number, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let last = whole + line.len() == bytes.len();
        match serde_json::from_slice(line) {
            Ok(request) if line.ends_with(b"\n") => requests.push(request),
            Ok(_) | Err(_) if last => break,
            Ok(_) | Err(_) => {
                let why = format!("line {} of the simulated world's log is damaged", number + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        whole += line.len();
    }
    Ok((requests, whole))
}
