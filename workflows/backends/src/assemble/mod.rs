//! Builds a platform from the file of targets: each capability is served by the backend that the file names.
//!
//! Called when a server starts. Invariant: this is the one place that knows every kind of backend.

mod clusters;
mod kinds;

use crate::{
    TargetError,
    agents::Agents,
    hooks::{self, HookBackend},
    routing::{ByPlace, Estates, OnMachines},
    targets::{BackendSettings, SystemTarget, Targets, exactly_one, one_of},
};
use clusters::clusters;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use workflows::platform::{Machines, Objects, Platform, TenantResources};

/// A platform whose targets are connected.
#[derive(Clone, Debug)]
pub struct Connected {
    /// Every capability with the backend that serves it.
    pub platform: Platform,
    /// The queues of commands for the agents of nodes.
    pub agents: Arc<Agents>,
}

impl Targets {
    /// The platform, served by these targets where they say so and as before everywhere else.
    ///
    /// # Errors
    /// The field at fault, and what to write. What was connected until then is let go.
    pub async fn connect(self, platform: Platform) -> Result<Connected, TargetError> {
        let mut left = ResourceFinders::default();
        let Connected { mut platform, agents } = clusters(self.clusters, platform, &mut left).await?;
        if let Some((kind, settings)) = one_of("keys", self.keys)? {
            let here = format!("keys.{kind}");
            let (keys, estate) = kinds::keys(&kind, settings).map_err(|e| e.within(&here))?;
            platform.keys = keys;
            left.served.insert(("keys", String::new()), estate);
        }
        let mut objects = BTreeMap::new();
        for (region, chosen) in self.objects {
            let at = format!("objects.{region}");
            let (kind, settings) = exactly_one(&at, chosen, kinds::OBJECTS)?;
            let here = format!("{at}.{kind}");
            let (served, estate) = kinds::objects(&region, &kind, settings).map_err(|e| e.within(&here))?;
            left.served.insert(("objects", region.clone()), estate);
            objects.insert(region, served);
        }
        for (name, target) in self.systems {
            let system = Arc::new(system(&name, target)?);
            if system.name() == "identity" {
                platform.identity = system.clone();
            }
            left.served.insert((system.name(), String::new()), system);
        }
        platform.tenant_resources = Estates::over(left.served, left.blind, platform.tenant_resources);
        platform.objects = ByPlace::<dyn Objects>::over(objects, platform.objects);
        let (machines, volumes) = machines(self.machines)?;
        platform.machines = ByPlace::<dyn Machines>::over(machines, platform.machines);
        platform.tenant_resources = OnMachines::over(volumes, platform.tenant_resources);
        let mut named = BTreeMap::new();
        for (name, chosen) in self.hooks {
            let one = hook(&format!("hooks.{name}"), chosen)?;
            named.insert(name, one);
        }
        if !named.is_empty() {
            platform.hooks = Arc::new(hooks::HookRegistry::new(named, Some(platform.hooks)));
        }
        Ok(Connected { platform, agents })
    }
}

/// What stands behind a hook that is named here.
fn hook(at: &str, chosen: BackendSettings) -> Result<Arc<dyn HookBackend>, TargetError> {
    let (kind, settings) = exactly_one(at, chosen, kinds::HOOKS)?;
    kinds::hook(&kind, settings).map_err(|e| e.within(&format!("{at}.{kind}")))
}

/// The system of this name behind its hooks.
fn system(name: &str, target: SystemTarget) -> Result<hooks::System, TargetError> {
    let at = format!("systems.{name}");
    let Some(known) = kinds::SYSTEMS.iter().find(|known| **known == name) else {
        let why = format!("is no system that a hook serves: these are {}", kinds::SYSTEMS.join(", "));
        return Err(TargetError::new(&at, why));
    };
    let is_same = target.hook == target.verifier;
    let one = hook(&format!("{at}.hook"), target.hook)?;
    if target.verifier.is_empty() {
        let why = "is missing: name a hook whose credentials read alone, so that what was removed is looked for with other eyes";
        return Err(TargetError::new(&format!("{at}.verifier"), why));
    }
    let system = hooks::System::new(known, one, hook(&format!("{at}.verifier"), target.verifier)?);
    Ok(if is_same { system.verified_by_itself() } else { system })
}

/// By cluster and node.
type ByNode<T> = BTreeMap<(String, String), Arc<T>>;
/// What serves machines, and what looks for volumes on them.
type OfMachines = (ByNode<dyn Machines>, ByNode<dyn TenantResources>);

/// The backends of these machines, and what looks for volumes on them.
fn machines(all: BTreeMap<String, BTreeMap<String, BackendSettings>>) -> Result<OfMachines, TargetError> {
    let (mut served, mut volumes) = (BTreeMap::new(), BTreeMap::new());
    for (cluster, nodes) in all {
        for (node, chosen) in nodes {
            let at = format!("machines.{cluster}.{node}");
            let (kind, settings) = exactly_one(&at, chosen, kinds::MACHINES)?;
            let one = kinds::machine(&cluster, &node, &kind, settings);
            let (one, estate) = one.map_err(|error| error.within(&format!("{at}.{kind}")))?;
            served.insert((cluster.clone(), node.clone()), one);
            volumes.insert((cluster.clone(), node), estate);
        }
    }
    Ok((served, volumes))
}

/// What looks for what tenants leave behind.
#[derive(Default)]
struct ResourceFinders {
    served: BTreeMap<(&'static str, String), Arc<dyn TenantResources>>,
    /// Real, and nothing can look there.
    blind: BTreeSet<(&'static str, String)>,
}
