//! Several processes on one database, each with its own store.

use super::{opened, options};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{
    Commit, Entry, Error, ExecutionId, Key, Put, Read, Sequence, Store, Task, TaskId, Timestamp,
    postgres::PostgresOptions,
};
use tests::{
    proxies::tcp::Proxy,
    servers::postgres::{Cluster, installed},
};

/// Of two processes that read the same version, one commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_with_the_same_revision_one_commits() {
    let Some(options) = options() else { return };
    let (one, two) = (opened(&options).await, opened(&options).await);
    let key = Key::new("things", "a");
    let mut won = [0; 2];
    for _ in 0..50 {
        let version = one.document(&key).await.unwrap().map(|document| document.version);
        let commit = |by: u8| Commit {
            reads: vec![Read { key: key.clone(), version }],
            documents: vec![Put { key: key.clone(), body: Some(vec![by]) }],
            ..Commit::default()
        };
        let (a, b) = tokio::join!(one.commit(commit(0)), two.commit(commit(1)));
        assert_eq!(a.is_ok() as u8 + b.is_ok() as u8, 1, "{a:?} {b:?}");
        assert!([&a, &b].iter().any(|answer| matches!(answer, Err(Error::Conflict { .. }))));
        won[usize::from(b.is_ok())] += 1;
        assert_eq!(two.document(&key).await.unwrap().unwrap().body, [u8::from(b.is_ok())]);
    }
    assert_eq!(won[0] + won[1], 50);
}

/// S08. A barred process writes nothing more, and a new process of its name is a different one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_process_writes_nothing_more() {
    let Some(options) = options() else { return };
    let (one, two) = (opened(&options).await, opened(&options).await);
    assert_ne!(one.lease_holder(), two.lease_holder());
    let put = |n: u8| Commit {
        documents: vec![Put { key: Key::new("things", n.to_string()), body: Some(vec![n]) }],
        ..Commit::default()
    };
    one.commit(put(1)).await.unwrap();

    let engines = two.engine_processes().await.unwrap();
    let first = engines.iter().find(|engine| one.lease_holder().ends_with(&engine.id.to_string())).unwrap();
    assert!(two.fence_process(first.id).await.unwrap());

    let late = one.commit(put(2)).await;
    assert!(matches!(&late, Err(Error::Unavailable { why }) if why.contains("start it again")), "{late:?}");
    two.commit(put(3)).await.unwrap();
    assert!(two.document(&Key::new("things", "2")).await.unwrap().is_none());
}

/// S09. The wire is cut repeatedly, also between a commit and its answer: each commit is made once and acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_made_once() {
    let Some(options) = options() else { return };
    let port = options.url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
    let wire = Proxy::to(port).unwrap();
    let url = options.url.replace(&port.to_string(), &wire.port().to_string());
    let store = opened(&PostgresOptions { url, ..options }).await;
    let stop = Arc::new(AtomicBool::new(false));
    let all = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..8_u64)
        .map(|writer| {
            let (store, stop, all) = (store.clone(), stop.clone(), all.clone());
            tokio::spawn(async move {
                let mut made = Vec::new();
                while !stop.load(Ordering::Acquire) {
                    let word = format!("{writer}-{}", made.len());
                    let journal = vec![entry(writer, &word)];
                    store.commit(Commit { journal, ..Commit::default() }).await.unwrap();
                    made.push(word);
                    all.fetch_add(1, Ordering::Relaxed);
                }
                made
            })
        })
        .collect();
    // Longer on a busy machine, until there were enough commits between the cuts.
    for cut in 0..600_u64 {
        if cut >= 60 && all.load(Ordering::Relaxed) > 120 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(15 + cut * 7 % 40)).await;
        wire.cut(true);
        tokio::time::sleep(Duration::from_millis(2)).await;
        wire.cut(false);
    }
    stop.store(true, Ordering::Release);
    let mut made = Vec::new();
    for writer in writers {
        made.extend(writer.await.unwrap());
    }

    assert!(store.health().await.retries > 10);
    let history = store.history(None, 1_000_000).await.unwrap().items;
    let mut found: Vec<String> = history.into_iter().map(|(_, entry)| entry.event).collect();
    assert!(found.len() > 100, "{}", found.len());
    made.sort();
    found.sort();
    assert_eq!(found, made);
    store.close().await.unwrap();
}

/// S08. A process returns a task or shuts down with one: another process is notified and leases it at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returned_or_abandoned_tasks_are_available_to_other_processes_at_once() {
    let Some(options) = options() else { return };
    let (one, two) = (opened(&options).await, opened(&options).await);
    let (now, hour) = (Timestamp(1_000), Duration::from_secs(3_600));
    let id = TaskId { execution: ExecutionId::new(now, [3; 10]), visit: 1, slot: 0 };
    let schedule = vec![Task { id, due: now, body: Vec::new() }];
    one.commit(Commit { schedule, ..Commit::default() }).await.unwrap();
    let told =
        async |within: u64| tokio::time::timeout(Duration::from_millis(within), two.wait_for_changes()).await;
    let taken = async || one.lease(&one.lease_holder(), now, hour, 10).await.unwrap().remove(0);
    let nobody_has_it = async |deliveries: u32| {
        assert!(told(5_000).await.is_ok(), "the process was not notified");
        let lease = two.lease(&two.lease_holder(), now, hour, 10).await.unwrap().remove(0);
        assert_eq!((lease.task.id, lease.deliveries), (id, deliveries));
        two.release(id, lease.epoch, now, lease.deliveries - 1).await.unwrap();
    };

    let lease = taken().await;
    while told(300).await.is_ok() {}
    one.release(id, lease.epoch, now, 0).await.unwrap();
    nobody_has_it(1).await;

    let lease = taken().await;
    while told(300).await.is_ok() {}
    one.close().await.unwrap();
    nobody_has_it(2).await;
    let late = two.renew(id, lease.epoch, now.after(hour)).await;
    assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
    two.close().await.unwrap();
}

/// With a backlog, tasks that a lost process had begun are leased before new ones: the next request takes all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_a_lost_process_is_taken_over_before_a_backlog() {
    let Some(options) = options() else { return };
    let (lost, other) = (opened(&options).await, opened(&options).await);
    let task = |number: u64, due: u64| Task {
        id: TaskId { execution: ExecutionId::new(Timestamp(number), [3; 10]), visit: 1, slot: 0 },
        due: Timestamp(due),
        body: Vec::new(),
    };
    let begun: Vec<_> = (0..8).map(|number| task(number, 1_000)).collect();
    lost.commit(Commit { schedule: begun.clone(), ..Commit::default() }).await.unwrap();
    let leases =
        lost.lease(&lost.lease_holder(), Timestamp(1_000), Duration::from_secs(10), 8).await.unwrap();
    assert_eq!(leases.len(), 8);
    // Due while the others were leased, so that all of these have waited longer when the leases expire.
    let waiting = (100..500).map(|number| task(number, 2_000)).collect();
    lost.commit(Commit { schedule: waiting, ..Commit::default() }).await.unwrap();

    let later = Timestamp(12_000);
    let taken = other.lease(&other.lease_holder(), later, Duration::from_secs(10), 16).await.unwrap();

    assert_eq!(taken.len(), 16);
    assert!(taken[..8].iter().all(|lease| begun.contains(&lease.task) && lease.deliveries == 2), "{taken:?}");
    assert!(taken[8..].iter().all(|lease| lease.deliveries == 1));
    let next = other.lease(&other.lease_holder(), later, Duration::from_secs(10), 16).await.unwrap();
    assert!(next.iter().all(|lease| lease.task.due == Timestamp(2_000)));
}

fn entry(writer: u64, event: &str) -> Entry {
    Entry {
        sequence: Sequence(0),
        execution: ExecutionId::new(Timestamp(writer), [1; 10]),
        at: Timestamp(1),
        actor: "ada".into(),
        event: event.into(),
        from: String::new(),
        to: String::new(),
        detail: Vec::new(),
    }
}

/// An emptied part of the history is dropped; a part with retained or new rows stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_the_history_is_dropped_once_it_is_old_and_empty() {
    let Some(options) = options() else { return };
    let store = opened(&options).await;
    let one = |n: u64| Commit { journal: vec![entry(n, "said")], ..Commit::default() };
    store.commit(one(1)).await.unwrap();
    let sql = |sql: &str| {
        let cluster = Cluster::shared(installed().unwrap()).unwrap();
        cluster.sql(&format!("SET search_path = {}; {sql}", options.schema)).unwrap()
    };
    let parts = || {
        let names = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND \
             relname LIKE 'journal\\_%' AND relnamespace = current_schema()::regnamespace";
        sql(names)
    };
    // The part of every sequence exists.
    for at in [4_999_999, 10_000_000, 14_999_999, 24_999_999] {
        sql(&format!("UPDATE head SET sequence = {at}"));
        store.commit(one(at)).await.unwrap();
    }
    assert!(store.drop_empty_partitions().await.unwrap().is_empty(), "no part is both full and empty");
    assert_eq!(parts(), "journal_0 journal_1 journal_2 journal_3 journal_4", "two parts exist in advance");

    sql("DELETE FROM journal WHERE sequence > 10000000 AND sequence < 20000000");
    assert_eq!(store.drop_empty_partitions().await.unwrap(), ["journal_1"]);

    assert_eq!(parts(), "journal_0 journal_2 journal_3 journal_4", "the next parts are empty and not full");
    let left = store.history(None, 100).await.unwrap().items.len();
    assert_eq!(left, 3);
    store.commit(one(5)).await.unwrap();
    store.close().await.unwrap();
}
