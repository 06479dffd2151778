//! Entries from the newest to the oldest.

use super::*;
use crate::audit::{Entry, JournalPlace, newest_first};

/// Returns all pages of one chain or of all chains.
async fn pages(store: &dyn Store, chain: Option<&str>, limit: usize) -> Vec<Entry> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let (found, next) = newest_first(store, chain, before, limit, |_| true).await.unwrap();
        assert!(found.len() <= limit);
        all.extend(found);
        before = next;
        if before.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn pages_of_any_size_list_every_entry_once_newest_first() {
    let (store, auditor) = stage().await;
    auditor.catch_up().await.unwrap();
    for limit in [1, 2, 3, 100] {
        let all = pages(&*store, None, limit).await;
        assert_eq!(all.len(), 5, "four of acme, one of zeta");
        assert!(all.is_sorted_by(|one, other| JournalPlace::of(one) > JournalPlace::of(other)), "{all:#?}");
        let own = pages(&*store, Some("acme"), limit).await;
        assert_eq!(own.iter().map(|entry| entry.number).collect::<Vec<_>>(), [4, 3, 2, 1]);
        assert!(pages(&*store, Some("nobody"), limit).await.is_empty());
    }
}
