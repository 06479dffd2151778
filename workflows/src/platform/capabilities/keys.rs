//! The key store: one key for each tenant.

use crate::platform::{CallMetadata, FoundObject, ProbeFinding};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Debug};

/// A way in which a key can come back after its destruction: somebody has, or may have, its material outside of its store.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WayBack {
    /// It was made elsewhere and imported.
    Imported,
    /// It was restored from a backup, whatever its settings are now.
    Restored,
    /// A backup of it was taken.
    BackedUp,
    /// Backups of it in the clear are allowed.
    BackupAllowed,
    /// Its material can be read out of the store, or could be once.
    Exportable,
    /// The store does not tell one of these.
    Unknown,
}

impl WayBack {
    /// It as part of a sentence about a key.
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Imported => "it was imported",
            Self::Restored => "it was restored from a backup",
            Self::BackedUp => "a backup of it was taken",
            Self::BackupAllowed => "backups of it are allowed",
            Self::Exportable => "it is exportable",
            Self::Unknown => "its store does not say whether a copy of it exists",
        }
    }
}

/// What was observed of a key: every way in which it can come back. Backends make it, and it never becomes better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySafety {
    /// Empty for a key that cannot come back.
    pub can_come_back: BTreeSet<WayBack>,
}

impl KeySafety {
    /// The field of a thing's `spec` that says it.
    pub const FIELD: &'static str = "can_come_back";

    /// The ways whose condition holds.
    #[must_use]
    pub fn of(ways: impl IntoIterator<Item = (bool, WayBack)>) -> Self {
        Self { can_come_back: ways.into_iter().filter_map(|(holds, way)| holds.then_some(way)).collect() }
    }

    /// Reads it from a key's `spec`. A key of which nothing is said, or something that is not known here, can come back.
    #[must_use]
    pub fn from_spec(spec: &Value) -> Self {
        let unknown = || BTreeSet::from([WayBack::Unknown]);
        let read = |way: &Value| way.as_str().and_then(|way| way.parse().ok()).unwrap_or(WayBack::Unknown);
        let said = spec.get(Self::FIELD).and_then(Value::as_array);
        Self { can_come_back: said.map_or_else(unknown, |ways| ways.iter().map(read).collect()) }
    }

    /// Whether nothing is known by which the key could come back.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.can_come_back.is_empty()
    }

    /// The ways as a list in words; empty for a safe key.
    #[must_use]
    pub fn said(ways: &BTreeSet<WayBack>) -> String {
        ways.iter().map(|way| way.phrase()).collect::<Vec<_>>().join(", ")
    }
}

/// A key store, as far as actions need it. It is not told the material of any key.
///
/// An implementor promises what [`Kubernetes`](crate::platform::Kubernetes) promises of epochs and classes. It need not know
/// idempotency keys: these actions look before they repeat.
#[async_trait]
pub trait Keys: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// Makes the key: not exportable, without plaintext backup, not deletable. One of that name is left as it is.
    async fn create(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// The key as it stands, if there is one, with every way in which it can come back: what the store does not tell counts as
    /// [`WayBack::Unknown`]. Its `spec` says the same in the field [`KeySafety::FIELD`].
    async fn read(
        &self,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, KeySafety)>, ActionError>;

    /// Allows the key's deletion and deletes it, with everything that it encrypted.
    async fn destroy(&self, name: &str, found: &FoundObject, stamp: &CallMetadata)
    -> Result<(), ActionError>;

    /// Encrypts with the tenant's key, decrypts as the tenant, and tries to decrypt as another.
    async fn probe_isolation(&self, tenant: &str, stamp: &CallMetadata) -> Result<ProbeFinding, ActionError>;
}

#[cfg(test)]
mod tests {
    use super::{KeySafety, WayBack};
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn a_key_of_which_nothing_is_said_can_come_back() {
        let read = |spec| KeySafety::from_spec(&spec).can_come_back;
        assert_eq!(read(json!({ "can_come_back": [] })), BTreeSet::new());
        assert_eq!(read(json!({ "can_come_back": ["imported"] })), BTreeSet::from([WayBack::Imported]));
        for silent in [
            json!({}),
            json!({ "exportable": false }),
            json!({ "can_come_back": null }),
            json!({ "can_come_back": ["by_magic"] }),
            json!(null),
        ] {
            assert_eq!(read(silent.clone()), BTreeSet::from([WayBack::Unknown]), "{silent}");
        }
    }

    #[test]
    fn every_way_back_is_read_as_it_was_written() {
        for way in <WayBack as strum::VariantArray>::VARIANTS {
            let safety = KeySafety { can_come_back: BTreeSet::from([*way]) };
            assert_eq!(KeySafety::from_spec(&json!(safety)), safety);
            assert!(!safety.is_safe());
        }
    }
}
