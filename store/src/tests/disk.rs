//! The disk space that starts and kills leave behind.

use crate::{Options, Store, tests::fixture::*};
use std::{fs, path::Path};

/// The length of the files in `folder`, and how many there are.
fn files(folder: &Path) -> (u64, usize) {
    let lengths = fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    lengths.fold((0, 0), |(bytes, count), length| (bytes + length, count + 1))
}

#[tokio::test]
async fn starts_that_end_by_a_kill_leave_at_most_a_constant_number_of_bytes() {
    let folder = tempfile::tempdir().unwrap();
    // Only the number of starts matters.
    let sparing = || Options { checkpoint_after_bytes: u64::MAX / 4, ..options() };

    let mut most = 0;
    for n in 1..=150 {
        let (store, report) = open(folder.path(), sparing());
        assert_eq!(report.sequence.0, n - 1, "{report}");
        most = most.max(files(&folder.path().join("journal")).0);
        store.commit(nth(n)).await.unwrap();
        store.kill().await;
    }

    // 65 files of one commit, the current one, and the prepared one.
    let (one, all) = (8 << 10, 2 * sparing().segment_bytes);
    assert!(most <= 65 * one + all, "{most} bytes of journal");
    let (store, report) = open(folder.path(), sparing());
    assert_eq!(report.sequence.0, 150, "{report}");
    assert_eq!(body_of(&store, "head").await.unwrap(), b"150");
    store.close().await.unwrap();
}

#[tokio::test]
async fn starts_without_a_commit_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for n in 0..20 {
        let (store, _) = open(folder.path(), unhurried());
        if n == 0 {
            store.commit(nth(1)).await.unwrap();
        }
        store.kill().await;
        let segments = fs::read_dir(folder.path().join("journal")).unwrap();
        let log = |path: &Path| path.extension().is_some_and(|found| found == "log");
        seen.push(segments.filter(|file| log(&file.as_ref().unwrap().path())).count());
    }
    assert!(seen.iter().all(|count| *count <= 2), "{seen:?}");
}

#[tokio::test]
async fn kills_under_load_leave_a_snapshot_and_no_more_journal_than_promised() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, snapshot) = (folder.path().join("journal"), folder.path().join("snapshot"));
    let threshold = options().checkpoint_after_bytes;
    let (mut n, mut written) = (0_u64, 0);
    for _ in 0..40 {
        let (store, report) = open(folder.path(), options());
        assert_eq!(report.sequence.0, n, "{report}");
        for _ in 0..30 {
            n += 1;
            store.commit(nth(n)).await.unwrap();
        }
        let life = store.health().await.written_bytes;
        written += life;
        store.kill().await;
    }

    assert!(written > 4 * threshold, "too little was written: {written} bytes");
    assert!(files(&snapshot).1 >= 1, "40 processes were killed and left no snapshot");
    let (store, report) = open(folder.path(), options());
    assert_eq!(report.sequence.0, n, "{report}");
    let (bytes, _) = files(&journal);
    let last = files(&snapshot).0;
    let most = 2 * threshold.max(last) + threshold + 4 * options().segment_bytes;
    assert!(bytes <= most, "{bytes} bytes of journal with a snapshot of {last}");
    store.close().await.unwrap();
}
