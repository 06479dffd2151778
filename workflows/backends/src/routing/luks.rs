//! Routes calls for LUKS keys to the backend of the machine that has the volume.
//!
//! Invariant: if one machine cannot be queried, the whole survey fails, so that its keys never count as absent.

use async_trait::async_trait;
use engine::ActionError;
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::JoinSet;
use workflows::platform::{
    AccessMode, CallMetadata, DriveTool, EmptyProgress, LUKS_KEY, ObservedResource, Observer, ProbeFinding,
    TenantResource, TenantResources, VerifiedAs, codes,
};

/// The system that contains volumes.
const SYSTEM: &str = "storage";
/// The number of machines that are queried at once. Each query runs a few programs, often over `ssh`.
const AT_ONCE: usize = 16;

/// Serves LUKS keys of some machines; `rest` serves all other objects.
#[derive(Debug)]
pub struct OnMachines {
    /// Machines by cluster and node.
    machines: BTreeMap<(String, String), Arc<dyn TenantResources>>,
    rest: Arc<dyn TenantResources>,
    said: &'static str,
}

impl OnMachines {
    /// Serves the LUKS keys of these machines by their own backends and all other objects by `rest`.
    #[must_use]
    pub fn over(
        machines: BTreeMap<(String, String), Arc<dyn TenantResources>>,
        rest: Arc<dyn TenantResources>,
    ) -> Arc<dyn TenantResources> {
        if machines.is_empty() {
            return rest;
        }
        let each = machines
            .iter()
            .map(|((cluster, node), one)| format!("{SYSTEM} {cluster}/{node}: {}", one.backend()));
        let said = each.chain([rest.backend().to_owned()]).collect::<Vec<_>>().join(", ");
        // Lives as long as the process; there is one per process.
        Arc::new(Self { machines, rest, said: String::leak(said) })
    }

    /// Returns the backend for this object.
    fn of(&self, thing: &TenantResource) -> &dyn TenantResources {
        let machine = || {
            let (node, _) = thing.name.split_once('/')?;
            self.machines.get(&(thing.place.clone(), node.to_owned()))
        };
        let one = if thing.system == SYSTEM && thing.kind == LUKS_KEY { machine() } else { None };
        one.map_or(&*self.rest, |one| &**one)
    }

    /// Returns the tenant's keys on each machine, in the order of machines.
    async fn everywhere(
        &self,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        let mut waiting = self.machines.iter();
        let (mut asked, mut found) = (JoinSet::new(), BTreeMap::new());
        loop {
            while asked.len() < AT_ONCE
                && let Some((at, one)) = waiting.next()
            {
                let (at, one, tenant, stamp) = (at.clone(), one.clone(), tenant.to_owned(), stamp.clone());
                asked.spawn(async move { (at, one.survey(SYSTEM, &tenant, eyes, &stamp).await) });
            }
            let Some(answer) = asked.join_next().await else { break };
            let (at, seen) = answer.map_err(|died| ActionError::transient(codes::UNAVAILABLE, died))?;
            found.insert(at, seen?);
        }
        Ok(found.into_values().flatten().collect())
    }
}

#[async_trait]
impl TenantResources for OnMachines {
    fn backend(&self) -> &'static str {
        self.said
    }

    fn is_simulated(&self, thing: &TenantResource) -> bool {
        self.of(thing).is_simulated(thing)
    }

    fn is_system_simulated(&self, system: &str) -> bool {
        system != SYSTEM && self.rest.is_system_simulated(system)
    }

    fn verified_as(&self, thing: &TenantResource, eyes: Observer) -> VerifiedAs {
        self.of(thing).verified_as(thing, eyes)
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        let mut all = self.rest.survey(system, tenant, eyes, stamp).await?;
        if system == SYSTEM {
            all.extend(self.everywhere(tenant, eyes, stamp).await?);
        }
        Ok(all)
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        self.of(thing).read_resource(thing, eyes, stamp).await
    }

    async fn wait_until_gone(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        self.of(thing).wait_until_gone(thing, uid, stamp).await
    }

    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(thing).set_admission(thing, tenant, admits, stamp).await
    }

    async fn rewrap(
        &self,
        thing: &TenantResource,
        tenant: &str,
        key: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(thing).rewrap(thing, tenant, key, stamp).await
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        self.of(thing).empty(thing, uid, stamp).await
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.of(thing).remove(thing, uid, stamp).await
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        self.of(key).undecryptable(key, stamp).await
    }

    async fn removal_denied(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<String>, ActionError> {
        self.of(thing).removal_denied(thing, stamp).await
    }

    async fn destruction_tool(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<DriveTool>, ActionError> {
        self.of(thing).destruction_tool(thing, stamp).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{LocalWorld, simulated_platform};
    use serde_json::json;
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

    /// A machine with one volume, or one that does not respond.
    #[derive(Debug)]
    struct Machine(Result<&'static str, &'static str>);

    #[async_trait]
    impl TenantResources for Machine {
        fn backend(&self) -> &'static str {
            "drives"
        }

        fn is_simulated(&self, _: &TenantResource) -> bool {
            false
        }

        fn is_system_simulated(&self, _: &str) -> bool {
            false
        }

        fn verified_as(&self, _: &TenantResource, _: Observer) -> VerifiedAs {
            VerifiedAs::Platform
        }

        async fn survey(
            &self,
            _: &str,
            _: &str,
            _: Observer,
            _: &CallMetadata,
        ) -> Result<Vec<ObservedResource>, ActionError> {
            let name = self.0.map_err(|why| ActionError::transient(codes::UNAVAILABLE, why))?;
            let thing = TenantResource::new("storage", "eu-1", LUKS_KEY, name);
            let spec = json!({});
            Ok(vec![ObservedResource {
                thing,
                uid: "u".into(),
                tenant: "acme".into(),
                spec,
                terminating: false,
            }])
        }

        async fn read_resource(
            &self,
            thing: &TenantResource,
            eyes: Observer,
            stamp: &CallMetadata,
        ) -> Result<Option<ObservedResource>, ActionError> {
            Ok(self.survey("", "", eyes, stamp).await?.into_iter().find(|seen| seen.thing == *thing))
        }

        async fn set_admission(
            &self,
            _: &TenantResource,
            _: &str,
            _: AccessMode,
            _: &CallMetadata,
        ) -> Result<(), ActionError> {
            Ok(())
        }

        async fn rewrap(
            &self,
            _: &TenantResource,
            _: &str,
            _: &str,
            _: &CallMetadata,
        ) -> Result<(), ActionError> {
            Ok(())
        }

        async fn empty(
            &self,
            _: &TenantResource,
            _: &str,
            _: &CallMetadata,
        ) -> Result<EmptyProgress, ActionError> {
            Ok(EmptyProgress::default())
        }

        async fn remove(&self, _: &TenantResource, _: &str, _: &CallMetadata) -> Result<(), ActionError> {
            Ok(())
        }

        async fn undecryptable(
            &self,
            _: &TenantResource,
            _: &CallMetadata,
        ) -> Result<ProbeFinding, ActionError> {
            Ok(ProbeFinding { held: true, transcript: String::new() })
        }
    }

    fn fleet(machines: &[(&str, Result<&'static str, &'static str>)]) -> Arc<dyn TenantResources> {
        let one = |(node, has): &(&str, _)| {
            (("eu-1".to_owned(), (*node).to_owned()), Arc::new(Machine(*has)) as Arc<dyn TenantResources>)
        };
        let rest = simulated_platform(Arc::new(LocalWorld::new())).tenant_resources;
        OnMachines::over(machines.iter().map(one).collect(), rest)
    }

    #[tokio::test]
    async fn each_machine_is_surveyed_and_each_key_is_checked_where_it_is_stored() {
        let estate = fleet(&[("n1", Ok("n1/a")), ("n2", Ok("n2/b"))]);

        let found = estate.survey("storage", "acme", Observer::Platform, &stamp()).await.unwrap();

        let names: Vec<_> = found.iter().map(|seen| seen.thing.name.as_str()).collect();
        assert_eq!(names, ["n1/a", "n2/b"]);
        assert_eq!(estate.survey("objects", "acme", Observer::Platform, &stamp()).await.unwrap(), []);
        for seen in &found {
            let looked = estate.read_resource(&seen.thing, Observer::Verifier, &stamp()).await.unwrap();
            assert_eq!(looked.as_ref(), Some(seen));
        }
        let other = TenantResource::new("storage", "eu-1", "Volume", "n1/a");
        assert_eq!(
            estate.read_resource(&other, Observer::Platform, &stamp()).await.unwrap(),
            None,
            "no LUKS key"
        );
        assert_eq!(estate.backend(), "storage eu-1/n1: drives, storage eu-1/n2: drives, simulated");
    }

    #[tokio::test]
    async fn an_unreachable_machine_never_counts_as_one_without_volumes() {
        let estate = fleet(&[("n1", Ok("n1/a")), ("n2", Err("out of reach"))]);

        let survey = estate.survey("storage", "acme", Observer::Verifier, &stamp()).await.unwrap_err();

        assert_eq!((survey.code.as_str(), survey.message.as_str()), (codes::UNAVAILABLE, "out of reach"));
    }
}
