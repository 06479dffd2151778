//! Lists entries from the newest to the oldest, of one chain or of all. Chains are merged by the journal place of each entry.

use crate::audit::{
    chain::{ChainHead, entry_id, head, parse},
    entry::Entry,
};
use engine::{Entity, Error};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    str::FromStr,
};
use store::{Key, Store};

/// The number of entries in one read of a chain: for a listing of one chain, and of all chains.
const WINDOWS: (usize, usize) = (200, 8);
/// The maximum number of chains in one listing.
const CHAINS_AT_ONCE: usize = 1_000;

/// The commit and the index in it that an entry seals. It is unique for each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalPlace {
    sequence: u64,
    place: u32,
}

impl JournalPlace {
    /// Returns the place of this entry.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self { sequence: entry.journal.sequence, place: entry.journal.place }
    }
}

impl fmt::Display for JournalPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.sequence, self.place)
    }
}

impl FromStr for JournalPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.').and_then(|(sequence, place)| {
            Some(Self { sequence: sequence.parse().ok()?, place: place.parse().ok()? })
        });
        parts.ok_or_else(|| format!("{text:?} is not a position in the journal"))
    }
}

/// Reads one chain backwards from its end.
struct Backward {
    chain: String,
    /// The number of the next entry to read. 0 at the end.
    upper: u64,
    window: usize,
    read: VecDeque<Entry>,
}

impl Backward {
    async fn next(&mut self, store: &dyn Store) -> Result<Option<Entry>, Error> {
        if self.read.is_empty() && self.upper > 0 {
            let count = u64::try_from(self.window).unwrap_or(u64::MAX).min(self.upper);
            let before = self.upper.saturating_sub(count);
            let after = entry_id(&self.chain, before);
            let count = usize::try_from(count).unwrap_or(self.window);
            let page = super::entries(store, Some(&self.chain), Some(&after), count).await?;
            self.read = page.items.into_iter().filter(|entry| entry.number <= self.upper).collect();
            // If the read returns nothing, all older entries were removed.
            self.upper = if self.read.is_empty() { 0 } else { before };
        }
        Ok(self.read.pop_back())
    }
}

/// Returns up to `limit` matching entries, the newest first, of one chain or of all, and the place to continue from.
///
/// # Errors
/// The errors of the store.
pub async fn newest_first(
    store: &dyn Store,
    chain: Option<&str>,
    before: Option<JournalPlace>,
    limit: usize,
    wanted: impl Fn(&Entry) -> bool,
) -> Result<(Vec<Entry>, Option<JournalPlace>), Error> {
    let heads = match chain {
        Some(chain) => head(store, chain).await?.into_iter().collect(),
        None => all_heads(store).await?,
    };
    let window = if heads.len() == 1 { WINDOWS.0 } else { WINDOWS.1 };
    // The newest unlisted entry of each chain, by its place in the journal.
    let mut next: BTreeMap<JournalPlace, (Entry, Backward)> = BTreeMap::new();
    for head in heads {
        let upper = match before {
            Some(before) => entries_before(store, &head, before).await?,
            None => head.number,
        };
        let mut walk = Backward { chain: head.chain, upper, window, read: VecDeque::new() };
        if let Some(entry) = walk.next(store).await? {
            next.insert(JournalPlace::of(&entry), (entry, walk));
        }
    }
    let mut found = Vec::new();
    while let Some((place, (entry, mut walk))) = next.pop_last() {
        if let Some(older) = walk.next(store).await? {
            next.insert(JournalPlace::of(&older), (older, walk));
        }
        if wanted(&entry) {
            found.push(entry);
            if found.len() == limit {
                return Ok((found, Some(place).filter(|_| !next.is_empty())));
            }
        }
    }
    Ok((found, None))
}

async fn all_heads(store: &dyn Store) -> Result<Vec<ChainHead>, Error> {
    let (mut heads, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = store.documents(ChainHead::COLLECTION, "", after.as_deref(), CHAINS_AT_ONCE).await?;
        for found in &page.items {
            heads.push(parse(found)?);
        }
        after = page.next;
        if after.is_none() {
            return Ok(heads);
        }
    }
}

/// Returns the number of entries of a chain from before that place. Removed entries are always older than the existing ones.
async fn entries_before(store: &dyn Store, head: &ChainHead, before: JournalPlace) -> Result<u64, Error> {
    let (mut older, mut newer) = (0, head.number.saturating_add(1));
    while newer.saturating_sub(older) > 1 {
        let middle = older.midpoint(newer);
        let key = Key::new(Entry::COLLECTION, entry_id(&head.chain, middle));
        let found: Option<Entry> = store.document(&key).await?.as_ref().map(parse).transpose()?;
        if found.is_none_or(|entry| JournalPlace::of(&entry) < before) {
            older = middle;
        } else {
            newer = middle;
        }
    }
    Ok(older)
}
