//! Every entry is sealed once and in order, even if an auditor fails or another one runs at the same time.

use super::*;
use engine::testing::{CrashPoint, CrashStore};
use std::collections::BTreeMap;

/// Returns the sealed journal entries of each chain, in order, and checks the chain.
async fn chains(store: &dyn Store) -> BTreeMap<String, Vec<(u64, u32)>> {
    let mut chains: BTreeMap<String, Vec<(u64, u32)>> = BTreeMap::new();
    let mut before: BTreeMap<String, crate::signing::Digest> = BTreeMap::new();
    for entry in entries(store, None, None, usize::MAX).await.unwrap().items {
        let chain = chains.entry(entry.tenant.clone()).or_default();
        chain.push((entry.journal.sequence, entry.journal.place));
        assert_eq!(entry.number, chain.len() as u64);
        let digest = entry.digest();
        assert_eq!(entry.previous, before.insert(entry.tenant, digest));
    }
    chains
}

/// Returns the same from the journal.
async fn journal(store: &dyn Store) -> BTreeMap<String, Vec<(u64, u32)>> {
    let mut chains: BTreeMap<String, Vec<(u64, u32)>> = BTreeMap::new();
    for (place, entry) in store.history(None, usize::MAX).await.unwrap().items {
        let record = store.load(entry.execution).await.unwrap();
        let tenant = record.map_or_else(String::new, |record| record.tenant);
        chains.entry(tenant).or_default().push((entry.sequence.0, place));
    }
    chains
}

async fn busy(store: &dyn Store, executions: u64) {
    for n in 1..=executions {
        begin(store, n, ["acme", "zeta", ""][usize::try_from(n % 3).unwrap()]).await;
        let passed = entry(n, "engine", "passed", &json!({ "by": "self-service" }));
        note(store, vec![passed.clone(), entry(n / 2 + 1, "engine", "settled", &json!({})), passed]).await;
    }
}

/// S60. The journal is longer than a batch, so that an auditor can also fail between batches.
#[tokio::test]
async fn an_auditor_that_crashes_at_any_commit_neither_skips_nor_repeats_an_entry() {
    let inner = Arc::new(Memory::new());
    busy(&*inner, 200).await;
    let before = journal(&*inner).await;
    let (mut cuts, mut nth) = (0, 1);
    loop {
        let fresh = Arc::new(Memory::new());
        busy(&*fresh, 200).await;
        let mut cut_once = false;
        for cut in [CrashPoint::Before(nth), CrashPoint::After(nth)] {
            let store = Arc::new(CrashStore::new(fresh.clone(), Some(cut)));
            let auditor = auditor_on(store.clone());
            let ended = auditor.catch_up().await;
            cut_once |= store.is_dead();
            assert_eq!(ended.is_err(), store.is_dead());
        }
        let auditor = auditor_on(fresh.clone());
        auditor.catch_up().await.unwrap();
        auditor.checkpoint().await.unwrap();
        assert_eq!(chains(&*fresh).await, before);
        let file = export(&auditor, "acme", Period::default()).await.unwrap();
        assert_eq!(verify(file.as_bytes(), &public()).problems, []);
        if !cut_once {
            break;
        }
        (cuts, nth) = (cuts + 1, nth + 1);
    }
    assert!(cuts > 4, "only {cuts} commits were cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_auditors_seal_each_entry_once_while_work_continues() {
    let store = Arc::new(Memory::new());
    let auditing = (0..3).map(|_| {
        let auditor = auditor_on(store.clone());
        tokio::spawn(async move {
            for _ in 0..200 {
                auditor.catch_up().await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    let auditing: Vec<_> = auditing.collect();
    busy(&*store, 150).await;
    for auditing in auditing {
        auditing.await.unwrap();
    }

    let auditor = auditor_on(store.clone());
    auditor.catch_up().await.unwrap();
    assert_eq!(chains(&*store).await, journal(&*store).await);
    assert_eq!(auditor.lag().await.unwrap().oldest, std::time::Duration::ZERO);
}

#[tokio::test]
async fn a_commit_with_more_entries_than_a_batch_is_sealed_completely() {
    let store = Arc::new(Memory::new());
    begin(&*store, 1, "acme").await;
    note(&*store, (0..700).map(|_| entry(1, "engine", "passed", &json!({}))).collect()).await;
    begin(&*store, 2, "acme").await;
    let auditor = auditor_on(store.clone());

    auditor.catch_up().await.unwrap();

    assert_eq!(chains(&*store).await, journal(&*store).await);
}

#[tokio::test]
async fn the_delay_of_the_audit_is_the_age_of_the_oldest_unsealed_entry() {
    let (_, auditor) = stage().await;

    let lag = auditor.lag().await.unwrap();

    assert_eq!((lag.sealed, lag.unsigned, lag.checkpoints), (3, 0, 1));
    assert_eq!(lag.oldest, std::time::Duration::from_secs(3_599));
}

#[tokio::test]
async fn checkpoints_are_a_chain_and_name_no_tenant() {
    let (store, auditor) = stage().await;
    auditor.catch_up().await.unwrap();
    auditor.checkpoint().await.unwrap();

    let page = checkpoints(&*store, None, 10).await.unwrap();

    assert_eq!(page.items.len(), 2);
    assert_eq!(page.items[1].checkpoint.previous, Some(page.items[0].checkpoint.digest()));
    assert_eq!(page.items[0].checkpoint.heads.len(), 2, "both tenants have grown");
    assert!(page.items.iter().all(|signed| signed.is_signed_by(&key().public_key())));
    let text = serde_json::to_string(&page.items).unwrap();
    assert!(!text.contains("acme") && !text.contains("zeta"), "{text}");
}

#[tokio::test]
async fn a_period_begins_after_its_previous_entry_and_ends_with_a_checkpoint() {
    let (store, auditor) = stage().await;
    for n in [1, 1, 1] {
        note(&*store, vec![entry(n, "engine", "passed", &json!({}))]).await;
    }
    let later =
        store::Entry { at: Timestamp(NOON + 7_200_000), ..entry(1, "ada", "pause_requested", &json!({})) };
    note(&*store, vec![later]).await;
    let from = Period { from: Some(Timestamp(NOON + 7_000_000).into()), to: None };
    let to = Period { from: None, to: Some(Timestamp(NOON + 7_000_000).into()) };

    let found = verify(export(&auditor, "acme", from).await.unwrap().as_bytes(), &public());
    assert_eq!((found.problems, found.entries, found.last), (vec![], 1, 8));
    let found = verify(export(&auditor, "acme", to).await.unwrap().as_bytes(), &public());
    assert_eq!((found.problems, found.entries), (vec![], 8), "up to the checkpoint that names the last");
    let none = Period { to: Some(Timestamp(1).into()), ..Period::default() };
    let found = verify(export(&auditor, "acme", none).await.unwrap().as_bytes(), &public());
    assert_eq!((found.problems, found.entries), (vec![], 0));
}
