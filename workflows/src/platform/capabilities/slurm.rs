//! Slurm: accounts of the batch scheduler.

use crate::platform::{CallMetadata, FieldSwap, FoundObject};
use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeMap, fmt::Debug};

/// What each workspace may use: amount by Slurm's name of the resource, such as `gres/gpu:h100`, by workspace.
pub type Associations = BTreeMap<String, BTreeMap<String, u64>>;

/// A cluster's accounting, as far as actions need it.
///
/// An implementor promises what [`Kubernetes`](crate::platform::Kubernetes) promises of keys, epochs and classes.
#[async_trait]
pub trait Slurm: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// Makes the account, its comment naming tenant and step, and under it an association per workspace with this
    /// `GrpTRES`. An equal one of the tenant is left as it is, another's is refused with `object.foreign`.
    async fn create_account(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        associations: &Associations,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// The account as it stands, if there is one.
    async fn account(
        &self,
        cluster: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError>;

    /// Sets one field of the tenant's account if it still is as it was read: `associations` holds, by workspace, the
    /// `GrpTRES` of the workspace's association under the account, which is made where it is lacking. When the field is
    /// not as it was read, `object.changed`, transient: read again.
    async fn compare_and_set(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// Deletes the account; one with jobs is kept and refused with `account.in_use`.
    async fn delete_account(
        &self,
        cluster: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;
}
