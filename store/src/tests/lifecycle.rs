//! Opening, closing, killing and reopening.

use crate::{Embedded, Error, Filter, Hold, Options, Sequence, Store, Timestamp, tests::fixture::*};
use std::{
    ops::RangeInclusive,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

const TTL: Duration = Duration::from_secs(60);

#[tokio::test]
async fn acknowledged_commits_survive_a_close_and_a_kill() {
    for tidy in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (store, report) = open(folder.path(), options());
        assert_eq!(report.sequence.0, 0);
        for n in 1..=200 {
            store.commit(nth(n)).await.unwrap();
        }
        if tidy {
            store.close().await.unwrap()
        } else {
            store.kill().await
        }
        drop(store);

        let (store, report) = open(folder.path(), options());

        assert_eq!(report.sequence.0, 200, "{report}");
        assert_eq!(report.rebuilt_index, None);
        assert!(!tidy || report.replayed == 0, "{report}");
        assert_eq!(store.list(&Filter::default(), None, 1000).await.unwrap().items.len(), 200);
        assert_eq!(body_of(&store, "head").await.unwrap(), b"200");
        assert_eq!(store.documents("nodes", "", None, 1000).await.unwrap().items.len(), 8);
        assert_eq!(store.guard_holder("tenant/t-7").await.unwrap(), Some(id(7)));
        assert_eq!(store.health().await.tasks, 200);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn tasks_in_memory_count_as_delivered_after_a_kill_and_are_not_leased_during_a_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), unhurried());
    store.commit(nth(1)).await.unwrap();
    let first = store.lease_from_memory("a", Timestamp(1), TTL).unwrap();
    assert_eq!((first.deliveries, first.task), (1, task(1, 0, 1)));
    store.kill().await;
    drop(store);

    let (store, _) = open(folder.path(), options());
    let again = store.lease("a", Timestamp(1), TTL, 1).await.unwrap().remove(0);
    assert_eq!(again.deliveries, 2);
    assert!(again.epoch > first.epoch);
    store.commit(nth(2)).await.unwrap();
    store.hold(Hold { since: Timestamp(9), why: "moved".into() }).await.unwrap();
    assert_eq!(store.lease_from_memory("a", Timestamp(10), TTL), None);
    store.close().await.unwrap();
}

/// Health and leasing must take the locks of the tasks and of the hold in the same order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_checks_and_leases_never_deadlock() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(open(folder.path(), unhurried()).0);
    store.commit(nth(1)).await.unwrap();
    let asked = store.clone();
    let asking = tokio::spawn(async move {
        for _ in 0..2_000 {
            asked.health().await;
        }
    });
    let handed = store.clone();
    let handing = tokio::task::spawn_blocking(move || {
        while !asking.is_finished() {
            drop(handed.lease_from_memory("a", Timestamp(0), TTL));
        }
    });
    let both = tokio::time::timeout(Duration::from_secs(60), handing).await;
    both.expect("neither blocks").unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_second_opening_names_the_process_that_holds_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), options());

    let second = Embedded::open(folder.path(), options()).map(|opened| opened.report);

    let Err(Error::Refused { why }) = second else { panic!("{second:?}") };
    assert!(why.contains(&format!("is in use by process {}", std::process::id())), "{why}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn deliveries_and_epochs_outlive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), options());
    store.commit(nth(1)).await.unwrap();
    let first = store.lease("a", Timestamp(1), TTL, 9).await.unwrap().remove(0);
    store.kill().await;
    drop(store);

    let (store, _) = open(folder.path(), options());
    let second = store.lease("b", Timestamp(1), TTL, 9).await.unwrap().remove(0);

    assert_eq!((first.deliveries, second.deliveries), (1, 2));
    assert!(second.epoch > first.epoch);
    assert_eq!(store.renew(first.task.id, first.epoch, Timestamp(9)).await.ok(), None);
    store.close().await.unwrap();
}

/// `deliveries.log` is never synced, so a power cut may delete it or restore old content.
#[tokio::test]
async fn after_a_power_cut_every_task_counts_as_delivered() {
    for cut in ["all", "half a row", "nothing"] {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path(), options());
        store.commit(nth(1)).await.unwrap();
        let first = store.lease("a", Timestamp(1), TTL, 9).await.unwrap().remove(0);
        assert_eq!(first.deliveries, 1);
        store.kill().await;
        drop(store);
        let log = std::fs::OpenOptions::new().write(true).open(folder.path().join("deliveries.log")).unwrap();
        match cut {
            "all" => log.set_len(0).unwrap(),
            "half a row" => log.set_len(20).unwrap(),
            _ => {}
        }
        std::fs::write(folder.path().join("BOOT"), "open 00000000-0000-0000-0000-000000000000\n").unwrap();

        let (store, _) = open(folder.path(), options());

        let again = store.lease("b", Timestamp(1), TTL, 9).await.unwrap().remove(0);
        assert_eq!(again.deliveries, 2, "{cut}");
        store.close().await.unwrap();
    }
}

/// A store of an earlier version has no `BOOT`, and a damaged file proves nothing either.
#[tokio::test]
async fn without_a_valid_boot_file_unsynced_writes_count_as_lost() {
    for said in [None, Some(""), Some("open"), Some("clos")] {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path(), options());
        store.commit(nth(1)).await.unwrap();
        store.kill().await;
        drop(store);
        let boot = folder.path().join("BOOT");
        match said {
            Some(said) => std::fs::write(&boot, said).unwrap(),
            None => std::fs::remove_file(&boot).unwrap(),
        }

        let (store, _) = open(folder.path(), options());

        assert_eq!(store.lease("a", Timestamp(1), TTL, 9).await.unwrap().remove(0).deliveries, 2, "{said:?}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn after_an_orderly_close_and_a_reboot_no_task_is_probed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), options());
    store.commit(nth(1)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    assert_eq!(std::fs::read_to_string(folder.path().join("BOOT")).unwrap(), "closed\n");

    let (store, _) = open(folder.path(), options());

    assert_eq!(store.lease("a", Timestamp(1), TTL, 9).await.unwrap().remove(0).deliveries, 1);
    store.close().await.unwrap();
}

/// A task that was deferred untried counts as untried after a kill too; otherwise it would be probed.
#[tokio::test]
async fn the_delivery_count_of_a_returned_task_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), options());
    store.commit(nth(1)).await.unwrap();
    let first = store.lease("a", Timestamp(1), TTL, 9).await.unwrap().remove(0);
    store.release(first.task.id, first.epoch, Timestamp(90), 0).await.unwrap();
    store.kill().await;
    drop(store);

    let (store, _) = open(folder.path(), options());

    assert_eq!(store.lease("b", Timestamp(1), TTL, 9).await.unwrap().remove(0).deliveries, 1);
    store.close().await.unwrap();
}

/// S57. After a kill, and with an index rebuilt from the journal, tenants take turns as before.
#[tokio::test]
async fn tenants_take_turns_over_a_kill_and_a_lost_index() {
    for lose in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path(), options());
        for n in 1..=60 {
            // Tenant t-1 has forty tasks, t-2 and t-0 ten each.
            let mut commit = nth(n);
            commit.schedule = vec![task(n, 0, n)];
            let tenant = if n <= 40 {
                "t-1"
            } else if n <= 50 {
                "t-2"
            } else {
                "t-0"
            };
            commit.record.as_mut().unwrap().record.tenant = tenant.into();
            store.commit(commit).await.unwrap();
        }
        store.kill().await;
        drop(store);
        if lose {
            std::fs::remove_dir_all(folder.path().join("index")).unwrap();
        }

        let (store, _) = open(folder.path(), options());

        let mut order = Vec::new();
        for _ in 0..30 {
            let lease = store.lease("a", Timestamp(100), TTL, 1).await.unwrap().remove(0);
            order.push(store.load(lease.task.id.execution).await.unwrap().unwrap().tenant);
        }
        for three in order.windows(3) {
            let mut three = three.to_vec();
            three.sort_unstable();
            assert_eq!(three, ["t-0", "t-1", "t-2"], "{order:?}");
        }
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_lost_index_is_rebuilt_from_snapshot_and_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), unhurried());
    for n in 1..=100 {
        store.commit(nth(n)).await.unwrap();
    }
    store.commit(put("large", &vec![b'x'; 200 << 10])).await.unwrap();
    assert_eq!(store.checkpoint().await.unwrap().0, 101);
    for n in 102..=150 {
        store.commit(nth(n)).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();

    let (store, report) = open(folder.path(), options());

    assert_eq!(report.rebuilt_index.as_deref(), Some("it was missing"));
    assert_eq!((report.sequence.0, report.replayed), (150, 49));
    assert_eq!(store.list(&Filter::default(), None, 1000).await.unwrap().items.len(), 149);
    assert_eq!(body_of(&store, "large").await.unwrap().len(), 200 << 10);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_bounds_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), unhurried());
    for n in 1..=400 {
        store.commit(nth(n)).await.unwrap();
    }
    let segments = || std::fs::read_dir(folder.path().join("journal")).unwrap().count();
    let before = segments();

    store.checkpoint().await.unwrap();

    assert!(before > 5 && segments() <= 2, "{before} files, then {}", segments());
    store.close().await.unwrap();
}

#[tokio::test]
async fn long_values_leave_no_files_behind_when_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), options());
    for n in 0..100_u32 {
        store.commit(put("large", &vec![b'x'; 200_000 + usize::try_from(n).unwrap()])).await.unwrap();
        if n % 10 == 0 {
            store.checkpoint().await.unwrap();
        }
    }
    store.commit(put("large", b"small")).await.unwrap();
    store.close().await.unwrap();

    let blobs = folder.path().join("index/blobs");
    let files = std::fs::read_dir(blobs).map_or(0, Iterator::count);

    assert!(files < 8, "{files} blob files");
}

/// Where the syncs of `commits` ran: in the caller, or in the writer thread.
async fn synced_by_callers(folder: &Path, commits: RangeInclusive<u64>, quick_sync: Duration) -> Vec<bool> {
    let options = Options { quick_sync, ..unhurried() };
    let by = Arc::new(Mutex::new(Vec::new()));
    let note = by.clone();
    options.faults.after_sync.set(move || {
        note.lock().unwrap().push(thread::current().name() != Some("store-write"));
    });
    let (store, _) = open(folder, options);
    for n in commits {
        store.commit(nth(n)).await.unwrap();
    }
    store.close().await.unwrap();
    assert!(store.commit(nth(0)).await.is_err(), "it is closed");
    std::mem::take(&mut *by.lock().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_caller_commits_on_its_own_thread_and_never_on_a_slow_device() {
    let folder = tempfile::tempdir().unwrap();
    let quick = synced_by_callers(folder.path(), 1..=200, Duration::from_secs(60)).await;
    assert!(
        quick[..4].iter().all(|by_caller| !by_caller),
        "the first commits use the writer thread: {quick:?}"
    );
    // How soon depends on the load of the machine.
    assert!(quick.iter().filter(|by_caller| **by_caller).count() > 20, "{quick:?}");
    let slow = synced_by_callers(folder.path(), 201..=240, Duration::from_nanos(1)).await;
    assert!(slow.iter().all(|by_caller| !by_caller), "{slow:?}");
    let (store, report) = open(folder.path(), unhurried());
    assert_eq!(report.sequence.0, 240, "{report}");
    for n in 1..=240 {
        assert!(store.load(id(n)).await.unwrap().is_some(), "{n}");
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn alternating_single_and_concurrent_commits_have_one_order() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), Options { quick_sync: Duration::from_secs(60), ..unhurried() });
    let store = Arc::new(store);
    let mut last = 0;
    let mut seen = Vec::new();
    for round in 0..12 {
        for _ in 0..8 {
            last += 1;
            seen.push(store.commit(nth(last)).await.unwrap().sequence);
        }
        let burst = last + 1..=last + 10 + round;
        last = *burst.end();
        let many: Vec<_> = burst
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { store.commit(nth(n)).await.unwrap().sequence })
            })
            .collect();
        for one in many {
            seen.push(one.await.unwrap());
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=last).map(Sequence).collect::<Vec<_>>());
    store.close().await.unwrap();
}
