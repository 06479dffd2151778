//! What a bucket holds: versions, delete markers, unfinished uploads, and what of it is locked.

use crate::s3::{
    S3,
    client::{Client, S3Request},
    locks::Lock,
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
    /// How long it is; 0 of a delete marker.
    pub(super) bytes: u64,
}

/// An upload that was begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upload {
    pub(super) key: String,
    pub(super) id: String,
}

/// A page of a listing, and where the next begins.
#[derive(Debug)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<(String, String)>,
}

/// What a bucket holds, as far as it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Versions that can be removed.
    pub(super) versions: u64,
    /// Delete markers.
    pub(super) markers: u64,
    /// Unfinished uploads.
    pub(super) uploads: u64,
    /// How many bytes the versions that were counted have, locked ones among them.
    pub(super) bytes: u64,
    /// Versions that nobody can remove before `locked_until`.
    pub(super) locked: u64,
    /// How many of those are under a legal hold, which has no day.
    pub(super) legal_holds: u64,
    /// The day on which the last lock ends.
    pub(super) locked_until: Option<String>,
    /// The keys of a key store with which the locked versions are encrypted; none of what is encrypted with no such key.
    pub(super) locked_under: BTreeSet<Option<String>>,
    /// Whether there is more than was counted.
    pub(super) more: bool,
}

impl Contents {
    /// How much of it can be removed, at least.
    pub(super) fn removable(&self) -> u64 {
        self.versions + self.markers + self.uploads
    }

    /// Whether there is anything in it. More than was counted is not nothing.
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

    /// Says in a bucket's `spec` with which key its locked versions are encrypted, where they are not all under `own`, the
    /// store's name of the tenant's key: with none of a key store's, or with keys of which nothing is known.
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
        // RFC 3339 in one zone with one precision: the later is the greater.
        self.locked_until = self.locked_until.take().max(Some(lock.until));
        self.locked_under.insert(lock.under);
    }
}

/// Says in a bucket's `spec` that what it holds is encrypted with no key of a key store.
pub(super) fn say_unencrypted(spec: &mut Value) {
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("encrypted".into(), json!(false));
    }
}

impl S3 {
    /// What the bucket holds: counted to its end where objects can be locked, else the first page of each listing.
    pub(super) async fn holdings(
        &self,
        client: &Client,
        bucket: &str,
        until: Instant,
    ) -> Result<Contents, ActionError> {
        self.counted(client, bucket, 1, until).await
    }

    /// What the bucket holds: where objects can be locked all of it, else the first `most` versions and delete markers, in whole pages.
    pub(super) async fn counted(
        &self,
        client: &Client,
        bucket: &str,
        most: u64,
        until: Instant,
    ) -> Result<Contents, ActionError> {
        let locks = self.locks(client, bucket, until).await?;
        let mut held = Contents::default();
        let uploads = uploads(client, bucket, until).await?;
        held.uploads = count(uploads.items.len());
        held.more = uploads.next.is_some();
        let mut from = None;
        loop {
            let page = versions(client, bucket, from.as_ref(), until).await?;
            for version in &page.items {
                held.bytes = held.bytes.saturating_add(version.bytes);
                match self.locked(client, bucket, version, locks, until).await? {
                    Some(lock) => held.lock(lock),
                    None if version.marker => held.markers += 1,
                    None => held.versions += 1,
                }
            }
            let enough = !locks && held.versions.saturating_add(held.markers) >= most;
            held.more |= enough && page.next.is_some();
            from = page.next.filter(|_| !enough);
            if from.is_none() {
                return Ok(held);
            }
        }
    }
}

/// The most pages in a row that a listing may leave empty while it says that there is more.
const EMPTY_PAGES: usize = 100;

/// The next page of up to 1,000 versions and delete markers, from the marks of the page before. It is empty only at the end of the
/// listing.
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
    /// Returns true if the page has items, or is the last; refuses one that leads to itself.
    fn has_ended_or_shows(&self, from: Option<&(String, String)>, bucket: &str) -> Result<bool, ActionError> {
        if self.next.is_some() && self.next.as_ref() == from {
            return Err(endless(bucket));
        }
        Ok(!self.items.is_empty() || self.next.is_none())
    }
}

/// What a listing without end says of a bucket: nothing.
fn endless(bucket: &str) -> ActionError {
    let why = format!(
        "bucket {bucket}: the listing says that there is more, and does not show it: what it holds is not known"
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

/// The first page of up to 1,000 unfinished uploads that has any.
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
