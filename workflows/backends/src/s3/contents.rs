//! Counts the contents of a bucket: versions, delete markers, unfinished uploads, and locked versions.

use crate::s3::{
    S3,
    client::{Client, S3Request},
    locks::Lock,
    scans::{Scan, ScanKind, is_short, may_continue, still_counting},
};
use engine::ActionError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;
use workflows::platform::{UNTIL_LIFTED, codes};

/// A version or delete marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) key: String,
    pub(super) id: String,
    pub(super) marker: bool,
    /// The size in bytes; 0 for a delete marker.
    pub(super) bytes: u64,
}

/// An unfinished upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upload {
    pub(super) key: String,
    pub(super) id: String,
}

/// A page of a listing, and the start of the next one.
#[derive(Debug)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<(String, String)>,
}

/// The counted contents of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Removable versions.
    pub(super) versions: u64,
    /// Delete markers.
    pub(super) markers: u64,
    /// Unfinished uploads.
    pub(super) uploads: u64,
    /// The bytes of all counted versions, including locked ones.
    pub(super) bytes: u64,
    /// Versions that cannot be removed before `locked_until`.
    pub(super) locked: u64,
    /// The number of locked versions under a legal hold, which has no end date.
    pub(super) legal_holds: u64,
    /// The end date of the last lock.
    pub(super) locked_until: Option<String>,
    /// The key store's keys of the locked versions. `None` means a version that is not encrypted with such a key.
    pub(super) locked_under: BTreeSet<Option<String>>,
    /// True if the bucket has more than was counted.
    pub(super) more: bool,
}

impl Contents {
    /// Returns the number of removable entries, at least.
    pub(super) fn removable(&self) -> u64 {
        self.versions + self.markers + self.uploads
    }

    /// Returns true if the bucket is not empty.
    pub(super) fn any(&self) -> bool {
        self.more || self.removable() + self.locked > 0
    }

    pub(super) fn add_to(&self, spec: &mut Value) {
        let own = json!({
            "versions": self.versions, "markers": self.markers, "uploads": self.uploads,
            "locked": self.locked, "legal_holds": self.legal_holds, "locked_until": self.locked_until,
            "bytes": self.bytes, "more": self.more,
        });
        if let (Some(spec), Value::Object(own)) = (spec.as_object_mut(), own) {
            spec.extend(own);
        }
    }

    /// Adds the encryption of the locked versions to a bucket's `spec`, unless all are encrypted with `own`, the
    /// store's name of the tenant's key: either none, or an unknown key.
    pub(super) fn say_encryption(&self, spec: &mut Value, own: &str) {
        if self.locked_under.contains(&None) {
            say_unencrypted(spec);
        } else if self.locked_under.iter().flatten().any(|key| key != own)
            && let Some(spec) = spec.as_object_mut()
        {
            spec.insert("key".into(), Value::Null);
        }
    }

    pub(super) fn lock(&mut self, lock: Lock) {
        self.locked += 1;
        self.legal_holds += u64::from(lock.until == UNTIL_LIFTED);
        // RFC 3339 dates in one time zone and precision compare as text.
        self.locked_until = self.locked_until.take().max(Some(lock.until));
        self.locked_under.insert(lock.under);
    }
}

/// Marks a bucket's `spec` as not encrypted with a key of a key store.
pub(super) fn say_unencrypted(spec: &mut Value) {
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("encrypted".into(), json!(false));
    }
}

impl S3 {
    /// Counts the contents of the bucket up to the first page with something removable. If nothing is removable, the
    /// counts of locked versions are complete.
    pub(super) async fn holdings(
        &self,
        client: &Client,
        bucket: &str,
        until: Instant,
    ) -> Result<Contents, ActionError> {
        let locks = self.locks(client, bucket, until).await?;
        self.count(client, bucket, (1, locks, false), until).await
    }

    /// Counts the contents of the bucket: all if object locks are enabled, otherwise the first `most` versions and
    /// delete markers, in whole pages. A count that takes too long fails as pending, and the next call continues it.
    pub(super) async fn counted(
        &self,
        client: &Client,
        bucket: &str,
        most: u64,
        until: Instant,
    ) -> Result<Contents, ActionError> {
        let locks = self.locks(client, bucket, until).await?;
        self.count(client, bucket, (most, locks, locks), until).await
    }

    /// Counts the contents. `all` also counts what follows the first `most` removable versions.
    async fn count(
        &self,
        client: &Client,
        bucket: &str,
        (most, locks, all): (u64, bool, bool),
        until: Instant,
    ) -> Result<Contents, ActionError> {
        let begun = Instant::now();
        let kind = if all { ScanKind::Count } else { ScanKind::Look };
        let uploads = uploads(client, bucket, until).await?;
        let interrupted = self.interrupted(kind, client, bucket).filter(|_| locks);
        let (mut held, mut from) =
            interrupted.map_or_else(Default::default, |scan| (scan.held, Some(scan.from)));
        held.uploads = count(uploads.items.len());
        held.more = uploads.next.is_some();
        let mut has_read = false;
        loop {
            let read = self.locked_page(client, bucket, from.as_ref(), locks, until).await;
            let (page, found) = match read {
                Ok(read) => read,
                Err(error) => {
                    let Some(from) = from.filter(|_| locks && may_continue(&error)) else {
                        return Err(error);
                    };
                    // An attempt that read a page made progress, so it does not count as failed.
                    let error = if has_read { still_counting(bucket, &held) } else { error };
                    self.interrupt(kind, client, bucket, Scan { from, held });
                    return Err(error);
                }
            };
            has_read = true;
            for (version, lock) in page.items.iter().zip(found) {
                held.bytes = held.bytes.saturating_add(version.bytes);
                match lock {
                    Some(lock) => held.lock(lock),
                    None if version.marker => held.markers += 1,
                    None => held.versions += 1,
                }
            }
            let enough = !all && held.versions.saturating_add(held.markers) >= most;
            held.more |= enough && page.next.is_some();
            let Some(next) = page.next.filter(|_| !enough) else { return Ok(held) };
            if locks && is_short(begun, until) {
                let error = still_counting(bucket, &held);
                self.interrupt(kind, client, bucket, Scan { from: next, held });
                return Err(error);
            }
            from = Some(next);
        }
    }
}

/// The maximum number of consecutive empty pages of a listing that reports more entries.
const EMPTY_PAGES: usize = 100;

/// Returns the next page of up to 1,000 versions and delete markers, after the markers of the previous page. It is
/// empty only at the end of the listing.
pub(super) async fn versions(
    client: &Client,
    bucket: &str,
    from: Option<&(String, String)>,
    until: Instant,
) -> Result<Page<Version>, ActionError> {
    let mut from = from.cloned();
    for _ in 0..EMPTY_PAGES {
        let page = versions_page(client, bucket, from.as_ref(), until).await?;
        if page.has_ended_or_shows(from.as_ref(), bucket)? {
            return Ok(page);
        }
        from = page.next;
    }
    Err(endless(bucket))
}

impl<T> Page<T> {
    /// Returns true if the page has items or is the last one. Fails if it points to itself.
    fn has_ended_or_shows(&self, from: Option<&(String, String)>, bucket: &str) -> Result<bool, ActionError> {
        if self.next.is_some() && self.next.as_ref() == from {
            return Err(endless(bucket));
        }
        Ok(!self.items.is_empty() || self.next.is_none())
    }
}

/// The error for a listing without end.
fn endless(bucket: &str) -> ActionError {
    let why = format!(
        "bucket {bucket}: the store reports more objects, but does not list them, so the content is unknown"
    );
    ActionError::transient(codes::UNREADABLE, why)
}

async fn versions_page(
    client: &Client,
    bucket: &str,
    from: Option<&(String, String)>,
    until: Instant,
) -> Result<Page<Version>, ActionError> {
    let mut query = vec![("versions", "")];
    if let Some((key, version)) = from {
        query.extend([("key-marker", key.as_str()), ("version-id-marker", version.as_str())]);
    }
    let document =
        client.send(&S3Request::get(bucket, &query), until).await?.document("ListVersionsResult")?;
    let of = |name, marker| {
        document.all(name).map(move |node| Version {
            key: node.text("Key").to_owned(),
            id: node.text("VersionId").to_owned(),
            marker,
            bytes: node.text("Size").trim().parse().unwrap_or_default(),
        })
    };
    let items = of("Version", false).chain(of("DeleteMarker", true)).collect();
    let next = (document.text("IsTruncated") == "true").then(|| {
        (document.text("NextKeyMarker").to_owned(), document.text("NextVersionIdMarker").to_owned())
    });
    Ok(Page { items, next })
}

/// Returns the first page of up to 1,000 unfinished uploads that is not empty.
pub(super) async fn uploads(
    client: &Client,
    bucket: &str,
    until: Instant,
) -> Result<Page<Upload>, ActionError> {
    let mut from = None;
    for _ in 0..EMPTY_PAGES {
        let page = uploads_page(client, bucket, from.as_ref(), until).await?;
        if page.has_ended_or_shows(from.as_ref(), bucket)? {
            return Ok(page);
        }
        from = page.next;
    }
    Err(endless(bucket))
}

async fn uploads_page(
    client: &Client,
    bucket: &str,
    from: Option<&(String, String)>,
    until: Instant,
) -> Result<Page<Upload>, ActionError> {
    let mut query = vec![("uploads", "")];
    if let Some((key, upload)) = from {
        query.extend([("key-marker", key.as_str()), ("upload-id-marker", upload.as_str())]);
    }
    let answer = client.send(&S3Request::get(bucket, &query), until).await?;
    let document = answer.document("ListMultipartUploadsResult")?;
    let items = document
        .all("Upload")
        .map(|node| Upload { key: node.text("Key").to_owned(), id: node.text("UploadId").to_owned() })
        .collect();
    let next = (document.text("IsTruncated") == "true")
        .then(|| (document.text("NextKeyMarker").to_owned(), document.text("NextUploadIdMarker").to_owned()));
    Ok(Page { items, next })
}

pub(super) fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
