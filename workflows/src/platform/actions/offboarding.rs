//! Actions around the removal of a tenant's resources: freeze, drain, and verify that they are gone.

use crate::platform::{
    AccessMode, CallMetadata, ObservedResource, Observer, Platform, TenantResource, VerifiedAs,
    call_metadata::look_again, codes,
};
use engine::{Action, ActionError, Call, Class};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reads the access mode of a resource, so that it can be restored.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadAdmission {
    /// The resource.
    pub thing: TenantResource,
}

/// Result of [`ReadAdmission`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceAdmission {
    /// The resource.
    pub thing: TenantResource,
    /// The access mode. `None` if the resource does not exist.
    pub admits: Option<AccessMode>,
}

impl Action for ReadAdmission {
    const NAME: &'static str = "ReadAdmission";
    type Platform = Platform;
    type Output = ResourceAdmission;

    async fn run(&self, on: &Platform, call: &Call) -> Result<ResourceAdmission, ActionError> {
        let seen = on
            .tenant_resources
            .read_resource(&self.thing, Observer::Platform, &CallMetadata::for_action(self, call))
            .await?;
        Ok(ResourceAdmission { thing: self.thing.clone(), admits: seen.map(|seen| admits(&seen)) })
    }
}

fn admits(seen: &ObservedResource) -> AccessMode {
    match (seen.text("stopPolicy"), seen.text("admits")) {
        (Some("Hold"), _) | (_, Some("read_only")) => AccessMode::ReadOnly,
        (Some("HoldAndDrain"), _) | (_, Some("nothing")) => AccessMode::Nothing,
        _ => AccessMode::All,
    }
}

/// Sets the access mode of a resource: frozen, drained, or the earlier mode.
///
/// Safe to run twice: it sets one field. A missing resource is ignored. It is its own undo, with the mode that [`ReadAdmission`] read; work that was
/// ended in between does not come back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetAdmission {
    /// The resource.
    pub thing: TenantResource,
    /// The tenant's id.
    pub tenant: String,
    /// The access mode to set.
    pub admits: AccessMode,
}

impl Action for SetAdmission {
    const NAME: &'static str = "SetAdmission";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let seen = on.tenant_resources.read_resource(&self.thing, Observer::Platform, &stamp).await?;
        let ours = seen.filter(|seen| seen.tenant == self.tenant && !seen.terminating);
        // An interrupted change must run again, even if the mode is already set.
        if ours.is_none_or(|seen| admits(&seen) == self.admits && !seen.is("unfinished")) {
            return Ok(());
        }
        on.tenant_resources.set_admission(&self.thing, &self.tenant, self.admits, &stamp).await
    }
}

/// Waits until a resource has no running work of the tenant.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AwaitIdle {
    /// The resource.
    pub thing: TenantResource,
}

impl Action for AwaitIdle {
    const NAME: &'static str = "AwaitIdle";
    type Platform = Platform;
    type Output = ();

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let seen = on
            .tenant_resources
            .read_resource(&self.thing, Observer::Platform, &CallMetadata::for_action(self, call))
            .await?;
        let running = seen.map_or(0, |seen| seen.number("running") + seen.number("jobs"));
        if running == 0 { Ok(()) } else { Err(look_again(codes::DRAINING)) }
    }
}

/// The credentials that were used for verification, by system.
pub type VerifiedSystems = BTreeMap<String, VerifiedAs>;

/// Returns whose credentials verify these resources, by system.
fn verified_systems<'a>(on: &Platform, things: impl Iterator<Item = &'a TenantResource>) -> VerifiedSystems {
    let mut systems = VerifiedSystems::new();
    for thing in things {
        let verified = on.tenant_resources.verified_as(thing, Observer::Verifier);
        let before = systems.get(&thing.system).copied();
        systems.insert(thing.system.clone(), before.map_or(verified, |before| before.and(verified)));
    }
    systems
}

/// Verifies that resources are gone, with the credentials of the verifier and of the platform. Fails with `asset.remains`, which names the remaining
/// resources. The second look finds resources that the verifier cannot see.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifyAbsent {
    /// The resources.
    pub things: Vec<TenantResource>,
}

impl Action for VerifyAbsent {
    const NAME: &'static str = "VerifyAbsent";
    type Platform = Platform;
    type Output = VerifiedSystems;

    async fn run(&self, on: &Platform, call: &Call) -> Result<VerifiedSystems, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let (mut left, mut hidden) = (Vec::new(), Vec::new());
        for thing in &self.things {
            match finder(on, thing, &stamp).await? {
                Some(Observer::Verifier) => left.push(thing.to_string()),
                Some(Observer::Platform) => hidden.push(thing.to_string()),
                None => {}
            }
        }
        if left.is_empty() && hidden.is_empty() {
            return Ok(verified_systems(on, self.things.iter()));
        }
        Err(remains(&left, &hidden))
    }
}

/// Verifies that no resource has the tenant's mark, with the credentials of the verifier and of the platform. Fails with `asset.remains`, which names
/// the remaining resources. The second look finds resources that the verifier cannot see.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifyNothingLeft {
    /// The tenant's id.
    pub tenant: String,
    /// The systems to search: some of [`SYSTEMS`](crate::platform::SYSTEMS).
    pub systems: Vec<String>,
    /// Resources that may remain: retained ones, and nodes that have not been returned.
    pub allowed: Vec<TenantResource>,
    /// Removed resources: at least one of each place where something was removed.
    #[serde(default)]
    pub removed: Vec<TenantResource>,
}

impl Action for VerifyNothingLeft {
    const NAME: &'static str = "VerifyNothingLeft";
    type Platform = Platform;
    type Output = VerifiedSystems;

    async fn run(&self, on: &Platform, call: &Call) -> Result<VerifiedSystems, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let (mut left, mut hidden) = (Vec::new(), Vec::new());
        for system in &self.systems {
            let found = self.left(on, system, Observer::Verifier, &stamp).await?;
            // The platform's look is the second. A resource that is created in between is reported, but not as hidden from the verifier.
            let own = self.left(on, system, Observer::Platform, &stamp).await?;
            hidden.extend(own.into_iter().filter(|thing| !found.contains(thing)));
            left.extend(found);
        }
        if left.is_empty() && hidden.is_empty() {
            return Ok(verified_systems(on, self.removed.iter()));
        }
        Err(remains(&left, &hidden))
    }
}

/// Returns the error for remaining resources and for hidden ones, which the verifier does not see.
fn remains(left: &[String], hidden: &[String]) -> ActionError {
    let mut why = Vec::new();
    if !left.is_empty() {
        why.push(format!("the verifier still finds {}", left.join(", ")));
    }
    if !hidden.is_empty() {
        why.push(format!("the platform still finds {}, but the verifier does not", hidden.join(", ")));
    }
    ActionError::permanent(codes::REMAINS, why.join("; "))
}

/// Returns the observer that still finds a resource. `Platform` means that the verifier does not find it; `None` means that it is gone.
async fn finder(
    on: &Platform,
    thing: &TenantResource,
    stamp: &CallMetadata,
) -> Result<Option<Observer>, ActionError> {
    for eyes in [Observer::Verifier, Observer::Platform] {
        if on.tenant_resources.read_resource(thing, eyes, stamp).await?.is_some() {
            return Ok(Some(eyes));
        }
    }
    Ok(None)
}

impl VerifyNothingLeft {
    /// Returns the names of resources in a system that have the tenant's mark and may not remain.
    async fn left(
        &self,
        on: &Platform,
        system: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<String>, ActionError> {
        let seen = on.tenant_resources.survey(system, &self.tenant, eyes, stamp).await?;
        let strange = seen.into_iter().filter(|seen| !self.allowed.contains(&seen.thing));
        Ok(strange.map(|seen| seen.thing.to_string()).collect())
    }
}

/// Looks for each resource with the credentials of the verifier and of the platform, and reports the remaining ones. The second look finds resources
/// that the verifier cannot see.
///
/// Runs after an approver has accepted an incomplete verification, so that the records state the observation of each resource. Safe to run twice: it
/// changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObserveAbsence {
    /// The resources.
    pub things: Vec<TenantResource>,
}

/// Result of [`ObserveAbsence`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedAbsence {
    /// The credentials that were used for verification, by system.
    pub verified: VerifiedSystems,
    /// Resources that remain, or whose check failed.
    pub remains: Vec<RemainingThing>,
}

/// A resource that was not observed to be gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingThing {
    /// The resource.
    pub thing: TenantResource,
    /// The observation.
    pub why: String,
}

impl Action for ObserveAbsence {
    const NAME: &'static str = "ObserveAbsence";
    type Platform = Platform;
    type Output = ObservedAbsence;

    async fn run(&self, on: &Platform, call: &Call) -> Result<ObservedAbsence, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let mut remains = Vec::new();
        for thing in &self.things {
            let seen = seen_of(on, thing, &stamp).await?;
            remains.extend(seen.map(|why| RemainingThing { thing: thing.clone(), why }));
        }
        Ok(ObservedAbsence { verified: verified_systems(on, self.things.iter()), remains })
    }
}

/// Returns the observation of a resource. `None` means that no observer finds it.
async fn seen_of(
    on: &Platform,
    thing: &TenantResource,
    stamp: &CallMetadata,
) -> Result<Option<String>, ActionError> {
    match finder(on, thing, stamp).await {
        Ok(found) => Ok(found.map(|eyes| match eyes {
            Observer::Verifier => "the verifier still finds it".to_owned(),
            Observer::Platform => "the platform still finds it, but the verifier does not".to_owned(),
        })),
        Err(error) if error.class == Class::Permanent => {
            Ok(Some(format!("the check for it failed: {}", error.message)))
        }
        Err(error) => Err(error),
    }
}
