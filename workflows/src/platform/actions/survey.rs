//! Lists a tenant's resources with the platform's credentials, and compares the list with the verifier's list.
//!
//! Invariant: a survey marks each place that a simulator serves.

use crate::platform::{
    CallMetadata, ObservedResource, Observer, Platform, TenantResource, VerifiedAs, codes,
};
use engine::{Action, ActionError, Call, Class};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Lists all resources with a tenant's mark in some systems, and marks the simulated places.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SurveyTenant {
    /// The tenant's id.
    pub tenant: String,
    /// The systems to search: some of [`SYSTEMS`](crate::platform::SYSTEMS).
    pub systems: Vec<String>,
    /// The credentials to use.
    pub eyes: Observer,
    /// If true, fails with `platform.denied` if the verifier does not see a resource that the platform sees, and marks the resources that the platform may
    /// not remove.
    #[serde(default)]
    pub compared: bool,
    /// The resources in Tenure's records. Their places are also checked for simulators.
    #[serde(default)]
    pub expected: Vec<TenantResource>,
}

/// Result of [`SurveyTenant`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantSurvey {
    /// All resources with the tenant's mark.
    pub seen: Vec<ObservedResource>,
    /// The systems, and single places of other systems, that a simulator serves: `registry`, `objects/eu`.
    pub simulated: BTreeSet<String>,
}

impl Action for SurveyTenant {
    const NAME: &'static str = "SurveyTenant";
    type Platform = Platform;
    type Output = TenantSurvey;

    async fn run(&self, on: &Platform, call: &Call) -> Result<TenantSurvey, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let mut all = Vec::new();
        for system in &self.systems {
            let mut found = on.tenant_resources.survey(system, &self.tenant, self.eyes, &stamp).await?;
            if self.compared {
                self.compare(on, system, &found, &stamp).await?;
                mark_denied(on, &mut found, &stamp).await?;
            }
            all.extend(found);
        }
        let simulated = self.simulated(on, &all);
        Ok(TenantSurvey { seen: all, simulated })
    }
}

/// Marks the resources that the platform may not remove, so that this is known before their destruction is approved.
async fn mark_denied(
    on: &Platform,
    found: &mut [ObservedResource],
    stamp: &CallMetadata,
) -> Result<(), ActionError> {
    for seen in found {
        let denied = on.tenant_resources.removal_denied(&seen.thing, stamp).await?;
        if let (Some(why), Some(spec)) = (denied, seen.spec.as_object_mut()) {
            spec.insert(ObservedResource::REMOVAL_DENIED.into(), why.into());
        }
    }
    Ok(())
}

impl SurveyTenant {
    /// Fails with `platform.denied` if the verifier does not see a resource that the platform sees, because the verifier would later report it as
    /// gone. Backends with two credentials do not compare the lists themselves.
    async fn compare(
        &self,
        on: &Platform,
        system: &str,
        found: &[ObservedResource],
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let has_verifier = |thing: &TenantResource| {
            on.tenant_resources.verified_as(thing, Observer::Verifier) != VerifiedAs::Platform
        };
        let own: Vec<_> = found.iter().map(|seen| &seen.thing).filter(|thing| has_verifier(thing)).collect();
        if own.is_empty() {
            return Ok(());
        }
        let theirs = on.tenant_resources.survey(system, &self.tenant, Observer::Verifier, stamp).await;
        let theirs = theirs.map_err(|error| match error.class {
            Class::Permanent => {
                let why = format!("the verifier cannot read {system}: {}", error.message);
                ActionError::permanent(codes::DENIED, why)
            }
            Class::Transient | Class::Pending { .. } | Class::Unknown => error,
        })?;
        let mut hidden = Vec::new();
        for thing in own {
            let sees = theirs.iter().any(|seen| seen.thing == *thing);
            // A resource that was removed between the two lists is not hidden.
            if !sees && on.tenant_resources.read_resource(thing, Observer::Platform, stamp).await?.is_some() {
                hidden.push(thing.to_string());
            }
        }
        if hidden.is_empty() {
            return Ok(());
        }
        let why = format!(
            "the verifier does not find {}, but the platform does: give the verifier the permission to list all of {system}",
            hidden.join(", ")
        );
        Err(ActionError::permanent(codes::DENIED, why))
    }

    /// Returns the simulated systems, and the simulated places of the other systems.
    fn simulated(&self, on: &Platform, seen: &[ObservedResource]) -> BTreeSet<String> {
        let whole = |system: &&String| on.tenant_resources.is_system_simulated(system);
        let mut places: BTreeSet<String> = self.systems.iter().filter(whole).cloned().collect();
        for thing in seen.iter().map(|seen| &seen.thing).chain(&self.expected) {
            if !places.contains(&thing.system) && on.tenant_resources.is_simulated(thing) {
                places.insert(format!("{}/{}", thing.system, thing.place));
            }
        }
        places
    }
}
