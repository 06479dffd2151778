//! The key store: one key for each tenant.

use crate::platform::{CallMetadata, FoundObject, ProbeFinding};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Debug};

/// A way to recover a key after its destruction: its material exists, or may exist, outside its store.
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
    /// The key was created elsewhere and imported.
    Imported,
    /// The key was restored from a backup, whatever its current settings are.
    Restored,
    /// A backup of the key was taken.
    BackedUp,
    /// Plaintext backups of the key are allowed.
    BackupAllowed,
    /// The key material can be exported from the store, or could be in the past.
    Exportable,
    /// The store does not report one of these.
    Unknown,
}

impl WayBack {
    /// Returns the text for a sentence about a key.
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

/// The observed ways to recover a key. Backends create it, and no way is ever removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySafety {
    /// Empty if the key cannot be recovered.
    pub can_come_back: BTreeSet<WayBack>,
}

impl KeySafety {
    /// The name of this field in a resource's `spec`.
    pub const FIELD: &'static str = "can_come_back";

    /// Returns the ways with a true condition.
    #[must_use]
    pub fn of(ways: impl IntoIterator<Item = (bool, WayBack)>) -> Self {
        Self { can_come_back: ways.into_iter().filter_map(|(holds, way)| holds.then_some(way)).collect() }
    }

    /// Reads the ways from a key's `spec`. A missing or unknown entry counts as recoverable.
    #[must_use]
    pub fn from_spec(spec: &Value) -> Self {
        let unknown = || BTreeSet::from([WayBack::Unknown]);
        let read = |way: &Value| way.as_str().and_then(|way| way.parse().ok()).unwrap_or(WayBack::Unknown);
        let said = spec.get(Self::FIELD).and_then(Value::as_array);
        Self { can_come_back: said.map_or_else(unknown, |ways| ways.iter().map(read).collect()) }
    }

    /// Returns true if no way to recover the key is known.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.can_come_back.is_empty()
    }

    /// Returns the ways as a list in words. Empty for a safe key.
    #[must_use]
    pub fn said(ways: &BTreeSet<WayBack>) -> String {
        ways.iter().map(|way| way.phrase()).collect::<Vec<_>>().join(", ")
    }
}

/// The operations on a key store that actions need. Key material never leaves the store.
///
/// Epochs and error classes must behave as described at [`Kubernetes`](crate::platform::Kubernetes). Idempotency keys are optional: these actions
/// read before they repeat.
#[async_trait]
pub trait Keys: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Creates the key: not exportable, without plaintext backup, not deletable. An existing key of that name is left unchanged.
    async fn create(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Returns the key, if it exists, with every way to recover it. A property that the store does not report counts as [`WayBack::Unknown`]. The
    /// key's `spec` has the same list in the field [`KeySafety::FIELD`].
    async fn read(
        &self,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, KeySafety)>, ActionError>;

    /// Allows the key's deletion and deletes it. All data that it encrypted becomes unreadable.
    async fn destroy(&self, name: &str, found: &FoundObject, stamp: &CallMetadata)
    -> Result<(), ActionError>;

    /// Encrypts with the tenant's key, decrypts as the tenant, and tries to decrypt as another tenant.
    async fn probe_isolation(&self, tenant: &str, stamp: &CallMetadata) -> Result<ProbeFinding, ActionError>;
}

#[cfg(test)]
mod tests {
    use super::{KeySafety, WayBack};
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn a_key_without_information_counts_as_restorable() {
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
    fn every_way_to_restore_a_key_is_parsed_as_written() {
        for way in <WayBack as strum::VariantArray>::VARIANTS {
            let safety = KeySafety { can_come_back: BTreeSet::from([*way]) };
            assert_eq!(KeySafety::from_spec(&json!(safety)), safety);
            assert!(!safety.is_safe());
        }
    }
}
