//! Actions on the key store. It has one key for each tenant, and the key never leaves the store. Destroying the key makes all data that it encrypted
//! unreadable.

use crate::platform::{
    CallMetadata, FoundObject, KeySafety, Platform, Removal,
    call_metadata::{look_again, outcome_unknown},
    codes, tenant_name,
};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The place of a tenant's key. It never holds the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReference {
    /// The key's name in the store.
    pub name: String,
    /// The key's unique id, recorded as evidence.
    pub uid: String,
}

/// Creates a tenant's key, and checks that the key cannot be recovered after its destruction.
///
/// Safe to run twice: an existing key is read instead of created, and after a lost response the store is probed first. Its undo,
/// [`DestroyTenantKey`], tolerates that it never ran, and that the key failed the check.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateTenantKey {
    /// The tenant's id.
    pub tenant: String,
}

impl Action for CreateTenantKey {
    const NAME: &'static str = "CreateTenantKey";
    type Platform = Platform;
    type Output = KeyReference;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<KeyReference, ActionError> {
        let (name, stamp) = (tenant_name(&self.tenant)?, CallMetadata::for_action(self, call));
        if let Some(key) = on.keys.read(&name, &stamp).await? {
            return self.checked(name, &key);
        }
        on.keys.create(&name, &self.tenant, &stamp).await?;
        match on.keys.read(&name, &stamp).await.map_err(outcome_unknown)? {
            Some(key) => self.checked(name, &key),
            None => Err(ActionError::transient(
                codes::KEY_MISSING,
                format!("key {name} was created, but does not exist"),
            )),
        }
    }

    /// A key with wrong settings counts as not done, so that `run` finds it and reports what is wrong. `run` then sends nothing.
    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<KeyReference>, ActionError> {
        let (name, stamp) = (tenant_name(&self.tenant)?, CallMetadata::for_action(self, call));
        Ok(match on.keys.read(&name, &stamp).await? {
            Some(key) => self.checked(name, &key).map_or(Probe::NotDone, Probe::Done),
            None => Probe::NotDone,
        })
    }
}

impl CreateTenantKey {
    fn checked(
        &self,
        name: String,
        (found, safety): &(FoundObject, KeySafety),
    ) -> Result<KeyReference, ActionError> {
        if found.tenant != self.tenant {
            let why = format!("key {name} belongs to {:?}", found.tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        if found.terminating {
            let why = format!("key {name} is softly deleted: purge or restore it in its key store");
            return Err(ActionError::permanent(codes::KEY_SOFT_DELETED, why));
        }
        if !safety.is_safe() {
            let ways = KeySafety::said(&safety.can_come_back);
            let why = format!("key {name} could be restored, so its destruction would prove nothing: {ways}");
            return Err(ActionError::permanent(codes::KEY_UNSAFE, why));
        }
        Ok(KeyReference { name, uid: found.uid.clone() })
    }
}

/// Destroys a tenant's key. All data that it encrypted becomes unreadable.
///
/// Safe to run twice: a missing key is a success. The undo runs before the tenant has data, removes only the key of its own step, and tolerates a
/// missing key. A destruction step itself has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DestroyTenantKey {
    /// The tenant's id.
    pub tenant: String,
}

impl Action for DestroyTenantKey {
    const NAME: &'static str = "DestroyTenantKey";
    type Platform = Platform;
    type Output = Removal;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let (name, stamp) = (tenant_name(&self.tenant)?, CallMetadata::for_action(self, call));
        let Some((found, _)) = on.keys.read(&name, &stamp).await? else { return Ok(Removal::Gone) };
        if !found.may_be_removed(&self.tenant, &stamp) {
            return Ok(Removal::left(&name, &found, &stamp));
        }
        on.keys.destroy(&name, &found, &stamp).await?;
        let Some((left, _)) = on.keys.read(&name, &stamp).await.map_err(outcome_unknown)? else {
            return Ok(Removal::Gone);
        };
        if !left.terminating {
            return Err(look_again(codes::TERMINATING));
        }
        // The store keeps a deleted key recoverable, so a second deletion is necessary.
        on.keys.destroy(&name, &left, &stamp.for_part("finally")).await?;
        match on.keys.read(&name, &stamp).await.map_err(outcome_unknown)? {
            None => Ok(Removal::Gone),
            Some(_) => {
                let why =
                    format!("key {name} is softly deleted, and can be restored: purge it in its key store");
                Err(ActionError::permanent(codes::KEY_SOFT_DELETED, why))
            }
        }
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<Removal>, ActionError> {
        let (name, stamp) = (tenant_name(&self.tenant)?, CallMetadata::for_action(self, call));
        Ok(match on.keys.read(&name, &stamp).await? {
            None => Probe::Done(Removal::Gone),
            Some(_) => Probe::NotDone,
        })
    }
}
