//! The head of a paged body: it is stored instead of the body, and names its pages.

use super::split::{Part, split_again};
use crate::{
    Error, ExecutionId, Key, hex,
    model::page_key::{PAGES, PAGES_OF_RECORD},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// How a head begins as JSON. No execution and no document of the engine begins like this.
const BEGINNING: &[u8] = br#"{"$paged":"#;
/// The version of the layout.
const VERSION: u32 = 1;
/// The longest id of a document that becomes part of a page's id as it is, in bytes.
const LONGEST_ID: usize = 640;

/// The owner of pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Record(ExecutionId),
    Document(Key),
}

/// A borrowed owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OwnerRef<'a> {
    Record(ExecutionId),
    Document(&'a Key),
}

impl Owner {
    pub(super) fn by_ref(&self) -> OwnerRef<'_> {
        match self {
            Self::Record(id) => OwnerRef::Record(*id),
            Self::Document(key) => OwnerRef::Document(key),
        }
    }

    /// Returns the prefix of the ids of its pages. Neither a collection nor the name of a page has a slash.
    pub(super) fn prefix(&self) -> String {
        match self {
            Self::Record(id) => format!("{PAGES_OF_RECORD}{id}/"),
            Self::Document(Key { collection, id }) if id.len() > LONGEST_ID => {
                format!("hashed/{collection}/{}/", hex::encode(&Sha256::digest(id)))
            }
            Self::Document(Key { collection, id }) => format!("document/{collection}/{id}/"),
        }
    }

    /// Describes it in errors.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Record(id) => format!("the record of {id}"),
            Self::Document(key) => format!("document {key}"),
        }
    }
}

/// One page as a head has it: `name:digest`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PageRef(String);

impl PageRef {
    fn name(&self) -> &str {
        self.0.split_once(':').map_or("", |(name, _)| name)
    }

    /// Half of the SHA-256 of its content.
    pub(super) fn digest(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, digest)| digest)
    }

    pub(super) fn key(&self, owner: &Owner) -> Key {
        Key::new(PAGES, owner.prefix() + self.name())
    }
}

/// The digest of a page's content.
pub(super) fn digest(content: &[u8]) -> String {
    let whole: [u8; 32] = Sha256::digest(content).into();
    hex::encode(whole.get(..16).unwrap_or(&whole))
}

/// The pages of a body.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    version: u32,
    /// The length of the body.
    pub(super) bytes: usize,
    pub(super) pages: Vec<PageRef>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker<T> {
    #[serde(rename = "$paged")]
    paged: T,
}

/// Returns true if `body` is the head of a paged body, or begins as one.
pub(super) fn is_head(body: &[u8]) -> bool {
    body.starts_with(BEGINNING)
}

impl Head {
    /// Parses `body` as a head. Returns `None` for an ordinary body.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for one that cannot be read.
    pub(super) fn from_body(owner: &Owner, body: &[u8]) -> Result<Option<Self>, Error> {
        if !is_head(body) {
            return Ok(None);
        }
        let corrupt = |why: String| Error::Corrupt { what: owner.describe(), why };
        let marker: Marker<Self> =
            serde_json::from_slice(body).map_err(|error| corrupt(error.to_string()))?;
        if marker.paged.version != VERSION {
            let why = format!("its pages have format {}", marker.paged.version);
            return Err(corrupt(why + ", which this version of Tenure does not know"));
        }
        Ok(Some(marker.paged))
    }

    /// Encodes the head.
    pub(super) fn to_body(&self) -> Vec<u8> {
        serde_json::to_vec(&Marker { paged: self }).unwrap_or_default()
    }

    /// Splits `body` into pages. Returns the head, and the pages that `old` does not have. New ones are named after `base`, a
    /// number that no earlier write of this owner has used. `content` is the content of the pages of `old`, if it is cached.
    pub(super) fn from_pages<'a>(
        old: Option<&Self>,
        content: &[Arc<[u8]>],
        base: u64,
        body: &'a [u8],
    ) -> (Self, Vec<(PageRef, &'a [u8])>) {
        let stored = old.map_or(&[][..], |old| old.pages.as_slice());
        let mut known: HashMap<String, PageRef> =
            stored.iter().map(|page| (page.digest().to_owned(), page.clone())).collect();
        let mut head = Self { version: VERSION, bytes: body.len(), pages: Vec::new() };
        let mut added = Vec::new();
        // Content of other pages than these says nothing of where the body is cut.
        let content = if content.len() == stored.len() { content } else { &[] };
        for part in split_again(content, body) {
            let content = match part {
                Part::Stored(number) => {
                    head.pages.extend(stored.get(number).cloned());
                    continue;
                }
                Part::New(content) => content,
            };
            let digest = digest(content);
            if let Some(page) = known.get(&digest) {
                head.pages.push(page.clone());
                continue;
            }
            let page = PageRef(format!("{base:x}.{:x}:{digest}", added.len()));
            known.insert(digest, page.clone());
            head.pages.push(page.clone());
            added.push((page, content));
        }
        (head, added)
    }

    /// Returns the pages of `old` that `new` does not have.
    pub(super) fn dropped(old: Option<&Self>, new: Option<&Self>) -> BTreeSet<PageRef> {
        let kept: BTreeSet<&PageRef> = new.into_iter().flat_map(|new| &new.pages).collect();
        let stored = old.into_iter().flat_map(|old| &old.pages);
        stored.filter(|page| !kept.contains(page)).cloned().collect()
    }
}
