//! The Slurm-shaped capability: accounts of the batch scheduler.

use crate::platform::Platform;
use crate::platform::{
    Found, Made, Removal, Stamp, Swap, at_cluster, call_metadata::look_again, codes, tenant_name,
};
use async_trait::async_trait;
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
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
        stamp: &Stamp,
    ) -> Result<Found, ActionError>;

    /// The account as it stands, if there is one.
    async fn account(&self, cluster: &str, name: &str, stamp: &Stamp) -> Result<Option<Found>, ActionError>;

    /// Sets one field of the tenant's account if it still is as it was read: `associations` holds, by workspace, the
    /// `GrpTRES` of the workspace's association under the account, which is made where it is lacking. When the field is
    /// not as it was read, `object.changed`, transient: read again.
    async fn swap(
        &self,
        cluster: &str,
        name: &str,
        tenant: &str,
        swap: &Swap,
        stamp: &Stamp,
    ) -> Result<Found, ActionError>;

    /// Deletes the account; one with jobs is kept and refused with `account.in_use`.
    async fn delete_account(
        &self,
        cluster: &str,
        name: &str,
        found: &Found,
        stamp: &Stamp,
    ) -> Result<(), ActionError>;
}

/// Makes a tenant's account in a cluster.
///
/// Safe to run twice: deterministic name, an equal account is left as it is. Its undo, [`DeleteAccount`], tolerates
/// that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateAccount {
    /// In which cluster.
    pub cluster: String,
    /// For which tenant.
    pub tenant: String,
    /// What each of its workspaces may use.
    #[serde(default)]
    pub associations: Associations,
}

impl Action for CreateAccount {
    const NAME: &'static str = "CreateAccount";
    type Platform = Platform;
    type Output = Made;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Made, ActionError> {
        let name = tenant_name(&self.tenant)?;
        let stamp = Stamp::of(self, call);
        let found =
            on.slurm.create_account(&self.cluster, &name, &self.tenant, &self.associations, &stamp).await?;
        Ok(Made { name, uid: found.uid })
    }
}

/// Deletes a tenant's account in a cluster, unless it has jobs.
///
/// Safe to run twice, and as an undo: absent is success, and what another step made is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteAccount {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
}

impl Action for DeleteAccount {
    const NAME: &'static str = "DeleteAccount";
    type Platform = Platform;
    type Output = Removal;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let name = tenant_name(&self.tenant)?;
        let stamp = Stamp::of(self, call);
        let Some(found) = on.slurm.account(&self.cluster, &name, &stamp).await? else {
            return Ok(Removal::Gone);
        };
        if !found.may_be_removed(&self.tenant, &stamp) {
            return Ok(Removal::left(&name, &found, &stamp));
        }
        on.slurm.delete_account(&self.cluster, &name, &found, &stamp).await?;
        match on.slurm.account(&self.cluster, &name, &stamp).await? {
            None => Ok(Removal::Gone),
            Some(_) => Err(look_again(codes::TERMINATING)),
        }
    }
}
