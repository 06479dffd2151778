//! Builds a platform from the target file: each capability is implemented by the backend that the file names.
//!
//! Called at the start of a server. Invariant: only this module depends on every kind of backend.

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

/// A platform with connected targets.
#[derive(Clone, Debug)]
pub struct Connected {
    /// Every capability with its backend.
    pub platform: Platform,
    /// The command queues of node agents.
    pub agents: Arc<Agents>,
}

impl Targets {
    /// Connects the platform to these targets. Capabilities without a target keep their backend.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the field and the fix. Existing connections are dropped.
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

/// Connects the backend of a hook.
fn hook(at: &str, chosen: BackendSettings) -> Result<Arc<dyn HookBackend>, TargetError> {
    let (kind, settings) = exactly_one(at, chosen, kinds::HOOKS)?;
    kinds::hook(&kind, settings).map_err(|e| e.within(&format!("{at}.{kind}")))
}

/// Connects the system of this name to its hooks.
fn system(name: &str, target: SystemTarget) -> Result<hooks::System, TargetError> {
    let at = format!("systems.{name}");
    let Some(known) = kinds::SYSTEMS.iter().find(|known| **known == name) else {
        let why = format!("is not a system of hooks; use one of {}", kinds::SYSTEMS.join(", "));
        return Err(TargetError::new(&at, why));
    };
    let is_same = target.hook == target.verifier;
    let one = hook(&format!("{at}.hook"), target.hook)?;
    if target.verifier.is_empty() {
        let why =
            "is missing: name a hook with read-only credentials, which checks the removal independently";
        return Err(TargetError::new(&format!("{at}.verifier"), why));
    }
    let system = hooks::System::new(known, one, hook(&format!("{at}.verifier"), target.verifier)?);
    Ok(if is_same { system.verified_by_itself() } else { system })
}

/// By cluster and node.
type ByNode<T> = BTreeMap<(String, String), Arc<T>>;
/// Backends of machines, and surveys of their volumes.
type OfMachines = (ByNode<dyn Machines>, ByNode<dyn TenantResources>);

/// Connects the backends of machines, and the surveys of their volumes.
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

/// The surveys of systems and places.
#[derive(Default)]
struct ResourceFinders {
    served: BTreeMap<(&'static str, String), Arc<dyn TenantResources>>,
    /// Real places without a backend that can survey them.
    blind: BTreeSet<(&'static str, String)>,
}
