//! The key store: one key for each tenant.

use crate::platform::{CallMetadata, FoundObject, ProbeFinding};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// What a key allows. Both flags are set at creation and can be unset by nobody afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySafety {
    /// Whether the key can be read out.
    pub exportable: bool,
    /// Whether a backup would hold it in the clear.
    pub allow_plaintext_backup: bool,
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

    /// The key as it stands, if there is one.
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
