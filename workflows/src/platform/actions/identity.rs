//! Actions on the identity provider: a tenant's groups, and the credentials that it receives.

use crate::platform::{
    CallMetadata, CreatedObject, FoundObject, Platform, Removal, call_metadata::look_again, codes,
    tenant_name,
};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Creates a tenant's groups.
///
/// Safe to run twice: the name is deterministic, and equal groups are left unchanged. Its undo, [`DeleteIdentity`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateIdentity {
    /// The tenant's id.
    pub tenant: String,
    /// The names of the groups.
    pub groups: Vec<String>,
}

impl Action for CreateIdentity {
    const NAME: &'static str = "CreateIdentity";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let name = tenant_name(&self.tenant)?;
        let found = on
            .identity
            .create(&name, &self.tenant, &self.groups, &CallMetadata::for_action(self, call))
            .await?;
        Ok(CreatedObject { name, uid: found.uid })
    }
}

/// Deletes a tenant's groups.
///
/// Safe to run twice and as an undo: missing groups are a success, and groups of another step are left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteIdentity {
    /// The tenant's id.
    pub tenant: String,
}

impl Action for DeleteIdentity {
    const NAME: &'static str = "DeleteIdentity";
    type Platform = Platform;
    type Output = Removal;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let (name, stamp) = (tenant_name(&self.tenant)?, CallMetadata::for_action(self, call));
        let Some(found) = on.identity.read(&name, &stamp).await? else { return Ok(Removal::Gone) };
        if !found.may_be_removed(&self.tenant, &stamp) {
            return Ok(Removal::left(&name, &found, &stamp));
        }
        on.identity.delete(&name, &found, &stamp).await?;
        match on.identity.read(&name, &stamp).await? {
            None => Ok(Removal::Gone),
            Some(_) => Err(look_again(codes::TERMINATING)),
        }
    }
}

/// The place where a tenant can fetch its credentials. It never holds the credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialReference {
    /// A reference that the tenant's administrators can fetch once.
    pub reference: String,
}

/// Publishes a tenant's credentials and returns where the tenant can fetch them.
///
/// Safe to run twice: published credentials are not created again, and after a lost response the provider is probed first. Fetched credentials cannot
/// be recalled, so this step belongs after the point of no return. [`RevokeCredentials`] makes them invalid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishCredentials {
    /// The tenant's id.
    pub tenant: String,
}

impl Action for PublishCredentials {
    const NAME: &'static str = "PublishCredentials";
    type Platform = Platform;
    type Output = CredentialReference;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<CredentialReference, ActionError> {
        let (name, stamp) = (tenant_name(&self.tenant)?, CallMetadata::for_action(self, call));
        if let Some(found) = on.identity.published(&name, &stamp).await? {
            return self.reference(&name, &found);
        }
        on.identity.publish(&name, &self.tenant, &stamp).await?;
        Ok(reference(&name))
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<CredentialReference>, ActionError> {
        let name = tenant_name(&self.tenant)?;
        Ok(match on.identity.published(&name, &CallMetadata::for_action(self, call)).await? {
            Some(found) => self.reference(&name, &found).map_or(Probe::NotDone, Probe::Done),
            None => Probe::NotDone,
        })
    }
}

impl PublishCredentials {
    fn reference(&self, name: &str, found: &FoundObject) -> Result<CredentialReference, ActionError> {
        if found.tenant == self.tenant {
            return Ok(reference(name));
        }
        let why = format!("credentials {name} belong to {:?}", found.tenant);
        Err(ActionError::permanent(codes::OBJECT_FOREIGN, why))
    }
}

fn reference(name: &str) -> CredentialReference {
    CredentialReference { reference: format!("credentials/{name}") }
}

/// Revokes a tenant's published credentials.
///
/// Safe to run twice and as an undo: missing credentials are a success, and credentials of another step are left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevokeCredentials {
    /// The tenant's id.
    pub tenant: String,
}

impl Action for RevokeCredentials {
    const NAME: &'static str = "RevokeCredentials";
    type Platform = Platform;
    type Output = Removal;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let (name, stamp) = (tenant_name(&self.tenant)?, CallMetadata::for_action(self, call));
        let Some(found) = on.identity.published(&name, &stamp).await? else { return Ok(Removal::Gone) };
        if !found.may_be_removed(&self.tenant, &stamp) {
            return Ok(Removal::left(&name, &found, &stamp));
        }
        on.identity.revoke(&name, &found, &stamp).await?;
        match on.identity.published(&name, &stamp).await? {
            None => Ok(Removal::Gone),
            Some(_) => Err(look_again(codes::TERMINATING)),
        }
    }
}
