//! Routes surveys of tenants' objects to the backend of each system and place.
//!
//! Invariant: if part of a system is real but has no backend, the survey of the whole system fails. Objects that were
//! not looked for never count as absent, because the certificate of destruction depends on it.

use async_trait::async_trait;
use engine::ActionError;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use workflows::platform::{
    AccessMode, CallMetadata, DriveTool, EmptyProgress, ObservedResource, Observer, ProbeFinding,
    TenantResource, TenantResources, VerifiedAs, codes,
};

/// The place of systems without clusters or regions.
const NOWHERE: &str = "";

/// Backends by system and place; `rest` serves all others.
#[derive(Debug)]
pub struct Estates {
    served: BTreeMap<(&'static str, String), Arc<dyn TenantResources>>,
    /// Real places without a backend that can survey them.
    blind: BTreeSet<(&'static str, String)>,
    rest: Arc<dyn TenantResources>,
    said: &'static str,
}

impl Estates {
    /// Serves these systems and places by their own backends and all others by `rest`. Calls for the places in `blind`
    /// fail.
    #[must_use]
    pub fn over(
        served: BTreeMap<(&'static str, String), Arc<dyn TenantResources>>,
        blind: BTreeSet<(&'static str, String)>,
        rest: Arc<dyn TenantResources>,
    ) -> Arc<dyn TenantResources> {
        if served.is_empty() && blind.is_empty() {
            return rest;
        }
        let named = |system: &str, place: &str| {
            if place.is_empty() { system.to_owned() } else { format!("{system} {place}") }
        };
        let each = served
            .iter()
            .map(|((system, place), one)| format!("{}: {}", named(system, place), one.backend()));
        let none = blind.iter().map(|(system, place)| format!("{}: none", named(system, place)));
        let said =
            each.chain(none).chain([format!("others: {}", rest.backend())]).collect::<Vec<_>>().join(", ");
        // Lives as long as the process; there is one per process.
        Arc::new(Self { served, blind, rest, said: String::leak(said) })
    }

    /// Returns the backend for the place of this object.
    fn of(&self, thing: &TenantResource) -> Result<&dyn TenantResources, ActionError> {
        let here = |(system, place): &(&'static str, String)| {
            *system == thing.system && (place == NOWHERE || *place == thing.place)
        };
        if let Some((system, place)) = self.blind.iter().find(|at| here(at)) {
            return Err(unsurveyed(system, place));
        }
        let found = self.served.iter().find(|(at, _)| here(at));
        Ok(found.map_or(&*self.rest, |(_, backend)| &**backend))
    }

    /// Returns true if another backend serves this place, so that `rest` is ignored for it.
    fn taken(&self, thing: &TenantResource) -> bool {
        self.served
            .keys()
            .any(|(system, place)| *system == thing.system && (place == NOWHERE || *place == thing.place))
    }
}

fn unsurveyed(system: &str, place: &str) -> ActionError {
    let why = format!(
        "no backend can look for what tenants have in {system} at {place:?}: survey and clear it by hand, and keep the tenant until that is done"
    );
    ActionError::permanent(codes::UNSUPPORTED, why)
}

#[async_trait]
impl TenantResources for Estates {
    fn backend(&self) -> &'static str {
        self.said
    }

    fn is_simulated(&self, thing: &TenantResource) -> bool {
        // A real place without a backend is not simulated either.
        self.of(thing).is_ok_and(|backend| backend.is_simulated(thing))
    }

    fn is_system_simulated(&self, system: &str) -> bool {
        let is_served = self.served.keys().chain(&self.blind).any(|(served, _)| *served == system);
        !is_served && self.rest.is_system_simulated(system)
    }

    fn verified_as(&self, thing: &TenantResource, eyes: Observer) -> VerifiedAs {
        // A place that is not surveyed has no verifier.
        self.of(thing).map_or(VerifiedAs::Platform, |backend| backend.verified_as(thing, eyes))
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        if let Some((system, place)) = self.blind.iter().find(|(blind, _)| *blind == system) {
            return Err(unsurveyed(system, place));
        }
        let mut all = Vec::new();
        for ((_, place), backend) in self.served.iter().filter(|((served, _), _)| *served == system) {
            let found = backend.survey(system, tenant, eyes, stamp).await?;
            if place == NOWHERE {
                return Ok(found);
            }
            all.extend(found);
        }
        let rest = self.rest.survey(system, tenant, eyes, stamp).await?;
        all.extend(rest.into_iter().filter(|seen| !self.taken(&seen.thing)));
        Ok(all)
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        self.of(thing)?.read_resource(thing, eyes, stamp).await
    }

    async fn wait_until_gone(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        self.of(thing)?.wait_until_gone(thing, uid, stamp).await
    }

    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(thing)?.set_admission(thing, tenant, admits, stamp).await
    }

    async fn rewrap(
        &self,
        thing: &TenantResource,
        tenant: &str,
        key: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(thing)?.rewrap(thing, tenant, key, stamp).await
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        self.of(thing)?.empty(thing, uid, stamp).await
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(thing)?.remove(thing, uid, stamp).await
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        self.of(key)?.undecryptable(key, stamp).await
    }

    async fn destruction_tool(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<DriveTool>, ActionError> {
        self.of(thing)?.destruction_tool(thing, stamp).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{LocalWorld, simulated_platform};
    use std::time::Duration;

    fn stamp() -> CallMetadata {
        let (step, key) = ("look".to_owned(), "look".to_owned());
        let deadline = Duration::from_secs(1);
        CallMetadata {
            action: "Test",
            step,
            key,
            epoch: store::Epoch(1),
            undo: false,
            deadline,
            dry_run: false,
        }
    }

    #[tokio::test]
    async fn a_kind_without_a_survey_is_refused_and_never_absent() {
        let simulated = simulated_platform(Arc::new(LocalWorld::new())).tenant_resources;
        let blind = BTreeSet::from([("kubernetes", "eu-1".to_owned())]);
        let estate = Estates::over(BTreeMap::new(), blind, simulated);
        let thing = |cluster| TenantResource::new("kubernetes", cluster, "Namespace", "t-acme");

        let survey = estate.survey("kubernetes", "acme", Observer::Platform, &stamp()).await.unwrap_err();
        let look = estate.read_resource(&thing("eu-1"), Observer::Verifier, &stamp()).await.unwrap_err();

        assert_eq!((survey.code.as_str(), look.code.as_str()), (codes::UNSUPPORTED, codes::UNSUPPORTED));
        assert!(survey.message.contains("eu-1"), "{survey}");
        assert_eq!(estate.read_resource(&thing("eu-2"), Observer::Platform, &stamp()).await.unwrap(), None);
        assert_eq!(estate.survey("slurm", "acme", Observer::Platform, &stamp()).await.unwrap(), []);
    }

    /// The backend's name lists all places, so each place is queried separately.
    #[test]
    fn only_simulated_places_of_a_list_are_reported_as_simulated() {
        let simulated = simulated_platform(Arc::new(LocalWorld::new())).tenant_resources;
        let vault = crate::hooks::System::new("registry", Arc::new(Unasked), Arc::new(Unasked));
        let served: BTreeMap<_, Arc<dyn TenantResources>> =
            BTreeMap::from([(("registry", "eu".to_owned()), Arc::new(vault) as Arc<dyn TenantResources>)]);
        let blind = BTreeSet::from([("slurm", "eu-1".to_owned())]);
        let estate = Estates::over(served, blind, simulated);
        assert!(estate.backend().contains("simulated"), "{}", estate.backend());

        let thing = |system, place| TenantResource::new(system, place, "Thing", "t-acme");
        for (system, place, expected) in [
            ("registry", "eu", false),
            ("registry", "us", true),
            ("slurm", "eu-1", false),
            ("slurm", "eu-2", true),
            ("keys", "", true),
        ] {
            assert_eq!(estate.is_simulated(&thing(system, place)), expected, "{system} {place}");
        }
        for (system, expected) in [("registry", false), ("slurm", false), ("keys", true)] {
            assert_eq!(estate.is_system_simulated(system), expected, "{system}");
        }
    }

    /// A hook that is never called.
    #[derive(Debug)]
    struct Unasked;

    #[async_trait]
    impl crate::hooks::HookBackend for Unasked {
        fn backend(&self) -> &'static str {
            "exec"
        }

        fn manners(&self) -> crate::hooks::HookTraits {
            crate::hooks::HookTraits { deadline: None, probes: false, dry_runs: false }
        }

        async fn ask(&self, _: &crate::hooks::Request) -> Result<crate::hooks::Answer, ActionError> {
            Err(ActionError::permanent(codes::UNSUPPORTED, "nothing is asked here"))
        }
    }
}
