//! Slurm: accounts of the batch scheduler.

use crate::platform::{CallMetadata, FieldSwap, FoundObject};
use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeMap, fmt::Debug};

/// The limits of each workspace: the amount by Slurm's resource name, such as `gres/gpu:h100`, by workspace.
pub type Associations = BTreeMap<String, BTreeMap<String, u64>>;

/// The operations on a cluster's accounting that actions need.
///
/// Keys, epochs and error classes must behave as described at [`Kubernetes`](crate::platform::Kubernetes).
#[async_trait]
pub trait Slurm: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Creates the account with tenant and step in its comment, and one association per workspace with this `GrpTRES`. An equal account of the tenant
    /// is left unchanged, and one of another tenant fails with `object.foreign`.
    async fn create_account(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        associations: &Associations,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// Returns the account, if it exists.
    async fn account(
        &self,
        cluster: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError>;

    /// Sets one field of the tenant's account if it has the value that was read. `associations` holds the `GrpTRES` of each workspace's association;
    /// a missing association is created. Fails with `object.changed`, transient, if the field has a different value, so that the caller reads again.
    async fn compare_and_set(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// Deletes the account. Fails with `account.in_use` if it has jobs.
    async fn delete_account(
        &self,
        cluster: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;
}
