//! Copies, imports and holds: a store that is not the original is held.

use crate::{
    Commit, Embedded, Error, Hold, Options, Store, Timestamp,
    tests::fixture::*,
    transfer::{Source, export_folder, import},
};
use std::{fs, io, path::Path, time::Duration};

const TTL: Duration = Duration::from_millis(100);

/// A closed store with one untried task.
async fn made(dir: &Path) {
    let (store, _) = open(dir, options());
    let schedule = vec![task(1, 0, 5)];
    store.commit(Commit { schedule, ..Commit::default() }).await.unwrap();
    store.close().await.unwrap();
}

/// Copies everything, like `cp -r`.
fn copy_all(from: &Path, to: &Path) {
    copy(from, to);
    fs::copy(from.join("PLACE"), to.join("PLACE")).unwrap();
}

/// Returns the delivery count of the task, after the end of a hold if there is one.
async fn released(store: &Embedded) -> u32 {
    if let Some(hold) = store.current_hold().await.unwrap() {
        assert!(store.lease("w", Timestamp(100), TTL, 9).await.unwrap().is_empty());
        assert!(store.unhold(hold.since).await.unwrap());
    }
    let leases = store.lease("w", Timestamp(100), TTL, 9).await.unwrap();
    assert_eq!(leases.len(), 1);
    leases[0].deliveries
}

#[tokio::test]
async fn a_copy_of_a_folder_is_held_and_the_folder_it_was_copied_from_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    made(&first).await;
    copy_all(&first, &second);

    let (restored, _) = open(&second, options());
    let hold = restored.current_hold().await.unwrap().unwrap();
    assert!(hold.why.contains("second is a copy"), "{hold:?}");
    restored.close().await.unwrap();
    drop(restored);
    let (restored, _) = open(&second, options());
    assert_eq!(restored.current_hold().await.unwrap(), Some(hold), "until it is released");
    assert_eq!(released(&restored).await, 2, "it may have been done before");
    restored.close().await.unwrap();
    drop(restored);
    let (restored, _) = open(&second, options());
    assert_eq!(restored.current_hold().await.unwrap(), None, "it is at home there now");

    let (stayed, _) = open(&first, options());
    assert_eq!(stayed.current_hold().await.unwrap(), None);
    assert_eq!(released(&stayed).await, 1);
}

/// An operation on the folder of a store.
type Spoiling<'a> = &'a dyn Fn(&Path);

/// Every way in which a store can get to another place. Until an operator releases it, it runs no work.
#[tokio::test]
async fn a_store_that_cannot_prove_its_place_is_held_until_the_named_command_releases_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first");
    made(&first).await;
    let sink = Sink::default();
    export_folder(&first, sink.clone(), Source::KeepsRunning).await.unwrap();
    let place = |dir: &Path| dir.join("PLACE");
    let kinds: [(&str, Spoiling); 7] = [
        ("is a copy", &|_| {}),
        ("is missing", &|dir| fs::remove_file(place(dir)).unwrap()),
        ("it is empty", &|dir| fs::write(place(dir), "").unwrap()),
        ("does not name a file", &|dir| fs::write(place(dir), b"\xff\xfe garbage").unwrap()),
        ("does not name a file", &|dir| fs::write(place(dir), "inode 7").unwrap()),
        ("cannot be read", &|dir| {
            fs::remove_file(place(dir)).unwrap();
            fs::create_dir(place(dir)).unwrap();
        }),
        ("made from an export", &|dir| {
            fs::remove_dir_all(dir).unwrap();
            import(sink.bytes().as_slice(), dir).unwrap();
        }),
    ];
    for (place, (why, damage)) in kinds.iter().enumerate() {
        let dir = folder.path().join(format!("copy-{place}"));
        copy_all(&first, &dir);
        damage(&dir);

        let (restored, _) = open(&dir, options());
        let hold = restored.current_hold().await.unwrap().unwrap();
        assert!(hold.why.contains(why) && hold.why.contains("tenure store release"), "{hold:?}");
        assert_eq!(released(&restored).await, 2, "{why}: it may have been done before");
        restored.close().await.unwrap();
        drop(restored);
        let (restored, _) = open(&dir, options());
        assert_eq!(restored.current_hold().await.unwrap(), None, "{why}: it is in its place now");
        restored.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_that_is_renamed_is_not_held_and_neither_is_one_without_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    made(&first).await;
    fs::rename(&first, &second).unwrap();
    let (renamed, _) = open(&second, options());
    assert_eq!(renamed.current_hold().await.unwrap(), None);
    renamed.close().await.unwrap();
    drop(renamed);
    let third = folder.path().join("third");
    copy_all(&second, &third);
    let (unnoticed, _) = open(&third, Options { notice_copies: false, ..options() });
    assert_eq!(unnoticed.current_hold().await.unwrap(), None, "on a file system that renumbers files");

    // The state after a kill during the first opening.
    let empty = folder.path().join("empty");
    let (store, _) = open(&empty, options());
    store.close().await.unwrap();
    drop(store);
    fs::remove_file(empty.join("PLACE")).unwrap();
    let (store, _) = open(&empty, options());
    assert_eq!(store.current_hold().await.unwrap(), None, "there is nothing to perform");
}

#[tokio::test]
async fn an_import_is_held_unless_the_store_that_was_exported_is() {
    let folder = tempfile::tempdir().unwrap();
    for (source, there, here, deliveries) in
        [(Source::KeepsRunning, true, false, 2), (Source::Replaced, false, true, 1)]
    {
        let name = format!("{source:?}");
        let (old, new) = (folder.path().join(format!("old-{name}")), folder.path().join(name));
        made(&old).await;
        let sink = Sink::default();
        export_folder(&old, sink.clone(), source).await.unwrap();
        import(sink.bytes().as_slice(), &new).unwrap();

        let (arrived, _) = open(&new, options());
        let hold = arrived.current_hold().await.unwrap();
        assert_eq!(hold.is_some(), there, "{hold:?}");
        assert_eq!(released(&arrived).await, deliveries);
        let (left, _) = open(&old, options());
        let hold = left.current_hold().await.unwrap();
        assert_eq!(hold.is_some(), here, "{hold:?}");
        assert!(hold.is_none_or(|hold| hold.why.contains("continue elsewhere")));
    }
}

/// A hold and its delivery counts are on the disk before it is acknowledged.
#[tokio::test]
async fn a_hold_survives_a_kill_and_a_damaged_hold_file_also_holds() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path()).await;
    let (store, _) = open(folder.path(), options());
    let hold = Hold { since: Timestamp(3), why: "a drill".into() };
    store.hold(hold.clone()).await.unwrap();
    store.kill().await;
    drop(store);

    let (store, _) = open(folder.path(), options());
    assert_eq!(store.current_hold().await.unwrap(), Some(hold));
    store.close().await.unwrap();
    drop(store);
    fs::write(folder.path().join("HELD"), "{").unwrap();
    let (store, _) = open(folder.path(), options());
    let hold = store.current_hold().await.unwrap().unwrap();
    assert!(hold.why.contains("is invalid"), "{hold:?}");
    assert_eq!(released(&store).await, 2);
}

/// An interrupted import does not block the next one.
#[tokio::test]
async fn an_import_that_was_interrupted_at_its_end_can_be_repeated() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    made(&old).await;
    let sink = Sink::default();
    export_folder(&old, sink.clone(), Source::KeepsRunning).await.unwrap();
    import(sink.bytes().as_slice(), &new).unwrap();
    // The state after a kill between its last two steps.
    fs::write(new.join(crate::embedded::IMPORTING), "")?;
    assert!(new.join("deliveries.log").exists() && new.join("HELD").exists());

    import(sink.bytes().as_slice(), &new).unwrap();

    let (arrived, _) = open(&new, options());
    assert!(arrived.current_hold().await.unwrap().is_some());
    Ok(())
}

/// Targets must see growing epochs, even from different copies.
#[tokio::test]
async fn epochs_continue_above_those_of_the_copied_or_moved_store() {
    let folder = tempfile::tempdir().unwrap();
    let (first, copied) = (folder.path().join("first"), folder.path().join("copied"));
    made(&first).await;
    copy_all(&first, &copied);
    let exported = |source| {
        let (first, sink) = (first.clone(), Sink::default());
        async move {
            export_folder(&first, sink.clone(), source).await.unwrap();
            sink.bytes()
        }
    };
    let restored = folder.path().join("restored");
    import(exported(Source::KeepsRunning).await.as_slice(), &restored).unwrap();
    // The original continues meanwhile, and is opened now and then.
    let mut last = 0;
    for _ in 0..5 {
        last = last.max(epoch(&first).await);
    }
    let moved = folder.path().join("moved");
    import(exported(Source::Replaced).await.as_slice(), &moved).unwrap();

    for dir in [copied, restored, moved] {
        let next = epoch(&dir).await;
        assert!(next > last, "{}: {next} is not above {last}", dir.display());
        assert!(epoch(&dir).await > next, "and so on");
    }
}

/// Returns the epoch of a lease of the task, which is returned.
async fn epoch(dir: &Path) -> u64 {
    let (store, _) = open(dir, options());
    if let Some(hold) = store.current_hold().await.unwrap() {
        store.unhold(hold.since).await.unwrap();
    }
    let lease = store.lease("w", Timestamp(100), TTL, 9).await.unwrap().remove(0);
    store.release(lease.task.id, lease.epoch, Timestamp(5), lease.deliveries).await.unwrap();
    store.close().await.unwrap();
    lease.epoch.0
}

/// Otherwise a move would remove the hold.
#[tokio::test]
async fn a_held_store_cannot_be_moved() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path()).await;
    export_folder(folder.path(), Sink::default(), Source::Replaced).await.unwrap();

    let again = export_folder(folder.path(), Sink::default(), Source::Replaced).await;

    assert!(matches!(&again, Err(Error::Refused { why }) if why.contains("continue elsewhere")), "{again:?}");
    export_folder(folder.path(), Sink::default(), Source::KeepsRunning).await.unwrap();
}
