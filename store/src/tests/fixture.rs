//! Stores for fault tests, and commits for them.

use crate::{
    Commit, Embedded, Entry, ExecutionId, Key, Options, Put, Record, Report, Revision, Sequence, Store, Task,
    TaskId, Timestamp, Write,
};
use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Small files and short waits.
pub(super) fn options() -> Options {
    Options {
        segment_bytes: 32 << 10,
        checkpoint_after_bytes: 64 << 10,
        index_delay: Duration::from_millis(5),
        tick: Duration::from_millis(20),
        cache_bytes: 8 << 20,
        open_stall: Duration::from_secs(5),
        ..Options::default()
    }
}

/// Options without automatic checkpoints.
pub(super) fn unhurried() -> Options {
    Options { checkpoint_after_bytes: u64::MAX, ..options() }
}

pub(super) fn open(dir: &Path, options: Options) -> (Embedded, Report) {
    let opened = Embedded::open(dir, options).unwrap();
    (opened.store, opened.report)
}

pub(super) fn id(n: u64) -> ExecutionId {
    ExecutionId::new(Timestamp(n), [3; 10])
}

pub(super) fn record(n: u64) -> Record {
    Record {
        id: id(n),
        revision: Revision(0),
        workflow: "onboarding".into(),
        schema: 1,
        tenant: format!("t-{}", n % 3),
        subject: format!("tenant/t-{n}"),
        guard: Some(format!("tenant/t-{n}")),
        state: "Reviewing".into(),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "ada".into(),
        created_at: Timestamp(n),
        updated_at: Timestamp(n),
        attributes: crate::Attributes::new(),
        body: format!("{{\"n\":{n}}}").into_bytes(),
    }
}

pub(super) fn task(n: u64, slot: u32, due: u64) -> Task {
    let id = TaskId { execution: id(n), visit: 1, slot };
    Task { id, due: Timestamp(due), body: format!("do {n}/{slot}").into_bytes() }
}

pub(super) fn entry(n: u64) -> Entry {
    Entry {
        sequence: Sequence(0),
        execution: id(n),
        at: Timestamp(5),
        actor: "engine".into(),
        event: "started".into(),
        from: "Reviewing".into(),
        to: "Carving".into(),
        detail: b"{\"why\":\"asked\"}".to_vec(),
    }
}

/// Returns the `n`th of a series of commits, each of which touches every part of the store.
pub(super) fn nth(n: u64) -> Commit {
    let put = |id: String, body: Option<Vec<u8>>| Put { key: Key::new("nodes", id), body };
    Commit {
        record: Some(Write { record: record(n), expected: None }),
        documents: vec![
            put(format!("n-{n}"), Some(vec![b'a' + (n % 26) as u8; 200])),
            put("head".into(), Some(n.to_string().into_bytes())),
            put(format!("n-{}", n.saturating_sub(7)), None),
        ],
        journal: vec![entry(n)],
        schedule: vec![task(n, 0, n)],
        ..Commit::default()
    }
}

pub(super) fn put(id: &str, body: &[u8]) -> Commit {
    let put = Put { key: Key::new("nodes", id), body: Some(body.to_vec()) };
    Commit { documents: vec![put], ..Commit::default() }
}

pub(super) async fn body_of(store: &dyn Store, id: &str) -> Option<Vec<u8>> {
    store.document(&Key::new("nodes", id)).await.unwrap().map(|document| document.body)
}

/// Copies a store's folder, watermark first and journal last, as a crash between two writes could leave it.
pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for part in ["HEAD", "deliveries.log", "index", "snapshot", "journal"] {
        copy_part(from, to, part);
    }
    // A crash does not change the identity of the folder.
    crate::embedded::folder::identity::record(to).unwrap();
}

/// Copies one part of it.
pub(super) fn copy_part(from: &Path, to: &Path, part: &str) {
    fs::create_dir_all(to).unwrap();
    copy_any(&from.join(part), &to.join(part));
}

fn copy_any(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for file in fs::read_dir(from).unwrap() {
            let name = file.unwrap().file_name();
            copy_any(&from.join(&name), &to.join(&name));
        }
    } else if from.exists() {
        fs::copy(from, to).unwrap();
    }
}

/// Bytes that a test can read after the writer is gone.
#[derive(Clone, Default)]
pub(super) struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}
