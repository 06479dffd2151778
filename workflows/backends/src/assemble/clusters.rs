//! Connects the backends of clusters: Kubernetes, Slurm and agents.

use super::{
    Connected, ResourceFinders,
    kinds::{self, ClusterBackends},
};
use crate::{
    TargetError,
    agents::{Agents, AgentsTarget, GpusByAgents},
    routing::{ByPlace, LayoutsApart, OutOfReach},
    targets::BackendSettings,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use workflows::{
    platform::{Gpus, Kubernetes, Platform, Slurm, Workloads},
    tenancy::Cluster,
};

/// Returns the platform with these clusters served by their configured backends.
pub(super) async fn clusters(
    all: BTreeMap<String, BackendSettings>,
    mut platform: Platform,
    left: &mut ResourceFinders,
) -> Result<Connected, TargetError> {
    let (mut kubernetes, mut slurm, mut workloads) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut served = BTreeMap::new();
    let mut agents: BTreeMap<String, AgentsTarget> = BTreeMap::new();
    let mut layouts = BTreeMap::new();
    let mut unready: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, chosen) in all {
        let named = kinds_of(&name, &chosen)?;
        let mut reached: Option<Arc<dyn Workloads>> = None;
        // In alphabetical order: `kubernetes` comes before `slurm` and takes precedence where both implement a
        // capability.
        for (kind, settings) in chosen {
            let here = format!("clusters.{name}.{kind}");
            let within = |error: TargetError| error.within(&here);
            unready.entry(name.clone()).or_default().extend(preflight(&kind, &settings));
            let one = match kind.as_str() {
                "kubernetes" => kinds::kubernetes(&name, settings).await.map_err(within)?,
                "slurm" => kinds::slurm(&name, settings).map_err(within)?,
                // Comes before the other kinds, so that theirs replaces it for workloads.
                "agents" => {
                    agents.insert(name.clone(), kinds::agents(settings).map_err(within)?);
                    reached = Some(Arc::new(OutOfReach));
                    ClusterBackends::default()
                }
                Cluster::SIMULATED => {
                    kinds::simulated(settings).map_err(within)?;
                    ClusterBackends::default()
                }
                _ => return Err(kinds::unknown(&here, kinds::CLUSTERS)),
            };
            if let Some(backend) = one.kubernetes {
                kubernetes.entry(name.clone()).or_insert(backend);
            }
            slurm.extend(one.slurm.map(|backend| (name.clone(), backend)));
            layouts.extend(one.layouts.map(|backend| (name.clone(), backend)));
            if let Some(system) = system_of(&kind) {
                match one.estate {
                    Some(backend) => drop(left.served.insert((system, name.clone()), backend)),
                    None => drop(left.blind.insert((system, name.clone()))),
                }
            }
            // If both run, Slurm's jobs use the GPUs.
            reached = one.workloads.or(reached);
        }
        workloads.extend(reached.map(|backend| (name.clone(), backend)));
        served.insert(name, named);
    }
    let agents = connect_agents(agents, layouts, &mut workloads, &mut platform);
    platform.kubernetes = ByPlace::<dyn Kubernetes>::over(kubernetes, platform.kubernetes);
    platform.slurm = ByPlace::<dyn Slurm>::over(slurm, platform.slurm);
    platform.workloads = ByPlace::<dyn Workloads>::over(workloads, platform.workloads);
    Ok(Connected { platform: platform.with_backends(served).with_unready(unready), agents })
}

/// Returns the prerequisites that a cluster with these settings lacks for onboarding. All previews, requests, the list
/// of clusters and `tenure doctor` use this list.
fn preflight(kind: &str, settings: &Value) -> Vec<String> {
    let mut lacks = Vec::new();
    if kind == "kubernetes" && settings.get("probe_image").is_none_or(Value::is_null) {
        let why = "`probe_image` is not set for it in the file of targets, but the isolation probes need this image";
        lacks.push(why.to_owned());
    }
    lacks
}

/// Returns the system that a backend of this kind surveys.
fn system_of(kind: &str) -> Option<&'static str> {
    workflows::platform::SYSTEMS.into_iter().find(|system| *system == kind)
}

/// Routes GPU calls of clusters to their agents, and layouts to the backend that partitions their GPUs. The lifecycle
/// of workloads stays with the cluster's other backend.
fn connect_agents(
    targets: BTreeMap<String, AgentsTarget>,
    layouts: BTreeMap<String, Arc<dyn Gpus>>,
    workloads: &mut BTreeMap<String, Arc<dyn Workloads>>,
    platform: &mut Platform,
) -> Arc<Agents> {
    let agents = Arc::new(Agents::of(targets));
    let each = |name: &str| (name.to_owned(), agents.clone() as Arc<dyn Gpus>);
    let mut gpus: BTreeMap<String, Arc<dyn Gpus>> = agents.clusters().map(each).collect();
    for name in gpus.keys() {
        if let Some(rest) = workloads.remove(name) {
            workloads.insert(name.clone(), Arc::new(GpusByAgents::over(agents.clone(), rest)));
        }
    }
    for (name, layouts) in layouts {
        let apart = match gpus.remove(&name) {
            Some(agents) => LayoutsApart::seen_by(layouts, agents),
            None => LayoutsApart::over(layouts, platform.gpus.clone()),
        };
        gpus.insert(name, Arc::new(apart));
    }
    platform.gpus = ByPlace::<dyn Gpus>::over(gpus, platform.gpus.clone());
    agents
}

/// Returns the kinds of backend for a cluster, for display.
fn kinds_of(name: &str, chosen: &BackendSettings) -> Result<String, TargetError> {
    let at = format!("clusters.{name}");
    let named = chosen.keys().map(String::as_str).collect::<Vec<_>>().join(" and ");
    if chosen.is_empty() {
        let why = format!("is empty: name one of {}, or remove the cluster", kinds::CLUSTERS.join(", "));
        return Err(TargetError::new(&at, why));
    }
    if chosen.len() > 1 && chosen.contains_key(Cluster::SIMULATED) {
        return Err(TargetError::new(&at, format!("has {named}, but only one is allowed: keep one of them")));
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_whose_isolation_cannot_be_probed_is_not_ready() {
        for (kind, settings, ready) in [
            ("kubernetes", json!({}), false),
            ("kubernetes", json!({ "probe_image": null }), false),
            ("kubernetes", json!({ "probe_image": "registry.example/probe@sha256:00" }), true),
            ("slurm", json!({}), true),
            ("simulated", json!({}), true),
        ] {
            assert_eq!(preflight(kind, &settings).is_empty(), ready, "{kind} {settings}");
        }
    }
}
