//! Actions on Slurm: accounts of the batch scheduler.

use crate::platform::{
    Associations, CallMetadata, CreatedObject, Platform, Removal, at_cluster, call_metadata::look_again,
    codes, tenant_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Creates a tenant's account in a cluster.
///
/// Safe to run twice: the name is deterministic, and an equal account is left unchanged. Its undo, [`DeleteAccount`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateAccount {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The limits of each workspace.
    #[serde(default)]
    pub associations: Associations,
}

impl Action for CreateAccount {
    const NAME: &'static str = "CreateAccount";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let name = tenant_name(&self.tenant)?;
        let stamp = CallMetadata::for_action(self, call);
        let found =
            on.slurm.create_account(&self.cluster, &name, &self.tenant, &self.associations, &stamp).await?;
        Ok(CreatedObject { name, uid: found.uid })
    }
}

/// Deletes a tenant's account in a cluster, unless it has jobs.
///
/// Safe to run twice and as an undo: a missing object is a success, and an object of another step is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteAccount {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
}

impl Action for DeleteAccount {
    const NAME: &'static str = "DeleteAccount";
    type Platform = Platform;
    type Output = Removal;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let name = tenant_name(&self.tenant)?;
        let stamp = CallMetadata::for_action(self, call);
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
