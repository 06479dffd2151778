//! The built-in policies, and other policies read on top of them: a missing key has its value from the latest built-in version.

use super::platform_policy::{PlatformPolicy, PublishedPolicy, sha256};
use crate::policy::{
    parsing::{
        defaults::filled,
        document::{self, Item, Value},
        finding::Invalid,
        reader::Reader,
    },
    platform_policy_reader::{self, GapFiller},
};
use crate::tenancy::PolicyRef;
use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
};

/// The most policies cached in memory.
const MAX_CACHED: usize = 32;

/// The built-in policy, and its document with the defaults for other policies.
struct BuiltIn {
    policy: PlatformPolicy,
    root: Item,
}

fn base() -> Result<&'static BuiltIn, Invalid> {
    static READ: OnceLock<Result<BuiltIn, Invalid>> = OnceLock::new();
    let read = READ.get_or_init(|| BuiltIn::read(PlatformPolicy::BUILT_IN));
    read.as_ref().map_err(Clone::clone)
}

/// Returns the text with the defaults of policies that were published under `edition`.
fn base_of(edition: u32) -> Result<&'static BuiltIn, Invalid> {
    static READ: OnceLock<Result<BuiltIn, Invalid>> = OnceLock::new();
    if edition >= PlatformPolicy::EDITION {
        return base();
    }
    let read = READ.get_or_init(|| BuiltIn::read(PlatformPolicy::SECOND));
    read.as_ref().map_err(Clone::clone)
}

impl BuiltIn {
    fn read(text: &str) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let policy = platform_policy_reader::policy(&reader, &root, text, None);
        Ok(Self { policy: reader.finish(policy)?, root })
    }
}

/// The purpose of reading a document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// It is about to be published. Values that are no longer allowed are rejected.
    New,
    /// It was published earlier and must stay readable.
    Stored,
}

impl PlatformPolicy {
    /// The text of the latest built-in version. Before a change, add the old text to `history`, because decisions refer to it permanently by digest. A
    /// correction keeps the version number, so that the next number stays free for an operator's own policy; any other change is a new version.
    pub const BUILT_IN: &'static str = include_str!("default.yaml");
    /// The latest built-in version.
    pub(super) const LATEST: u32 = 2;
    /// Version 2 before its correction.
    const SECOND: &'static str = include_str!("history/platform-2.yaml");
    /// All texts that were ever built in, oldest first, each with its version.
    const BUILT_INS: [(u32, &'static str); 3] =
        [(1, include_str!("history/platform-1.yaml")), (2, Self::SECOND), (2, Self::BUILT_IN)];
    /// The number of texts that were ever built in. Identifies the text with the defaults of a policy that is published now.
    pub(super) const EDITION: u32 = 3;

    /// Returns the latest built-in version. It is in force until another is published.
    ///
    /// # Errors
    /// Never in a build whose tests passed.
    pub fn built_in() -> Result<Self, Invalid> {
        Ok(base()?.policy.clone())
    }

    /// Reads the policy in a YAML document. A missing key has its value from the latest built-in version.
    ///
    /// # Errors
    /// Every problem of the document, by line and column.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        Self::over(text, base()?, Reading::New)
    }

    /// Reads a published policy with the defaults of its time of publication. Cached by text, because every admission reads it.
    ///
    /// # Errors
    /// As [`Self::from_yaml`].
    pub(super) fn published(published: &PublishedPolicy) -> Result<Self, Invalid> {
        static READ: Mutex<BTreeMap<(String, u32), PlatformPolicy>> = Mutex::new(BTreeMap::new());
        let digest = (sha256(published.text.as_bytes()), published.over);
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = read.get(&digest) {
            return Ok(policy.clone());
        }
        let policy = Self::over(&published.text, base_of(published.over)?, Reading::Stored)?;
        if read.len() >= MAX_CACHED {
            read.pop_first();
        }
        read.insert(digest, policy.clone());
        Ok(policy)
    }

    /// Returns the built-in policy of this version, latest or not.
    ///
    /// # Errors
    /// Never in a build whose tests passed.
    pub(super) fn built_in_version(version: u32) -> Result<Option<Self>, Invalid> {
        let Some(text) = Self::built_in_text(version) else { return Ok(None) };
        Self::read_built_in(text).map(Some)
    }

    /// Returns the built-in policy with exactly this reference, latest or not.
    ///
    /// # Errors
    /// Never in a build whose tests passed.
    pub(super) fn built_in_of(reference: &PolicyRef) -> Result<Option<Self>, Invalid> {
        let same = |(version, text): &&(u32, &'static str)| {
            *version == reference.version && sha256(text.as_bytes()) == reference.digest
        };
        Self::BUILT_INS.iter().find(same).map(|(_, text)| Self::read_built_in(text)).transpose()
    }

    fn read_built_in(text: &str) -> Result<Self, Invalid> {
        if text == Self::BUILT_IN {
            return Self::built_in();
        }
        Self::over(text, base_of(2)?, Reading::Stored)
    }

    /// Returns the text of a version that was ever built in.
    #[must_use]
    pub fn built_in_text(version: u32) -> Option<&'static str> {
        Self::BUILT_INS.iter().rev().find(|(number, _)| *number == version).map(|(_, text)| *text)
    }

    /// Returns the built-in text under the next number, with the first text of each pair replaced by the second: a policy for demonstrations and tests. It has
    /// no examples, because they describe the built-in values. `None` if a first text does not occur.
    #[must_use]
    pub fn amended(changes: &[(&str, &str)]) -> Option<String> {
        let (latest, next) = (format!("version: {}", Self::LATEST), format!("version: {}", Self::LATEST + 1));
        let without = Self::BUILT_IN.split("\nexamples:\n").next().unwrap_or_default();
        let text = without.replacen(&latest, &next, 1);
        changes
            .iter()
            .try_fold(text, |text, (from, to)| text.contains(from).then(|| text.replacen(from, to, 1)))
    }

    /// Returns the document of a platform policy with its defaults filled in; any other document unchanged.
    pub(super) fn filled(root: Item) -> Result<Item, Invalid> {
        let Value::Map(fields) = &root.value else { return Ok(root) };
        if fields.iter().any(|(name, _, _)| name == "policy") {
            return Ok(filled(&root, &base()?.root));
        }
        Ok(root)
    }

    fn over(text: &str, base: &BuiltIn, reading: Reading) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let under = GapFiller { root: &base.root, provenance: &base.policy.provenance };
        let read = platform_policy_reader::policy(&reader, &root, text, Some(&under));
        if let Some(policy) = read.as_ref().filter(|_| reading == Reading::New) {
            reader.note_all(policy.broken_promises());
        }
        reader.finish(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions of the first release name this digest.
    #[test]
    fn a_built_in_version_is_never_lost_or_changed() {
        let first = PlatformPolicy::built_in_version(1).unwrap().unwrap().reference;
        assert_eq!(first.digest, "sha256:73a2558f36556dc325f6a36bf41edcc11189fdf4570bdb348aa4a6a90ad20025");
        let latest = PlatformPolicy::built_in_version(PlatformPolicy::LATEST).unwrap().unwrap();
        assert_eq!((latest.reference.version, PlatformPolicy::BUILT_INS.len()), (2, 3));
        assert_eq!(PlatformPolicy::built_in_version(3).unwrap(), None);
        for (version, text) in PlatformPolicy::BUILT_INS {
            let digest = sha256(text.as_bytes());
            let reference = PolicyRef { name: PlatformPolicy::NAME.into(), version, digest };
            assert_eq!(PlatformPolicy::built_in_of(&reference).unwrap().unwrap().reference, reference);
        }
    }

    /// The default of a missing key never changes after a policy was published.
    #[test]
    fn a_policy_published_over_an_earlier_text_keeps_its_gaps_and_stays_readable() {
        let text = "policy: platform\nversion: 3\n".to_owned();
        let reference = PlatformPolicy::from_yaml(&text).unwrap().reference;
        let published = |over| {
            let (reference, text) = (reference.clone(), text.clone());
            let stored =
                PublishedPolicy { reference, author: "ada".into(), at: store::Timestamp(1), text, over };
            PlatformPolicy::published(&stored).unwrap()
        };

        let (before, now) = (published(2), published(PlatformPolicy::EDITION));

        assert_eq!(before.approvals.reclaim.within, 6 * now.approvals.reclaim.within);
        assert_eq!(before.broken_promises().len(), 1, "it is listed, and it loads");
        assert!(now.broken_promises().is_empty());
    }

    /// An alias of an unknown model leaves the name unchanged.
    #[test]
    fn a_policy_with_an_alias_of_an_unknown_model_stays_readable_without_the_alias() {
        let text = "policy: platform\nversion: 3\naliases: {big: h101}\n".to_owned();
        let reference = PolicyRef { name: "platform".into(), version: 3, digest: sha256(text.as_bytes()) };
        let (author, at, over) = ("ada".to_owned(), store::Timestamp(1), PlatformPolicy::EDITION);
        let stored = PublishedPolicy { reference, author, at, text, over };

        let policy = PlatformPolicy::published(&stored).unwrap();

        let name = "big".parse().unwrap();
        assert_eq!(policy.gpu_models.named(&name), name);
        assert_eq!(policy.broken_promises().len(), 1, "it is listed");
    }

    #[test]
    fn an_approval_deadline_beyond_the_promised_time_is_refused_on_publication() {
        let contradicting = "policy: platform\nversion: 3\napprovals: {reclaim: {within: 16m}}\n";
        let said = PlatformPolicy::from_yaml(contradicting).unwrap_err().to_string();
        assert!(said.contains("approvals.reclaim.within"), "{said}");

        let extended = "policy: platform\nversion: 3\napprovals: {reclaim: {within: 10m, extend: 6m}}\n";
        assert!(PlatformPolicy::from_yaml(extended).is_err());
        let longer =
            "policy: platform\nversion: 3\nreclaim: {deadline: 2h}\napprovals: {reclaim: {within: 1h}}\n";
        PlatformPolicy::from_yaml(longer).unwrap();
    }
}
