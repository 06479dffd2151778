//! Copies taken while the store works, and journals that end anywhere.

use crate::{
    Error, Memory, Options, Store,
    embedded::journal::{frame, segment, survey},
    tests::{dump::dump, fixture::*},
};
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const TENANTS: &[&str] = &["t-0", "t-1", "t-2"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_taken_at_any_moment_opens_with_every_acknowledged_commit() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("live");
    let store = Arc::new(open(&dir, unhurried()).0);
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (committing, count) = (store.clone(), acknowledged.clone());
    let worker = tokio::spawn(async move {
        for n in 1..=600 {
            committing.commit(nth(n)).await.unwrap();
            count.store(n, Ordering::Release);
        }
    });
    let memory = Memory::new();
    let mut known = 0;
    for round in 0..12 {
        tokio::time::sleep(Duration::from_millis(7 * round % 40)).await;
        let before = acknowledged.load(Ordering::Acquire);
        let copied = folder.path().join(format!("copy-{round}"));
        copy(&dir, &copied);

        let (copied_store, report) = open(&copied, unhurried());

        let sequence = report.sequence.0;
        assert!(sequence >= before, "{before} were acknowledged before the copy: {report}");
        while known < sequence {
            known += 1;
            memory.commit(nth(known)).await.unwrap();
        }
        let ids: Vec<_> = (1..=sequence).map(id).collect();
        assert_eq!(dump(&copied_store, &ids, TENANTS).await, dump(&memory, &ids, TENANTS).await);
        copied_store.close().await.unwrap();
    }
    worker.await.unwrap();
    store.close().await.unwrap();
}

/// A killed store with an empty index and `commits` commits, each in its own frame.
async fn journal_only(dir: &std::path::Path, commits: u64) {
    let slow = Duration::from_secs(60);
    let (store, _) = open(dir, Options { index_delay: slow, tick: slow, watchdog: 10 * slow, ..unhurried() });
    for n in 1..=commits {
        store.commit(nth(n)).await.unwrap();
    }
    store.kill().await;
}

#[tokio::test]
async fn a_tail_torn_at_any_byte_is_cut_and_the_rest_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    journal_only(&dir, 5).await;
    let (_, path) = segment::list(&dir).unwrap().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let frames: Vec<usize> = {
        let mut at = segment::HEADER;
        std::iter::from_fn(|| {
            let header = frame::Header::read(whole.get(at..)?)?;
            at += header.frame_bytes();
            Some(at - header.frame_bytes())
        })
        .collect()
    };
    assert_eq!(frames.len(), 5);
    let (start, header) = (frames[4], frame::Header::read(&whole[frames[4]..]).unwrap());
    let end = start + frame::HEADER + header.payload;
    for cut in start..end {
        let mut torn = whole.clone();
        // The bytes after the cut are zeros, as in a new segment.
        torn[cut..end].fill(0);
        let unchanged = torn == whole;
        fs::write(&path, torn).unwrap();

        let survey = survey::survey(&dir, |_| Ok(())).unwrap();

        assert_eq!(survey.last.0, if unchanged { 5 } else { 4 }, "cut at {}", cut - start);
        assert_eq!(survey.damage, vec![]);
        if cut % 97 == 0 {
            let copied = folder.path().join(format!("cut-{cut}"));
            copy(&dir, &copied);
            let (store, report) = open(&copied, options());
            assert_eq!(report.sequence.0, 4);
            assert_eq!(body_of(&store, "head").await.unwrap(), b"4");
            store.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn damage_in_the_middle_is_refused_by_name_unless_the_index_has_the_commits() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    journal_only(&dir, 5).await;
    let (_, path) = segment::list(&dir).unwrap().pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let second = segment::HEADER + frame::Header::read(&bytes[segment::HEADER..]).unwrap().frame_bytes();
    bytes[second + 100] ^= 1;
    fs::write(&path, bytes).unwrap();

    let refused = crate::Embedded::open(&dir, options()).map(|opened| opened.report);

    let Err(Error::Refused { why }) = refused else { panic!("{refused:?}") };
    let wanted = format!("{} is damaged at byte {second}: commits 2 to 2 cannot be read", path.display());
    assert!(why.contains(&wanted), "{why}");
    assert!(why.contains("tenure store check") && why.contains("tenure store import"), "{why}");
}

#[tokio::test]
async fn a_store_without_acknowledged_commits_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), unhurried());
    for n in 1..=5 {
        store.commit(nth(n)).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    fs::remove_dir_all(folder.path().join("index")).unwrap();
    let (_, path) = segment::list(folder.path()).unwrap().pop().unwrap();
    let cut = fs::read(&path).unwrap()[..segment::HEADER + 10].to_vec();
    fs::write(&path, cut).unwrap();

    let refused = crate::Embedded::open(folder.path(), options()).map(|opened| opened.report);

    let Err(Error::Refused { why }) = refused else { panic!("{refused:?}") };
    assert!(why.contains("commits 1 to 5 were acknowledged and cannot be found"), "{why}");
}

#[tokio::test]
async fn an_unpacked_journal_of_an_earlier_version_is_read_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    journal_only(&dir, 5).await;
    let (_, path) = segment::list(&dir).unwrap().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut earlier = whole[..segment::HEADER].to_vec();
    earlier[8..12].copy_from_slice(&1_u32.to_le_bytes());
    let (content, crc) = earlier.split_last_chunk_mut::<4>().unwrap();
    *crc = crc32c::crc32c(content).to_le_bytes();
    survey::survey(&dir, |frame| {
        earlier.extend_from_slice(&frame.plain());
        Ok(())
    })
    .unwrap();
    assert_ne!(earlier, whole[..earlier.len()], "these frames were packed");
    earlier.resize(whole.len().max(earlier.len()), 0);
    fs::write(&path, earlier).unwrap();

    let (store, report) = open(&dir, options());
    assert_eq!((report.sequence.0, body_of(&store, "head").await.unwrap()), (5, b"5".to_vec()));
    store.commit(nth(6)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let (store, report) = open(&dir, options());
    assert_eq!((report.sequence.0, body_of(&store, "head").await.unwrap()), (6, b"6".to_vec()));
    store.close().await.unwrap();
}
