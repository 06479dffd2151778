//! Before and after the removal of what a tenant leaves behind: freeze, drain, and looking whether it is gone.

use crate::platform::{
    AccessMode, CallMetadata, ObservedResource, Observer, Platform, TenantResource, VerifiedAs,
    call_metadata::look_again, codes,
};
use engine::{Action, ActionError, Call, Class};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reads what a thing lets in, so that it can be restored.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadAdmission {
    /// Which thing.
    pub thing: TenantResource,
}

/// What a thing lets in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceAdmission {
    /// Which thing.
    pub thing: TenantResource,
    /// What; none when there is no such thing.
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

/// Sets what a thing lets in: frozen, drained, or as it was.
///
/// Safe to run twice: it sets one field. A thing that is not there any more is left so. Its undo is itself, with what
/// [`ReadAdmission`] saw before; work that was ended meanwhile does not come back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetAdmission {
    /// Which thing.
    pub thing: TenantResource,
    /// Whose.
    pub tenant: String,
    /// What it is to let in.
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
        // One that was broken off has to be gone through again, whatever it says by now.
        if ours.is_none_or(|seen| admits(&seen) == self.admits && !seen.is("unfinished")) {
            return Ok(());
        }
        on.tenant_resources.set_admission(&self.thing, &self.tenant, self.admits, &stamp).await
    }
}

/// Waits until nothing of the tenant runs in a thing.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AwaitIdle {
    /// Which thing.
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

/// By system: with whose credentials it was looked at, as its backends answered.
pub type VerifiedSystems = BTreeMap<String, VerifiedAs>;

/// With whose credentials the places of these things are looked at for a verifier.
fn verified_systems<'a>(on: &Platform, things: impl Iterator<Item = &'a TenantResource>) -> VerifiedSystems {
    let mut systems = VerifiedSystems::new();
    for thing in things {
        let verified = on.tenant_resources.verified_as(thing, Observer::Verifier);
        let before = systems.get(&thing.system).copied();
        systems.insert(thing.system.clone(), before.map_or(verified, |before| before.and(verified)));
    }
    systems
}

/// Looks, with the verifier's credentials and with the platform's own, whether things are gone; fails with `asset.remains`, which
/// names those that are not. A verifier that sees less than the platform does not hide what is left.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifyAbsent {
    /// Which things.
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

/// Surveys, with the credentials of the verifier and with the platform's own, whether anything bears a tenant's mark; fails with
/// `asset.remains`, which names it. A verifier that sees less than the platform does not hide what is left.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerifyNothingLeft {
    /// Whose mark.
    pub tenant: String,
    /// Where to look: some of [`SYSTEMS`](crate::platform::SYSTEMS).
    pub systems: Vec<String>,
    /// What may be there: what is kept, and nodes that have not been returned.
    pub allowed: Vec<TenantResource>,
    /// What was removed: one thing of each place in which something was.
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
            // The platform looks second: what is made in between is found, and not taken for hidden from the verifier.
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

/// That these things are left, and these others, which the verifier does not see.
fn remains(left: &[String], hidden: &[String]) -> ActionError {
    let mut why = Vec::new();
    if !left.is_empty() {
        why.push(format!("the verifier still finds {}", left.join(", ")));
    }
    if !hidden.is_empty() {
        why.push(format!("the platform still finds {}, which the verifier does not see", hidden.join(", ")));
    }
    ActionError::permanent(codes::REMAINS, why.join("; "))
}

/// Who still finds a thing: the verifier, or the platform alone; none where neither does.
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
    /// What bears the tenant's mark in a system and may not be there, by name.
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

/// Looks for each thing, with the verifier's credentials and with the platform's own, and tells those that are gone from those
/// that remain. A verifier that sees less than the platform does not hide what is left.
///
/// Run after people have accepted that a verification stays open, so that records say of each thing what was seen of it. Safe to
/// run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObserveAbsence {
    /// Which things.
    pub things: Vec<TenantResource>,
}

/// What was seen of things that should be gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedAbsence {
    /// By system of the things that were looked for: with whose credentials.
    pub verified: VerifiedSystems,
    /// Those that are there still, or that could not be looked for.
    pub remains: Vec<RemainingThing>,
}

/// A thing that was not seen to be gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingThing {
    /// Which thing.
    pub thing: TenantResource,
    /// What was seen of it.
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

/// What is seen of a thing that should be gone; none where neither observer finds it.
async fn seen_of(
    on: &Platform,
    thing: &TenantResource,
    stamp: &CallMetadata,
) -> Result<Option<String>, ActionError> {
    match finder(on, thing, stamp).await {
        Ok(found) => Ok(found.map(|eyes| match eyes {
            Observer::Verifier => "the verifier still finds it".to_owned(),
            Observer::Platform => "the platform still finds it, which the verifier does not see".to_owned(),
        })),
        Err(error) if error.class == Class::Permanent => {
            Ok(Some(format!("it could not be looked for: {}", error.message)))
        }
        Err(error) => Err(error),
    }
}
