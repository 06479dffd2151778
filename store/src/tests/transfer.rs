//! Exports and imports.

use crate::{
    Commit, Error, Settle, Store, Timestamp,
    tests::{dump::dump, fixture::*},
    transfer::{Source, check, export, export_folder, import},
};
use std::{path::Path, time::Duration};

const TTL: Duration = Duration::from_secs(60);

/// A store with open and finished executions, leased tasks, and JSON and other bodies.
async fn busy(dir: &Path) -> crate::Embedded {
    let (store, _) = open(dir, options());
    for n in 1..=40 {
        store.commit(nth(n)).await.unwrap();
    }
    let leases = store.lease("w", Timestamp(9), TTL, 3).await.unwrap();
    let settle = Settle { task: leases[0].task.id, epoch: leases[0].epoch };
    store.commit(Commit { settle: Some(settle), ..Commit::default() }).await.unwrap();
    store.release(leases[1].task.id, leases[1].epoch, Timestamp(77), 1).await.unwrap();
    for (id, body) in [
        ("spaced", b" {\"b\": 1,\t\"a\":1e400} ".as_slice()),
        ("json", b"{\"b\": 1.0,\"a\":[12345678901234567890123, null]}"),
        ("lines", b"[1,\n2]"),
        ("text", "no JSON, \u{2028} \"quoted\" and \\ all".as_bytes()),
        ("bytes", &[0, 255, 254, 1]),
        ("empty", b""),
        ("large", &vec![b'x'; 200 << 10]),
    ] {
        store.commit(put(id, body)).await.unwrap();
    }
    store
}

async fn exported(store: &crate::Embedded, source: Source) -> Vec<u8> {
    let sink = Sink::default();
    export(store, sink.clone(), source).await.unwrap();
    sink.bytes()
}

/// Returns all lines but the first, which has the last epoch, and the last, which says whether the store moved.
fn content(bytes: &[u8]) -> Vec<&str> {
    let lines: Vec<&str> = std::str::from_utf8(bytes).unwrap().lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

#[tokio::test]
async fn a_store_with_leased_tasks_is_imported_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let store = busy(&old).await;
    let bytes = exported(&store, Source::Replaced).await;

    let counts = import(bytes.as_slice(), &new).unwrap();

    assert_eq!((counts.records, counts.entries, counts.tasks, counts.documents), (40, 40, 39, 15));
    let (arrived, report) = open(&new, options());
    assert_eq!(report.sequence.0, store.health().await.sequence.0, "{report}");
    let ids: Vec<_> = (1..=40).map(id).collect();
    let tenants = ["t-0", "t-1", "t-2"];
    assert_eq!(dump(&store, &ids, &tenants).await, dump(&arrived, &ids, &tenants).await);
    assert_eq!(content(&exported(&arrived, Source::KeepsRunning).await), content(&bytes));
    let again = arrived.lease("w", Timestamp(100), TTL, 99).await.unwrap();
    let deliveries = |n: u64| again.iter().find(|lease| lease.task.id.execution == id(n)).unwrap().deliveries;
    assert_eq!((deliveries(2), deliveries(3), deliveries(4)), (2, 2, 1));
    arrived.commit(put("after", b"it goes on")).await.unwrap();
    arrived.close().await.unwrap();
    store.close().await.unwrap();
    drop((store, arrived));
    let sink = Sink::default();
    export_folder(&old, sink.clone(), Source::KeepsRunning).await.unwrap();
    let without_release = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().lines().count();
    assert_eq!(without_release(&sink.bytes()), without_release(&bytes));
    assert!(check(&new).unwrap().is_intact(), "{}", check(&new).unwrap());
}

#[tokio::test]
async fn a_changed_or_truncated_export_creates_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = busy(&folder.path().join("old")).await;
    let whole = exported(&store, Source::KeepsRunning).await;
    store.close().await.unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let without_line = text.lines().enumerate().filter(|(n, _)| *n != 7).map(|(_, line)| format!("{line}\n"));
    let spoilt: Vec<Vec<u8>> = vec![
        text.replacen("onboarding", "offboarding", 1).into_bytes(),
        without_line.collect::<String>().into_bytes(),
        whole[..whole.len() - 1].to_vec(),
        whole[..whole.len() / 2].to_vec(),
        [whole.as_slice(), b"{}\n"].concat(),
        text.replacen("\"version\":1", "\"version\":2", 1).into_bytes(),
        b"hello\n".to_vec(),
        Vec::new(),
    ];
    for (n, bytes) in spoilt.into_iter().enumerate() {
        let dir = folder.path().join(format!("new-{n}"));

        let refused = import(bytes.as_slice(), &dir);

        assert!(
            matches!(&refused, Err(Error::Refused { why }) if why.starts_with("line ")),
            "{n}: {refused:?}"
        );
        assert!(matches!(check(&dir), Err(Error::Refused { .. })), "{n} left a store behind");
        import(whole.as_slice(), &dir).unwrap();
    }
}

#[tokio::test]
async fn an_interrupted_import_creates_no_store_and_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let store = busy(&folder.path().join("old")).await;
    let bytes = exported(&store, Source::Replaced).await;
    store.close().await.unwrap();
    let new = folder.path().join("new");
    std::fs::create_dir_all(new.join("snapshot")).unwrap();
    std::fs::write(new.join("snapshot/next.partial"), b"half").unwrap();
    std::fs::write(new.join("IMPORTING"), b"").unwrap();

    let refused = crate::Embedded::open(&new, options()).map(|opened| opened.report);

    assert!(
        matches!(&refused, Err(Error::Refused { why }) if why.contains("was interrupted")),
        "{refused:?}"
    );
    import(bytes.as_slice(), &new).unwrap();
    let (arrived, _) = open(&new, options());
    assert_eq!(content(&exported(&arrived, Source::KeepsRunning).await), content(&bytes));
    arrived.close().await.unwrap();
}

#[tokio::test]
async fn an_import_does_not_change_existing_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = busy(folder.path()).await;
    let bytes = exported(&store, Source::KeepsRunning).await;
    store.close().await.unwrap();
    drop(store);

    let refused = import(bytes.as_slice(), folder.path());

    assert!(matches!(&refused, Err(Error::Refused { why }) if why.contains("is not empty")), "{refused:?}");
}

#[tokio::test]
async fn a_check_reports_problems_and_remedies() {
    let folder = tempfile::tempdir().unwrap();
    let store = busy(folder.path()).await;
    store.checkpoint().await.unwrap();
    store.commit(put("last", b"1")).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let report = check(folder.path()).unwrap();
    assert!(report.is_intact() && report.snapshots == 1 && report.index_rows > 100, "{report}");
    let (_, snapshot) = crate::embedded::snapshot::list(folder.path()).unwrap().pop().unwrap();
    let mut bytes = std::fs::read(&snapshot).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&snapshot, bytes).unwrap();

    let report = check(folder.path()).unwrap();

    assert_eq!(report.problems.len(), 1, "{report}");
    assert!(report.to_string().contains("the next start writes the snapshot again"), "{report}");
    let (store, opened) = open(folder.path(), options());
    assert_eq!(opened.repaired.len(), 1, "{opened}");
    store.close().await.unwrap();
    drop(store);
    assert!(check(folder.path()).unwrap().is_intact());
}
