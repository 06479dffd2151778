//! The identity provider: a tenant's groups, and the credentials handed over to it.

use crate::platform::{
    CallMetadata, CreatedObject, FoundObject, Platform, Removal, call_metadata::look_again, codes,
    tenant_name,
};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Makes a tenant's groups.
///
/// Safe to run twice: deterministic name, equal groups are left as they are. Its undo, [`DeleteIdentity`], tolerates
/// that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateIdentity {
    /// For which tenant.
    pub tenant: String,
    /// Its groups.
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
/// Safe to run twice, and as an undo: absent is success, and what another step made is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteIdentity {
    /// Of which tenant.
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

/// Where a tenant's credentials can be fetched: never the credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialReference {
    /// For the tenant's administrators, to be fetched once.
    pub reference: String,
}

/// Puts a tenant's credentials where the tenant can fetch them, and says where.
///
/// Safe to run twice: credentials that were published are not made again; when no answer came, they are looked for
/// first. Once fetched they cannot be taken back, so this belongs past the point of no return;
/// [`RevokeCredentials`] makes them useless.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishCredentials {
    /// To which tenant.
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
        let why = format!("credentials {name} are of {:?}", found.tenant);
        Err(ActionError::permanent(codes::OBJECT_FOREIGN, why))
    }
}

fn reference(name: &str) -> CredentialReference {
    CredentialReference { reference: format!("credentials/{name}") }
}

/// Makes a tenant's published credentials useless.
///
/// Safe to run twice, and as an undo: absent is success, and what another step made is left and reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevokeCredentials {
    /// Of which tenant.
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
