//! The file of targets: which backend serves which cluster, region, key store and hook.
//!
//! What the file does not name is served by the simulator. Invariant: a file with any mistake serves nothing; the server does
//! not start with half of it.

mod kinds;

use crate::backends::{
    agents::{Agents, AgentsTarget, GpusByAgents},
    hooks::{self, OneHook},
    routing::{ByPlace, Estates, LayoutsApart, OnMachines, OutOfReach},
};
use crate::{
    platform::{Estate, Gpus, Kubernetes, Machines, Objects, Platform, Slurm, Workloads},
    tenancy::Cluster,
};
use kinds::Served;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::Path,
    sync::Arc,
};

/// What is wrong with a target: the field, why, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct TargetError {
    /// The path of the field, such as `clusters.eu-1.kubernetes.context`.
    pub field: String,
    /// What is wrong with it, and what to write.
    pub why: String,
}

impl TargetError {
    /// That this field is wrong.
    pub fn new(field: &str, why: impl Display) -> Self {
        Self { field: field.to_owned(), why: why.to_string() }
    }

    /// The same, of a field within another.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        let field = if self.field.is_empty() { outer.to_owned() } else { format!("{outer}.{}", self.field) };
        Self { field, ..self }
    }
}

/// A kind of backend with its settings: one key, the kind's name.
type Chosen = BTreeMap<String, Value>;

/// The file of targets, as written. [`Targets::connect`] reads the settings of each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Targets {
    /// By the name of the cluster in the fleet: what serves it, of `kubernetes`, `slurm` and `agents` one or more; or
    /// `simulated: {}`.
    clusters: BTreeMap<String, Chosen>,
    /// What keeps tenants' keys: `vault` or `pkcs11`.
    keys: Chosen,
    /// By region: what keeps buckets, `s3`.
    objects: BTreeMap<String, Chosen>,
    /// By cluster and node: what serves a machine as hardware, `drives`.
    machines: BTreeMap<String, BTreeMap<String, Chosen>>,
    /// By name, one of [`kinds::SYSTEMS`]: the hook that serves a system of the house.
    systems: BTreeMap<String, SystemTarget>,
    /// By name: what stands behind a hook, `exec` or `http`.
    hooks: BTreeMap<String, Chosen>,
}

/// A system of the house.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SystemTarget {
    /// What changes it, `exec` or `http`.
    hook: Chosen,
    /// What looks at it with credentials of its own.
    verifier: Chosen,
}

impl Targets {
    /// The targets of this file.
    ///
    /// # Errors
    /// That it cannot be read, with its line where it is not as it should be.
    pub fn read(file: &Path) -> Result<Self, TargetError> {
        let wrong = |why: String| TargetError::new("", why).within(&file.display().to_string());
        let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
        Self::parse(&text).map_err(|error| error.within(&file.display().to_string()))
    }

    /// The targets of this text, as YAML.
    ///
    /// # Errors
    /// What is not as it should be, with its line.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).map_err(|e| TargetError::new("", e))
    }

    /// The platform, served by these targets where they say so and as before everywhere else.
    ///
    /// # Errors
    /// The field at fault, and what to write. What was connected until then is let go.
    pub async fn connect(self, platform: Platform) -> Result<Platform, TargetError> {
        let mut left = Left::default();
        let mut platform = clusters(self.clusters, platform, &mut left).await?;
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
        platform.estate = Estates::over(left.served, left.blind, platform.estate);
        platform.objects = ByPlace::<dyn Objects>::over(objects, platform.objects);
        let (machines, volumes) = machines(self.machines)?;
        platform.machines = ByPlace::<dyn Machines>::over(machines, platform.machines);
        platform.estate = OnMachines::over(volumes, platform.estate);
        let mut named = BTreeMap::new();
        for (name, chosen) in self.hooks {
            let one = hook(&format!("hooks.{name}"), chosen)?;
            named.insert(name, one);
        }
        if !named.is_empty() {
            platform.hooks = Arc::new(hooks::Table::new(named, Some(platform.hooks)));
        }
        Ok(platform)
    }
}

/// What stands behind a hook that is named here.
fn hook(at: &str, chosen: Chosen) -> Result<Arc<dyn OneHook>, TargetError> {
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
    let one = hook(&format!("{at}.hook"), target.hook)?;
    if target.verifier.is_empty() {
        let why = "is missing: name a hook whose credentials read alone, so that what was removed is looked for with other eyes";
        return Err(TargetError::new(&format!("{at}.verifier"), why));
    }
    Ok(hooks::System::new(known, one, hook(&format!("{at}.verifier"), target.verifier)?))
}

/// By cluster and node.
type ByNode<T> = BTreeMap<(String, String), Arc<T>>;
/// What serves machines, and what looks for volumes on them.
type OfMachines = (ByNode<dyn Machines>, ByNode<dyn Estate>);

/// The backends of these machines, and what looks for volumes on them.
fn machines(all: BTreeMap<String, BTreeMap<String, Chosen>>) -> Result<OfMachines, TargetError> {
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
struct Left {
    served: BTreeMap<(&'static str, String), Arc<dyn Estate>>,
    /// Real, and nothing can look there.
    blind: BTreeSet<(&'static str, String)>,
}

/// The platform with these clusters served as they say.
async fn clusters(
    all: BTreeMap<String, Chosen>,
    mut platform: Platform,
    left: &mut Left,
) -> Result<Platform, TargetError> {
    let (mut kubernetes, mut slurm, mut workloads) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut served = BTreeMap::new();
    let mut agents: BTreeMap<String, AgentsTarget> = BTreeMap::new();
    let mut layouts = BTreeMap::new();
    for (name, chosen) in all {
        let named = kinds_of(&name, &chosen)?;
        let mut reached: Option<Arc<dyn Workloads>> = None;
        // In the order of their names: `kubernetes` is before `slurm`, and what both serve is the former's.
        for (kind, settings) in chosen {
            let here = format!("clusters.{name}.{kind}");
            let within = |error: TargetError| error.within(&here);
            let one = match kind.as_str() {
                "kubernetes" => kinds::kubernetes(&name, settings).await.map_err(within)?,
                "slurm" => kinds::slurm(&name, settings).map_err(within)?,
                // Before the others, so that theirs is taken for the workloads.
                "agents" => {
                    agents.insert(name.clone(), kinds::agents(settings).map_err(within)?);
                    reached = Some(Arc::new(OutOfReach));
                    Served::default()
                }
                Cluster::SIMULATED => {
                    kinds::simulated(settings).map_err(within)?;
                    Served::default()
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
            // Where both run, it is Slurm's jobs that have the GPUs.
            reached = one.workloads.or(reached);
        }
        workloads.extend(reached.map(|backend| (name.clone(), backend)));
        served.insert(name, named);
    }
    looked_after(agents, layouts, &mut workloads, &mut platform);
    platform.kubernetes = ByPlace::<dyn Kubernetes>::over(kubernetes, platform.kubernetes);
    platform.slurm = ByPlace::<dyn Slurm>::over(slurm, platform.slurm);
    platform.workloads = ByPlace::<dyn Workloads>::over(workloads, platform.workloads);
    Ok(platform.serving(served))
}

/// The system in which a backend of this kind finds what tenants have, where it is real.
fn system_of(kind: &str) -> Option<&'static str> {
    crate::platform::SYSTEMS.into_iter().find(|system| *system == kind)
}

/// Has agents look after the GPUs of their clusters, and whatever partitions them do that; the lifecycle of workloads stays with whatever
/// else serves the cluster.
fn looked_after(
    targets: BTreeMap<String, AgentsTarget>,
    layouts: BTreeMap<String, Arc<dyn Gpus>>,
    workloads: &mut BTreeMap<String, Arc<dyn Workloads>>,
    platform: &mut Platform,
) {
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
    platform.agents = agents;
}

/// What is to serve this cluster, for people.
fn kinds_of(name: &str, chosen: &Chosen) -> Result<String, TargetError> {
    let at = format!("clusters.{name}");
    let named = chosen.keys().map(String::as_str).collect::<Vec<_>>().join(" and ");
    if chosen.is_empty() {
        let why =
            format!("says nothing: name one of {}, or leave the cluster out", kinds::CLUSTERS.join(", "));
        return Err(TargetError::new(&at, why));
    }
    if chosen.len() > 1 && chosen.contains_key(Cluster::SIMULATED) {
        return Err(TargetError::new(&at, format!("{named} are more than it can be: keep one of them")));
    }
    Ok(named)
}

fn one_of(at: &str, chosen: Chosen) -> Result<Option<(String, Value)>, TargetError> {
    if chosen.len() > 1 {
        let kinds: Vec<&str> = chosen.keys().map(String::as_str).collect();
        return Err(TargetError::new(
            at,
            format!("{} are more than one: keep one of them", kinds.join(" and ")),
        ));
    }
    Ok(chosen.into_iter().next())
}

fn exactly_one(at: &str, chosen: Chosen, known: &[&str]) -> Result<(String, Value), TargetError> {
    let nothing = || TargetError::new(at, format!("says nothing: name one of {}", known.join(", ")));
    one_of(at, chosen)?.ok_or_else(nothing)
}

#[cfg(test)]
mod tests {
    use super::{TargetError, Targets};
    use crate::{backends::simulated::LocalWorld, platform::Platform};
    use std::sync::Arc;

    async fn refused(text: &str) -> String {
        let platform = Platform::simulated(Arc::new(LocalWorld::new()));
        let targets = match Targets::parse(text) {
            Ok(targets) => targets,
            Err(error) => return error.to_string(),
        };
        targets.connect(platform).await.map(drop).unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_mistake_is_named_with_its_field_and_what_to_write() {
        for (text, said) in [
            (
                "clusters: { eu-1: { nomad: {} } }",
                "clusters.eu-1.nomad: is no kind of backend: these are: kubernetes, slurm, agents, simulated",
            ),
            (
                "clusters: { eu-1: {} }",
                "clusters.eu-1: says nothing: name one of kubernetes, slurm, agents, simulated, or leave the cluster out",
            ),
            (
                "clusters: { eu-1: { agents: {} } }",
                "clusters.eu-1.agents.keys: names none: print one with `tenure agent key`",
            ),
            (
                "clusters: { eu-1: { agents: { keys: [tn_0011223344556677_00] } } }",
                "clusters.eu-1.agents.keys: has what is no hash: write the 64 hexadecimal digits that `tenure agent key` prints, and not the key itself",
            ),
            ("keys: { vault: {}, pkcs11: {} }", "keys: pkcs11 and vault are more than one: keep one of them"),
            ("keys: { drawer: {} }", "keys.drawer: is no kind of backend: these are: vault, pkcs11"),
            ("objects: { eu: { floppy: {} } }", "objects.eu.floppy: is no kind of backend: these are: s3"),
            (
                "machines: { eu-1: { gpu-7: { dd: {} } } }",
                "machines.eu-1.gpu-7.dd: is no kind of backend: these are: drives",
            ),
            ("hooks: { dns: {} }", "hooks.dns: says nothing: name one of exec, http"),
            (
                "systems: { keys: {} }",
                "systems.keys: is no system that a hook serves: these are identity, storage, backups, registry, logs, network",
            ),
            ("systems: { network: {} }", "systems.network.hook: says nothing: name one of exec, http"),
            (
                "systems: { network: { hook: { exec: { program: /bin/true } } } }",
                "systems.network.verifier: is missing: name a hook whose credentials read alone, so that what was removed \
                 is looked for with other eyes",
            ),
            (
                "hooks: { dns: { carrier-pigeon: {} } }",
                "hooks.dns.carrier-pigeon: is no kind of backend: these are: exec, http",
            ),
        ] {
            assert_eq!(refused(text).await, said);
        }
        let unknown = refused("cluster: {}").await;
        assert!(unknown.contains("unknown field `cluster`"), "{unknown}");
    }

    #[cfg(all(feature = "exec", feature = "http"))]
    #[tokio::test]
    async fn a_hook_with_a_mistake_is_named_with_its_field_and_what_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let (short, secret) = (folder.path().join("short"), folder.path().join("missing"));
        std::fs::write(&short, "too short\n").unwrap();
        let http = |more: &str| format!("hooks: {{ dns: {{ http: {{ {more} }} }} }}");
        let exec = |more: &str| format!("hooks: {{ dns: {{ exec: {{ {more} }} }} }}");
        for (text, said) in [
            (exec("program: hook.sh"), "hooks.dns.exec.program: hook.sh: write an absolute path"),
            (
                exec("program: /nowhere/hook.sh"),
                "hooks.dns.exec.program: /nowhere/hook.sh is no file: install it",
            ),
            (
                exec("program: /bin/sh, directory: /nowhere"),
                "hooks.dns.exec.directory: /nowhere is no folder",
            ),
            (
                exec("program: /bin/sh, environment: ['A=b']"),
                "hooks.dns.exec.environment: \"A=b\" is no name of a variable",
            ),
            (exec("program: /bin/sh, deadline: soon"), "hooks.dns.exec: \"soon\" is not a span of time"),
            (exec("program: /bin/sh, shell: true"), "hooks.dns.exec: unknown field `shell`"),
            (
                http("url: 'http://hooks.example/'"),
                "hooks.dns.http.url: \"http://hooks.example/\" goes over the network in the clear",
            ),
            (http("url: nowhere"), "hooks.dns.http.url: \"nowhere\" is no URL"),
            (http("url: 'https://u:p@h.example/'"), "hooks.dns.http.url: holds a name or password"),
            (
                http("url: 'https://h.example/', key_id: k"),
                "hooks.dns.http.secret_file: is missing beside `key_id`",
            ),
            (
                http(&format!("url: 'https://h.example/', key_id: k, secret_file: {}", secret.display())),
                "hooks.dns.http.secret_file: the secret in ",
            ),
            (
                http(&format!("url: 'https://h.example/', key_id: k, secret_file: {}", short.display())),
                "hooks.dns.http.secret_file: the secret in ",
            ),
        ] {
            let is = refused(&text).await;
            assert!(is.starts_with(said), "{text}: {is}");
        }
    }

    #[tokio::test]
    async fn a_platform_says_what_serves_it() {
        let platform = Platform::simulated(Arc::new(LocalWorld::new()));
        let before = platform.backends();

        let platform = Targets::parse("").unwrap().connect(platform).await.unwrap();

        assert_eq!(platform.backends(), before, "an empty file changes nothing");
        let error = TargetError::new("context", "is not there").within("clusters.eu-1.kubernetes");
        assert_eq!(error.to_string(), "clusters.eu-1.kubernetes.context: is not there");
    }

    /// What a tenant has in a cluster that is named is looked for there: it blocks no survey for good, and passes for nothing.
    #[cfg(feature = "kubernetes")]
    #[tokio::test]
    async fn a_named_cluster_is_looked_through_and_one_that_is_down_is_no_empty_one() {
        use crate::platform::{Eyes, Stamp, codes};
        let (folder, listener) = (tempfile::tempdir().unwrap(), std::net::TcpListener::bind("127.0.0.1:0"));
        let closed = listener.unwrap().local_addr().unwrap();
        let file = folder.path().join("kubeconfig");
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{closed}") } }],
            "users": [{ "name": "u", "user": { "token": "t" } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(&file, config.to_string()).unwrap();
        let text = format!("clusters: {{ eu-1: {{ kubernetes: {{ kubeconfig: {} }} }} }}", file.display());
        let platform = Platform::simulated(Arc::new(LocalWorld::new()));

        let estate = Targets::parse(&text).unwrap().connect(platform).await.unwrap().estate;

        assert!(estate.backend().starts_with("kubernetes eu-1: kubernetes, "), "{}", estate.backend());
        let (step, deadline) = ("look".to_owned(), std::time::Duration::from_secs(5));
        let (key, epoch) = (step.clone(), store::Epoch(1));
        let stamp = Stamp { action: "Test", step, key, epoch, undo: false, deadline, dry_run: false };
        let survey = estate.survey("kubernetes", "acme", Eyes::Platform, &stamp).await.unwrap_err();
        assert_eq!(survey.code, codes::UNAVAILABLE, "{survey}");
    }
}
