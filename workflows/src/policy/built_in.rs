//! The policies that are built in, and other policies read over them: what a document leaves out is as in the latest one.

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
use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
};

/// Policies that are kept in memory.
const MAX_CACHED: usize = 32;

/// The built-in policy, and its document for the gaps of others.
struct BuiltIn {
    policy: PlatformPolicy,
    root: Item,
}

fn base() -> Result<&'static BuiltIn, Invalid> {
    static READ: OnceLock<Result<BuiltIn, Invalid>> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let text = PlatformPolicy::BUILT_IN;
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let policy = platform_policy_reader::policy(&reader, &root, text, None);
        Ok(BuiltIn { policy: reader.finish(policy)?, root })
    });
    read.as_ref().map_err(Clone::clone)
}

impl PlatformPolicy {
    /// The text of the latest version that is built in. A change of it is a new version: add the old text to
    /// `history` first, since decisions refer to it for ever.
    pub const BUILT_IN: &'static str = include_str!("default.yaml");
    /// Its number.
    pub(super) const LATEST: u32 = 2;
    /// All texts that were ever built in, by version from 1.
    const BUILT_INS: [&'static str; 2] = [include_str!("history/platform-1.yaml"), Self::BUILT_IN];

    /// The latest version that is built in; it holds until another is published.
    ///
    /// # Errors
    /// None in a build whose tests passed.
    pub fn built_in() -> Result<Self, Invalid> {
        Ok(base()?.policy.clone())
    }

    /// The policy in a YAML document. What it leaves out is as in the latest version that is built in.
    ///
    /// # Errors
    /// Everything that is wrong with it, by line and column.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let base = base()?;
        Self::over(text, base)
    }

    /// The policy that was published, its gaps filled as they were then. Read once for each text: admissions ask often.
    ///
    /// # Errors
    /// As [`Self::from_yaml`].
    pub(super) fn published(published: &PublishedPolicy) -> Result<Self, Invalid> {
        // There is one version that fills gaps so far; `over` says which, so that a later one changes nothing here.
        static READ: Mutex<BTreeMap<String, PlatformPolicy>> = Mutex::new(BTreeMap::new());
        let digest = sha256(published.text.as_bytes());
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = read.get(&digest) {
            return Ok(policy.clone());
        }
        let policy = Self::from_yaml(&published.text)?;
        if read.len() >= MAX_CACHED {
            read.pop_first();
        }
        read.insert(digest, policy.clone());
        Ok(policy)
    }

    /// The built-in policy of this number, whether or not it is the latest.
    ///
    /// # Errors
    /// None in a build whose tests passed.
    pub(super) fn built_in_version(version: u32) -> Result<Option<Self>, Invalid> {
        let Some(text) = Self::built_in_text(version) else { return Ok(None) };
        if text == Self::BUILT_IN { Self::built_in().map(Some) } else { Self::from_yaml(text).map(Some) }
    }

    /// The text of a version that was ever built in.
    #[must_use]
    pub fn built_in_text(version: u32) -> Option<&'static str> {
        (version as usize).checked_sub(1).and_then(|index| Self::BUILT_INS.get(index)).copied()
    }

    /// The built-in text under the next number, each first text of a pair replaced by the second: a policy to publish in
    /// demonstrations and tests. It carries no examples, which say what the built-in values do. `None` when a first text does not occur.
    #[must_use]
    pub fn amended(changes: &[(&str, &str)]) -> Option<String> {
        let (latest, next) = (format!("version: {}", Self::LATEST), format!("version: {}", Self::LATEST + 1));
        let without = Self::BUILT_IN.split("\nexamples:\n").next().unwrap_or_default();
        let text = without.replacen(&latest, &next, 1);
        changes
            .iter()
            .try_fold(text, |text, (from, to)| text.contains(from).then(|| text.replacen(from, to, 1)))
    }

    /// The document of a platform policy with its gaps filled; any other document as it is.
    pub(super) fn filled(root: Item) -> Result<Item, Invalid> {
        let Value::Map(fields) = &root.value else { return Ok(root) };
        if fields.iter().any(|(name, _, _)| name == "policy") {
            return Ok(filled(&root, &base()?.root));
        }
        Ok(root)
    }

    fn over(text: &str, base: &BuiltIn) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let under = GapFiller { root: &base.root, provenance: &base.policy.provenance };
        let read = platform_policy_reader::policy(&reader, &root, text, Some(&under));
        reader.finish(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions of the first release name this digest.
    #[test]
    fn a_version_that_was_built_in_is_never_lost_nor_changed() {
        let first = PlatformPolicy::built_in_version(1).unwrap().unwrap().reference;
        assert_eq!(first.digest, "sha256:73a2558f36556dc325f6a36bf41edcc11189fdf4570bdb348aa4a6a90ad20025");
        let latest = PlatformPolicy::built_in_version(PlatformPolicy::LATEST).unwrap().unwrap();
        assert_eq!((latest.reference.version, PlatformPolicy::BUILT_INS.len()), (2, 2));
        assert_eq!(PlatformPolicy::built_in_version(3).unwrap(), None);
    }
}
