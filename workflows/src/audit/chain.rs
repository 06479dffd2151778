//! The chains as documents: entries by tenant and number, the head of each, and the cursor in the journal.

use super::entry::Entry;
use crate::signing::Digest;
use engine::Entity;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;
use store::{CompositeKey, Document, Error, Key, Page, Put, Sequence, Store, Timestamp};

/// The name of the platform's own chain; no tenant can be called so.
pub const PLATFORM: &str = "-";

/// The name of a tenant's chain.
pub(super) fn chain_of(tenant: &str) -> &str {
    if tenant.is_empty() { PLATFORM } else { tenant }
}

/// The last entry of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// Which chain.
    pub chain: String,
    /// How many entries it has.
    pub number: u64,
    /// The digest of the last.
    pub digest: Digest,
}

impl Entity for ChainHead {
    const COLLECTION: &'static str = "audit-heads";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.chain.clone()
    }
}

/// Where the auditor stands. Moved by the very commit that seals or signs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The first commit that was sealed; what was journalled before has no seal.
    pub began: Option<u64>,
    /// The last commit whose journal entries are sealed.
    pub after: Option<u64>,
    /// The last commit whose journal entries are under a signed checkpoint.
    pub signed: Option<u64>,
    /// Entries sealed so far, of all chains.
    pub sealed: u64,
    /// Entries sealed since the last checkpoint.
    pub unsigned: u64,
    /// Chains that have grown since the last checkpoint.
    pub grown: BTreeSet<String>,
    /// The last checkpoint: number and digest.
    pub checkpoint: Option<(u64, Digest)>,
    /// When that was made.
    pub checkpoint_at: Timestamp,
}

impl Entity for Cursor {
    const COLLECTION: &'static str = "audit-cursors";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        "journal".into()
    }
}

impl Cursor {
    /// Whether all of these journal entries, the first and the last of an execution, are under a signed checkpoint.
    #[must_use]
    pub fn covers(&self, first: Sequence, last: Sequence) -> bool {
        let began = self.began.is_some_and(|began| began <= first.0);
        began && self.signed.is_some_and(|signed| last.0 <= signed)
    }
}

/// The head of a chain at a checkpoint, so that an export knows where it may end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedHead {
    /// Which chain.
    pub chain: String,
    /// The checkpoint.
    pub checkpoint: u64,
    /// How many entries the chain had then.
    pub number: u64,
}

impl Entity for SealedHead {
    const COLLECTION: &'static str = "audit-seals";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        // By the entry and not by the checkpoint: an export looks for the first seal at or behind an entry.
        entry_id(&self.chain, self.number)
    }
}

impl Entity for Entry {
    const COLLECTION: &'static str = "audit";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        entry_id(chain_of(&self.tenant), self.number)
    }
}

pub(super) fn entry_id(chain: &str, number: u64) -> String {
    CompositeKey::of(&[&chain, &format_args!("{number:020}")]).into()
}

/// A document as it stands, and the version that a commit may rest on.
pub(super) async fn read<T: Entity>(store: &dyn Store, id: &str) -> Result<(Option<T>, store::Read), Error> {
    let key = Key::new(T::COLLECTION, id);
    let found = store.document(&key).await?;
    let value = found.as_ref().map(parse).transpose()?;
    Ok((value, store::Read { key, version: found.map(|found| found.version) }))
}

pub(super) fn parse<T: DeserializeOwned>(found: &Document) -> Result<T, Error> {
    let corrupt = |e: serde_json::Error| Error::Corrupt { what: found.key.to_string(), why: e.to_string() };
    serde_json::from_slice(&found.body).map_err(corrupt)
}

pub(super) fn put<T: Entity>(of: &T) -> Result<Put, Error> {
    let key = Key::new(T::COLLECTION, of.id());
    let unwritable = |e: serde_json::Error| Error::Invalid { what: format!("{key}: {e}") };
    let body = serde_json::to_vec(of).map_err(unwritable)?;
    Ok(Put { key, body: Some(body) })
}

/// Where the auditor stands.
///
/// # Errors
/// The store's.
pub async fn cursor(store: &dyn Store) -> Result<Cursor, Error> {
    Ok(read::<Cursor>(store, &Cursor::default().id()).await?.0.unwrap_or_default())
}

/// The last entry of a tenant's chain, or of that of the [`PLATFORM`]; `None` where nothing is sealed.
///
/// # Errors
/// The store's.
pub async fn head(store: &dyn Store, chain: &str) -> Result<Option<ChainHead>, Error> {
    Ok(read::<ChainHead>(store, chain).await?.0)
}

/// Up to `limit` entries of a chain, or of all one after the other, beginning after the one that `after` names.
///
/// # Errors
/// The store's.
pub async fn entries(
    store: &dyn Store,
    chain: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<Entry, String>, Error> {
    let prefix = chain.map(|chain| CompositeKey::of(&[&chain]).prefix()).unwrap_or_default();
    let page = store.documents(Entry::COLLECTION, &prefix, after, limit).await?;
    Ok(Page { items: page.items.iter().map(parse).collect::<Result<_, _>>()?, next: page.next })
}
