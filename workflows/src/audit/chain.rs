//! The chains as documents: entries by tenant and number, the head of each chain, and the cursor in the journal.

use super::entry::Entry;
use crate::signing::Digest;
use engine::Entity;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;
use store::{CompositeKey, Document, Error, Key, Page, Put, Sequence, Store, Timestamp};

/// The name of the platform's own chain. No tenant can have this name.
pub const PLATFORM: &str = "-";

/// Returns the name of a tenant's chain.
pub(super) fn chain_of(tenant: &str) -> &str {
    if tenant.is_empty() { PLATFORM } else { tenant }
}

/// The last entry of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// The name of the chain.
    pub chain: String,
    /// The number of its entries.
    pub number: u64,
    /// The digest of the last entry.
    pub digest: Digest,
}

impl Entity for ChainHead {
    const COLLECTION: &'static str = "audit-heads";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.chain.clone()
    }
}

/// The position of the auditor. Each sealing or signing commit moves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The first sealed commit. Earlier journal entries are not sealed.
    pub began: Option<u64>,
    /// The last commit with sealed journal entries.
    pub after: Option<u64>,
    /// The last commit whose journal entries a signed checkpoint covers.
    pub signed: Option<u64>,
    /// The number of sealed entries in all chains.
    pub sealed: u64,
    /// The number of entries sealed since the last checkpoint.
    pub unsigned: u64,
    /// The chains that have grown since the last checkpoint.
    pub grown: BTreeSet<String>,
    /// The number and digest of the last checkpoint.
    pub checkpoint: Option<(u64, Digest)>,
    /// The time of the last checkpoint.
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
    /// Returns true if a signed checkpoint covers all journal entries of an execution, from `first` to `last`.
    #[must_use]
    pub fn covers(&self, first: Sequence, last: Sequence) -> bool {
        let began = self.began.is_some_and(|began| began <= first.0);
        began && self.signed.is_some_and(|signed| last.0 <= signed)
    }
}

/// The head of a chain at a checkpoint. An export ends at such a head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedHead {
    /// The name of the chain.
    pub chain: String,
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The number of entries in the chain at that time.
    pub number: u64,
}

impl Entity for SealedHead {
    const COLLECTION: &'static str = "audit-seals";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        // The id uses the entry number, because an export looks for the first seal at or after an entry.
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

/// Returns a document and the version for the condition of a commit.
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

/// Returns the position of the auditor.
///
/// # Errors
/// The errors of the store.
pub async fn cursor(store: &dyn Store) -> Result<Cursor, Error> {
    Ok(read::<Cursor>(store, &Cursor::default().id()).await?.0.unwrap_or_default())
}

/// Returns the last entry of a tenant's chain, or of the [`PLATFORM`] chain. `None` if no entry is sealed.
///
/// # Errors
/// The errors of the store.
pub async fn head(store: &dyn Store, chain: &str) -> Result<Option<ChainHead>, Error> {
    Ok(read::<ChainHead>(store, chain).await?.0)
}

/// Returns up to `limit` entries after the entry `after`, of one chain or of all chains in sequence.
///
/// # Errors
/// The errors of the store.
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
