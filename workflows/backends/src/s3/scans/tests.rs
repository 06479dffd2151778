//! Scans of a store that answers each request for a lock slowly, and counts them.

use super::{Marker, Scan, ScanKind, Scans};
use crate::s3::{Account, S3, S3Target, contents::Contents};
use engine::Class;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use workflows::platform::codes;

/// The number of versions on a page.
const PAGE: usize = 2;
/// The number of pages.
const PAGES: usize = 3;

/// A bucket of three pages. Object locks are enabled or not, and each version is locked or not.
#[derive(Clone, Copy)]
struct Bucket {
    locks: bool,
    locked: bool,
    slow: Duration,
    denies: bool,
}

#[derive(Default)]
struct Requests {
    heads: AtomicUsize,
    by_name: AtomicUsize,
    lists: AtomicUsize,
}

impl Bucket {
    async fn answer(self, line: &str, counts: &Requests) -> String {
        let counted = |count: &AtomicUsize| count.fetch_add(1, Ordering::SeqCst);
        if line.starts_with("HEAD") {
            counted(&counts.heads);
            tokio::time::sleep(self.slow).await;
            let lock = "x-amz-object-lock-mode: COMPLIANCE\r\nx-amz-object-lock-legal-hold: OFF\r\n\
                        x-amz-object-lock-retain-until-date: 2131-05-01T00:00:00Z\r\n";
            return response("200", if self.locked { lock } else { "" }, "");
        }
        if line.starts_with("DELETE") {
            assert!(
                line.contains("versionId=null"),
                "without a version it would create a delete marker: {line}"
            );
            let denied = "<Error><Code>AccessDenied</Code><Message>explicit deny</Message></Error>";
            return if self.denies { response("403", "", denied) } else { response("204", "", "") };
        }
        if line.contains("object-lock") {
            let enabled = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
            let none = "<Error><Code>ObjectLockConfigurationNotFoundError</Code></Error>";
            return if self.locks { response("200", "", enabled) } else { response("404", "", none) };
        }
        if line.contains("legal-hold") || line.contains("retention") {
            counted(&counts.by_name);
            return response("404", "", "<Error><Code>NoSuchObjectLockConfiguration</Code></Error>");
        }
        if line.contains("uploads") {
            return response("200", "", "<ListMultipartUploadsResult></ListMultipartUploadsResult>");
        }
        counted(&counts.lists);
        let page = (0..PAGES).rev().find(|page| line.contains(&format!("key-marker=k{page}")));
        let page = page.map_or(0, |page| page + 1);
        let version = |number| {
            format!("<Version><Key>p{page}-{number}</Key><VersionId>v</VersionId><Size>1</Size></Version>")
        };
        let versions: String = (0..PAGE).map(version).collect();
        let more = page + 1 < PAGES;
        response(
            "200",
            "",
            &format!(
                "<ListVersionsResult><IsTruncated>{more}</IsTruncated><NextKeyMarker>k{page}</NextKeyMarker>\
                 <NextVersionIdMarker>v</NextVersionIdMarker>{versions}</ListVersionsResult>"
            ),
        )
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn line_of(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the request was cut off");
        request.extend_from_slice(part.get(..read).unwrap());
    }
    String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned()
}

/// Starts the store. The folder has the secret key.
async fn store_with(bucket: Bucket) -> (S3, Arc<Requests>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let counts = Arc::new(Requests::default());
    let counting = counts.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let counts = counting.clone();
            tokio::spawn(async move {
                let line = line_of(&mut stream).await;
                let answer = bucket.answer(&line, &counts).await;
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    let target: S3Target = serde_json::from_value(serde_json::json!({
        "region": "eu-west", "endpoint": endpoint,
        "account": { "access_key_id": "A", "secret_key_file": "/nowhere" },
    }))
    .unwrap();
    let account = Account { secret_key_file: secret, ..target.account.clone() };
    (S3::connect(&S3Target { account, ..target }).unwrap(), counts, folder)
}

fn within(span: Duration) -> Instant {
    Instant::now() + span
}

#[tokio::test]
async fn a_count_of_locked_versions_continues_where_the_last_attempt_stopped() {
    let bucket = Bucket { locks: true, locked: true, slow: Duration::from_millis(1_400), denies: false };
    let (store, counts, _folder) = store_with(bucket).await;

    for attempt in 1..PAGES {
        let counted = store.counted(&store.platform, "b", 1, within(Duration::from_secs(2))).await;
        let error = counted.unwrap_err();
        assert!(matches!(error.class, Class::Pending { .. }) && error.code == codes::COUNTING, "{error}");
        assert!(error.message.contains(&format!("{} versions", attempt * PAGE)), "{error}");
    }
    let held = store.counted(&store.platform, "b", 1, within(Duration::from_secs(2))).await.unwrap();

    assert_eq!(held.locked, 6);
    assert_eq!(counts.heads.load(Ordering::SeqCst), PAGE * PAGES, "no lock is read twice");
}

/// The second page of an attempt does not end in time.
#[tokio::test]
async fn a_page_that_is_not_read_in_time_is_the_first_one_of_the_next_attempt() {
    let bucket = Bucket { locks: true, locked: true, slow: Duration::from_millis(1_100), denies: false };
    let (store, _, _folder) = store_with(bucket).await;

    for attempt in 1..PAGES {
        let counted = store.counted(&store.platform, "b", 1, within(Duration::from_secs(2))).await;
        let error = counted.unwrap_err();
        assert!(matches!(error.class, Class::Pending { .. }) && error.code == codes::COUNTING, "{error}");
        assert!(error.message.contains(&format!("{} versions", attempt * PAGE)), "{error}");
    }
    let held = store.counted(&store.platform, "b", 1, within(Duration::from_secs(2))).await.unwrap();
    assert_eq!(held.locked, 6);
}

#[tokio::test]
async fn nothing_is_asked_about_locks_of_a_bucket_without_object_locks() {
    let bucket = Bucket { locks: false, locked: false, slow: Duration::ZERO, denies: false };
    let (store, counts, _folder) = store_with(bucket).await;

    let held = store.counted(&store.platform, "b", 1_000, within(Duration::from_secs(10))).await.unwrap();

    assert_eq!((held.versions, held.locked), (6, 0));
    assert_eq!(counts.heads.load(Ordering::SeqCst) + counts.by_name.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn whether_something_is_removable_is_known_from_the_first_page_that_has_it() {
    let bucket = Bucket { locks: true, locked: false, slow: Duration::ZERO, denies: false };
    let (store, counts, _folder) = store_with(bucket).await;

    let held = store.holdings(&store.platform, "b", within(Duration::from_secs(10))).await.unwrap();

    assert!(held.any() && held.more && held.removable() == 2, "{held:?}");
    assert_eq!((counts.heads.load(Ordering::SeqCst), counts.lists.load(Ordering::SeqCst)), (PAGE, 1));
}

#[test]
fn a_scan_is_continued_once_and_only_by_the_same_kind_and_credentials() {
    let (scans, from): (Scans, Marker) = (Scans::default(), ("k".into(), "v".into()));
    let key = |kind, verifier| (kind, verifier, "b".to_owned());
    scans.keep(key(ScanKind::Count, false), Scan { from, held: Contents::default() });

    assert!(scans.take(&key(ScanKind::Count, true)).is_none());
    assert!(scans.take(&key(ScanKind::Remove, false)).is_none());
    assert!(scans.take(&key(ScanKind::Count, false)).is_some());
    assert!(scans.take(&key(ScanKind::Count, false)).is_none());
}

#[tokio::test]
async fn a_policy_that_denies_the_removal_of_versions_is_found_without_a_removal() {
    for denies in [false, true] {
        let bucket = Bucket { locks: false, locked: false, slow: Duration::ZERO, denies };
        let (store, _, _folder) = store_with(bucket).await;

        let refusal = store.refusal_to_remove("b", within(Duration::from_secs(10))).await.unwrap();

        assert_eq!(refusal.is_some(), denies);
        assert!(
            refusal.is_none_or(|why| why.contains("AccessDenied") && why.contains("policy of the bucket"))
        );
    }
}
