//! Scans of buckets whose versions can be locked. The locks of each version take up to three requests, so a scan of a large bucket takes several
//! attempts.
//!
//! Invariant: an attempt continues only a scan of the same kind, with the same credentials, that stopped less than [`FRESH_FOR`] ago. A complete scan
//! is not kept, so that the next one reads the bucket again.

use crate::s3::{
    S3,
    client::Client,
    contents::{Contents, Page, Version, versions},
    locks::Lock,
};
use engine::{ActionError, Class};
use futures_util::future::try_join_all;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use workflows::platform::{LOOK_AGAIN, codes};

/// The time in which an interrupted scan can be continued.
const FRESH_FOR: Duration = Duration::from_secs(3_600);
/// The number of versions whose locks are read at once.
const AT_ONCE: usize = 16;
/// A scan stops when less than this part of the time of its call is left.
const RESERVE: u32 = 3;

/// The kind of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScanKind {
    /// Counts all versions.
    Count,
    /// Looks for the first removable version.
    Look,
    /// Looks for removable versions behind locked ones.
    Remove,
}

/// The start of the next page.
pub(super) type Marker = (String, String);

/// An interrupted scan.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// The start of the next page.
    pub(super) from: Marker,
    /// The contents of the pages before it.
    pub(super) held: Contents,
}

/// The interrupted scans of one store.
#[derive(Debug, Default)]
pub(super) struct Scans(Mutex<BTreeMap<ScanKey, (Instant, Scan)>>);

/// The kind, true for the verifier's credentials, and the bucket.
type ScanKey = (ScanKind, bool, String);

impl Scans {
    fn take(&self, key: &ScanKey) -> Option<Scan> {
        let (at, scan) = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key)?;
        (at.elapsed() < FRESH_FOR).then_some(scan)
    }

    fn keep(&self, key: ScanKey, scan: Scan) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (at, _)| at.elapsed() < FRESH_FOR);
        all.insert(key, (Instant::now(), scan));
    }
}

impl S3 {
    fn scan_key(&self, kind: ScanKind, client: &Client, bucket: &str) -> ScanKey {
        (kind, !std::ptr::eq(client, &raw const self.platform), bucket.to_owned())
    }

    /// Returns the interrupted scan to continue, if there is one.
    pub(super) fn interrupted(&self, kind: ScanKind, client: &Client, bucket: &str) -> Option<Scan> {
        self.scans.take(&self.scan_key(kind, client, bucket))
    }

    /// Keeps a scan, for the next attempt to continue.
    pub(super) fn interrupt(&self, kind: ScanKind, client: &Client, bucket: &str, scan: Scan) {
        self.scans.keep(self.scan_key(kind, client, bucket), scan);
    }

    /// Returns the next page of versions, with the lock of each.
    pub(super) async fn locked_page(
        &self,
        client: &Client,
        bucket: &str,
        from: Option<&Marker>,
        locks: bool,
        until: Instant,
    ) -> Result<(Page<Version>, Vec<Option<Lock>>), ActionError> {
        let page = versions(client, bucket, from, until).await?;
        let found = self.locks_of(client, bucket, &page.items, locks, until).await?;
        Ok((page, found))
    }

    /// Returns the locks of these versions, in their order.
    async fn locks_of(
        &self,
        client: &Client,
        bucket: &str,
        versions: &[Version],
        locks: bool,
        until: Instant,
    ) -> Result<Vec<Option<Lock>>, ActionError> {
        if !locks {
            return Ok(versions.iter().map(|_| None).collect());
        }
        let mut all = Vec::with_capacity(versions.len());
        for some in versions.chunks(AT_ONCE) {
            let asked: Vec<_> =
                some.iter().map(|version| self.locked(client, bucket, version, locks, until)).collect();
            all.extend(try_join_all(asked).await?);
        }
        Ok(all)
    }
}

/// Returns true if the time of a call is nearly used up, so that the next page might not be complete in time.
pub(super) fn is_short(begun: Instant, until: Instant) -> bool {
    let now = Instant::now();
    until.saturating_duration_since(now) * RESERVE < until.saturating_duration_since(begun)
}

/// Returns true if the page can be read again at the next attempt: the time was used up, or the store did not answer.
pub(super) fn may_continue(error: &ActionError) -> bool {
    error.class == Class::Transient && error.code == codes::UNAVAILABLE
}

/// The error of a scan that continues at the next attempt. It says how many versions were read.
pub(super) fn still_counting(bucket: &str, held: &Contents) -> ActionError {
    let read = held.versions.saturating_add(held.markers).saturating_add(held.locked);
    let message =
        format!("bucket {bucket}: the locks of {read} versions are read so far, and there are more");
    ActionError { message, ..ActionError::pending(codes::COUNTING, LOOK_AGAIN) }
}

#[cfg(test)]
mod tests;
