//! Exports a chain or a part of it: entries in order, each head followed by its checkpoint.

use crate::{
    audit::{
        auditor::{Auditor, unsigned},
        chain::{ChainHead, PLATFORM, SealedHead, entry_id, head, parse},
        checkpoint::{SealedCheckpoint, sign},
        entry::Entry,
        export_line::{Content, END_TYPE, End, FORMAT, Header, VERSION, written},
    },
    signing::{Digest, Moment, dsse::Signature},
};
use engine::{ActionError, Entity, Error};
use store::{CompositeKey, Key, Store};

/// The maximum number of entries in one export. A longer period must be exported in parts.
pub const MOST_ENTRIES: u64 = 100_000;
/// The number of entries in one read.
const PAGE: usize = 1_000;

/// A period of a chain, by the times of its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// The start, included. `None` is the beginning.
    pub from: Option<Moment>,
    /// The end, excluded. `None` is the end of the chain.
    pub to: Option<Moment>,
}

impl Period {
    /// Returns true if the time is in the period.
    #[must_use]
    pub fn contains(&self, at: Moment) -> bool {
        self.from.is_none_or(|from| from <= at) && self.to.is_none_or(|to| at < to)
    }
}

/// Returns the file with the entries of a period, up to the next signed checkpoint. First seals and signs all journal entries.
///
/// # Errors
/// The errors of the store; a permanent `audit.too_long` for more than [`MOST_ENTRIES`]; a transient `audit.unsigned`.
pub async fn export<P: Send + Sync + 'static>(
    auditor: &Auditor<P>,
    chain: &str,
    period: Period,
) -> Result<String, Error> {
    let engine = auditor.engine();
    let store = &**engine.store();
    while auditor.seal().await? > 0 {}
    let tenant = if chain == PLATFORM { "" } else { chain };
    let range = range(auditor, chain, period).await?;
    let first = range.map_or(0, |(first, _)| first);
    let mut out = File::default();
    let header = Header {
        format: FORMAT.into(),
        version: VERSION,
        tenant: tenant.into(),
        from: period.from,
        to: period.to,
        first,
        previous: before(store, chain, first).await?,
        exported_at: engine.clock().now().into(),
    };
    out.add(Content::Header(header), None);
    if let Some((first, last)) = range {
        out.chain(store, chain, first, last).await?;
    }
    let end = out.end();
    let by = sign(END_TYPE, &end, auditor.signer()).await.map_err(unsigned)?;
    out.add(Content::End(end), Some(by));
    Ok(out.text)
}

/// Returns the numbers of the first and the last entry to export.
async fn range<P: Send + Sync + 'static>(
    auditor: &Auditor<P>,
    chain: &str,
    period: Period,
) -> Result<Option<(u64, u64)>, Error> {
    let store = &**auditor.engine().store();
    let (mut first, mut last, mut after): (Option<u64>, u64, Option<String>) = (None, 0, None);
    if period == Period::default() {
        let head: Option<ChainHead> = head(store, chain).await?;
        first = head.as_ref().map(|_| 1);
        last = head.map_or(0, |head| head.number);
    } else {
        loop {
            let page = super::entries(store, Some(chain), after.as_deref(), PAGE).await?;
            for entry in page.items.iter().filter(|entry| period.contains(entry.at)) {
                first.get_or_insert(entry.number);
                last = entry.number;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    let Some(first) = first else { return Ok(None) };
    // The new checkpoint covers all entries sealed so far.
    auditor.checkpoint().await?;
    let last = sealed_from(store, chain, last).await?;
    let count = last.saturating_sub(first).saturating_add(1);
    if count > MOST_ENTRIES {
        let why = format!(
            "the period has {count} entries, but an export has at most {MOST_ENTRIES}: set a shorter period with `from` and `to`"
        );
        return Err(Error::Undecided(ActionError::permanent("audit.too_long", why)));
    }
    Ok(Some((first, last)))
}

/// Returns the first entry at or after `number` that a checkpoint names.
async fn sealed_from(store: &dyn Store, chain: &str, number: u64) -> Result<u64, Error> {
    let after = entry_id(chain, number.saturating_sub(1));
    let prefix = CompositeKey::of(&[&chain]).prefix();
    let page = store.documents(SealedHead::COLLECTION, &prefix, Some(&after), 1).await?;
    let sealed: Option<SealedHead> = page.items.first().map(parse).transpose()?;
    let none = || unsigned("no checkpoint covers the last entries yet; try again".into());
    Ok(sealed.ok_or_else(none)?.number)
}

/// Returns the digest of the entry before `first`.
async fn before(store: &dyn Store, chain: &str, first: u64) -> Result<Option<Digest>, Error> {
    let Some(number) = first.checked_sub(1).filter(|number| *number > 0) else { return Ok(None) };
    let key = Key::new(Entry::COLLECTION, entry_id(chain, number));
    let missing = || store::Error::Corrupt { what: key.to_string(), why: "it is missing".into() };
    let found = store.document(&key).await?.ok_or_else(missing)?;
    Ok(Some(parse::<Entry>(&found)?.digest()))
}

/// An export file in progress.
#[derive(Default)]
struct File {
    text: String,
    lines: u64,
    entries: u64,
    checkpoints: u64,
}

impl File {
    fn add(&mut self, content: Content, by: Option<Signature>) {
        match content {
            Content::Entry(_) => self.entries = self.entries.saturating_add(1),
            Content::Checkpoint(_) => self.checkpoints = self.checkpoints.saturating_add(1),
            Content::Header(_) | Content::End(_) => {}
        }
        self.lines = self.lines.saturating_add(1);
        self.text.push_str(&written(content, by, self.lines));
    }

    fn end(&self) -> End {
        End {
            lines: self.lines,
            entries: self.entries,
            checkpoints: self.checkpoints,
            digest: Digest::from_bytes(self.text.as_bytes()),
        }
    }

    async fn chain(&mut self, store: &dyn Store, chain: &str, first: u64, last: u64) -> Result<(), Error> {
        let mut seals = seals(store, chain, first, last).await?.into_iter().peekable();
        let mut after = entry_id(chain, first.saturating_sub(1));
        loop {
            let page = super::entries(store, Some(chain), Some(&after), PAGE).await?;
            for entry in page.items {
                let number = entry.number;
                if number > last {
                    return Ok(());
                }
                self.add(Content::Entry(Box::new(entry)), None);
                if let Some(sealed) = seals.next_if(|sealed| sealed.number == number) {
                    let signed = checkpoint(store, sealed.checkpoint).await?;
                    self.add(Content::Checkpoint(signed.checkpoint), Some(signed.by));
                }
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }
}

/// Returns the seals of entries from `first` to `last`.
async fn seals(store: &dyn Store, chain: &str, first: u64, last: u64) -> Result<Vec<SealedHead>, Error> {
    let (mut seals, mut after) = (Vec::new(), entry_id(chain, first.saturating_sub(1)));
    loop {
        let prefix = CompositeKey::of(&[&chain]).prefix();
        let page = store.documents(SealedHead::COLLECTION, &prefix, Some(&after), PAGE).await?;
        for found in &page.items {
            let sealed: SealedHead = parse(found)?;
            if sealed.number > last {
                return Ok(seals);
            }
            seals.push(sealed);
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(seals),
        }
    }
}

async fn checkpoint(store: &dyn Store, number: u64) -> Result<SealedCheckpoint, Error> {
    let key = Key::new(SealedCheckpoint::COLLECTION, SealedCheckpoint::key(number));
    let missing = || store::Error::Corrupt { what: key.to_string(), why: "it is missing".into() };
    Ok(parse(&store.document(&key).await?.ok_or_else(missing)?)?)
}
