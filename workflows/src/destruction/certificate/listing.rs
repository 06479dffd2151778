//! The pages of a certificate, which are written in any number of commits.
//!
//! Invariant: a page depends only on the entries on it and on the end of the page before, so that the pages of a list are the same in however
//! many commits they are written.

use super::{CertificateEntry, PageRef, checked_json, contents::ListSummary};
use crate::{
    destruction::inventory::InventoryPosition,
    signing::{
        Digest,
        canonical::{compact, value},
    },
};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// The longest list on one page, in bytes, before it is written with one leaf on each line.
const LIST_BYTES: usize = 96 << 10;

/// The pages of a certificate so far, without their text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedPages {
    /// The pages, as the cover names them.
    pub(crate) pages: Vec<PageRef>,
    /// The summary of their entries.
    pub(crate) summary: ListSummary,
}

impl ListedPages {
    /// Adds pages of the next entries of the list and returns their texts, until these have `limit` bytes. Adds at least one page, and an
    /// incomplete page only at the end of the list.
    pub(crate) fn add(&mut self, next: &[CertificateEntry], is_end: bool, limit: usize) -> Vec<String> {
        let page = LIST_BYTES.min(limit);
        let (mut texts, mut bytes) = (Vec::new(), 0_usize);
        let (mut start, mut room) = (0_usize, page);
        for (place, entry) in next.iter().enumerate() {
            let size = compact(&value(entry)).len().saturating_add(1);
            if place > start && size > room {
                let text = self.add_page(next.get(start..place).unwrap_or_default());
                bytes = bytes.saturating_add(text.len());
                texts.push(text);
                if bytes >= limit {
                    return texts;
                }
                (start, room) = (place, page);
            }
            room = room.saturating_sub(size);
        }
        let rest = next.get(start..).unwrap_or_default();
        if !rest.is_empty() && (is_end || texts.is_empty()) {
            texts.push(self.add_page(rest));
        }
        texts
    }

    fn add_page(&mut self, list: &[CertificateEntry]) -> String {
        let text = checked_json::write("assets", &value(&list));
        self.pages.push(PageRef { assets: list.len(), digest: Digest::from_bytes(text.as_bytes()) });
        list.iter().for_each(|entry| self.summary.add(entry));
        text
    }
}

/// A certificate whose pages are written in several commits. The commit that stores the cover deletes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnfinishedCertificate {
    /// The certificate's number.
    pub(crate) certificate: ExecutionId,
    /// The digest of the inventory that it lists.
    pub(crate) inventory: Digest,
    /// The version of Tenure that wrote the pages. Another version writes them again.
    pub(crate) version: String,
    /// The position in the inventory after the last listed asset.
    pub(crate) position: InventoryPosition,
    /// The pages so far.
    pub(crate) listed: ListedPages,
    /// The number of stored pages, with those of another version.
    pub(crate) stored_pages: usize,
}

impl Entity for UnfinishedCertificate {
    const COLLECTION: &'static str = "certificates-unfinished";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.certificate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{forgeries::issued, *},
        *,
    };

    /// The certificate of a list has the same bytes in however many commits its pages are written.
    #[test]
    fn pages_and_summary_of_a_list_do_not_depend_on_the_number_of_commits() {
        let (_, few) = issued(true);
        let entries: Vec<_> = few.iter().cycle().take(few.len() * 100).cloned().collect();
        let mut at_once = ListedPages::default();
        let texts = at_once.add(&entries, true, usize::MAX);
        assert!(texts.len() > 3, "{} pages", texts.len());
        assert_eq!(at_once.summary, contents::ListSummary::of(&entries));

        for limit in [LIST_BYTES, 200 << 10, 1 << 20] {
            let (mut in_parts, mut parts) = (ListedPages::default(), Vec::new());
            while in_parts.summary.assets < entries.len() {
                parts.extend(in_parts.add(&entries[in_parts.summary.assets..], true, limit));
            }

            assert_eq!((&in_parts, &parts), (&at_once, &texts), "{limit} bytes at once");
        }
    }

    #[test]
    fn a_part_of_a_list_has_complete_pages_only_until_its_end() {
        let (_, few) = issued(false);
        let entries: Vec<_> = few.iter().cycle().take(few.len() * 100).cloned().collect();
        let mut at_once = ListedPages::default();
        at_once.add(&entries, true, usize::MAX);
        let mut in_parts = ListedPages::default();

        let half = entries.len() / 2;
        in_parts.add(&entries[..half], false, usize::MAX);

        assert!(in_parts.summary.assets <= half);
        in_parts.add(&entries[in_parts.summary.assets..], true, usize::MAX);
        assert_eq!(in_parts, at_once);
    }
}
