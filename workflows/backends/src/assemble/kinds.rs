//! Kinds of backend that a target file can name, each created from its settings if it is compiled in.

use crate::{TargetError, agents::AgentsTarget, hooks::HookBackend};
use serde_json::Value;
use std::sync::Arc;
use workflows::platform::{Gpus, Keys, Kubernetes, Machines, Objects, Slurm, TenantResources, Workloads};

/// Kinds of backend for clusters.
pub(super) const CLUSTERS: &[&str] = &["kubernetes", "slurm", "agents", "simulated"];
/// Kinds of backend for keys.
pub(super) const KEYS: &[&str] = &["vault", "pkcs11"];
/// Kinds of backend for buckets.
pub(super) const OBJECTS: &[&str] = &["s3"];
/// Kinds of backend for machines.
pub(super) const MACHINES: &[&str] = &["drives"];
/// Systems that are always behind hooks.
pub(super) const SYSTEMS: &[&str] = &["identity", "storage", "backups", "registry", "logs", "network"];
/// Kinds of hook.
pub(super) const HOOKS: &[&str] = &["exec", "http"];

/// The error for an unknown kind.
pub(super) fn unknown(at: &str, known: &[&str]) -> TargetError {
    TargetError::new(at, format!("is not a kind of backend; use one of: {}", known.join(", ")))
}

/// The error for a backend that is not compiled in.
#[allow(dead_code, reason = "with every backend compiled in nothing is off")]
fn not_compiled_in(feature: &str) -> TargetError {
    let why = format!("this program was built without it: build it with `--features {feature}`");
    TargetError::new("", why)
}

/// Parses the settings of a backend.
#[allow(dead_code, reason = "without any backend compiled in nothing is read")]
fn read<T: serde::de::DeserializeOwned>(settings: Value) -> Result<T, TargetError> {
    serde_json::from_value(settings).map_err(|e| TargetError::new("", e))
}

/// A key store and the survey of its keys.
pub(super) type KeyStore = (Arc<dyn Keys>, Arc<dyn TenantResources>);
/// An object store and the survey of its buckets.
pub(super) type ObjectStore = (Arc<dyn Objects>, Arc<dyn TenantResources>);

/// A machine and the survey of its volumes.
pub(super) type Machine = (Arc<dyn Machines>, Arc<dyn TenantResources>);

/// The capabilities that a cluster's backend implements.
#[derive(Default)]
pub(super) struct ClusterBackends {
    pub(super) kubernetes: Option<Arc<dyn Kubernetes>>,
    pub(super) slurm: Option<Arc<dyn Slurm>>,
    pub(super) workloads: Option<Arc<dyn Workloads>>,
    pub(super) estate: Option<Arc<dyn TenantResources>>,
    /// Only the layouts of GPUs.
    pub(super) layouts: Option<Arc<dyn Gpus>>,
}

/// Connects a Kubernetes cluster. `name` is its name in the fleet.
#[cfg(feature = "kubernetes")]
pub(super) async fn kubernetes(name: &str, settings: Value) -> Result<ClusterBackends, TargetError> {
    use crate::kubernetes::{GpuOperator, KubernetesCluster};
    let cluster = KubernetesCluster::connect(&read(settings)?).await;
    let cluster = cluster.map_err(|e| TargetError::new("", e))?;
    let cluster = Arc::new(cluster.called(name));
    let layouts = GpuOperator::of(&cluster).map(|one| Arc::new(one) as Arc<dyn Gpus>);
    Ok(ClusterBackends {
        kubernetes: Some(cluster.clone()),
        workloads: Some(cluster.clone()),
        estate: Some(cluster),
        layouts,
        ..ClusterBackends::default()
    })
}

#[cfg(not(feature = "kubernetes"))]
#[allow(clippy::unused_async, reason = "with the backend it connects")]
pub(super) async fn kubernetes(_: &str, _: Value) -> Result<ClusterBackends, TargetError> {
    Err(not_compiled_in("kubernetes"))
}

/// Parses the settings of the agents on a cluster's nodes.
pub(super) fn agents(settings: Value) -> Result<AgentsTarget, TargetError> {
    let target: AgentsTarget = serde_json::from_value(settings).map_err(|e| TargetError::new("", e))?;
    target.check()?;
    Ok(target)
}

/// Checks the settings of a cluster that is named but simulated.
pub(super) fn simulated(settings: Value) -> Result<(), TargetError> {
    match settings {
        Value::Null => Ok(()),
        Value::Object(fields) if fields.is_empty() => Ok(()),
        _ => Err(TargetError::new("", "has no settings: write {}")),
    }
}

/// Connects a Slurm cluster. `name` is its name in the fleet, which must equal Slurm's name, because surveys use the
/// latter.
#[cfg(feature = "slurm")]
pub(super) fn slurm(name: &str, settings: Value) -> Result<ClusterBackends, TargetError> {
    use crate::slurm::{SlurmCluster, SlurmTarget};
    let target: SlurmTarget = read(settings)?;
    same("cluster", &target.cluster, name)?;
    let cluster = SlurmCluster::connect(&target).map_err(|e| TargetError::new("", e))?;
    let cluster = Arc::new(cluster);
    Ok(ClusterBackends {
        kubernetes: Some(cluster.clone()),
        slurm: Some(cluster.clone()),
        workloads: Some(cluster.clone()),
        estate: Some(cluster),
        ..ClusterBackends::default()
    })
}

#[cfg(not(feature = "slurm"))]
pub(super) fn slurm(_: &str, _: Value) -> Result<ClusterBackends, TargetError> {
    Err(not_compiled_in("slurm"))
}

/// Checks that a setting equals the key that it is under.
#[cfg(any(feature = "slurm", feature = "s3"))]
fn same(field: &str, said: &str, name: &str) -> Result<(), TargetError> {
    if said == name {
        return Ok(());
    }
    Err(TargetError::new(field, format!("is {said:?}, but its entry is {name:?}: give both the same name")))
}

pub(super) fn keys(kind: &str, settings: Value) -> Result<KeyStore, TargetError> {
    match kind {
        "vault" => vault(settings),
        "pkcs11" => pkcs11(settings),
        _ => Err(unknown("", KEYS)),
    }
}

#[cfg(feature = "vault")]
fn vault(settings: Value) -> Result<KeyStore, TargetError> {
    let vault = crate::vault::Vault::connect(&read(settings)?);
    let vault = Arc::new(vault.map_err(|e| TargetError::new(e.field, e.why))?);
    Ok((vault.clone(), vault))
}

#[cfg(not(feature = "vault"))]
fn vault(_: Value) -> Result<KeyStore, TargetError> {
    Err(not_compiled_in("vault"))
}

#[cfg(feature = "pkcs11")]
fn pkcs11(settings: Value) -> Result<KeyStore, TargetError> {
    let token = crate::pkcs11::Pkcs11::connect(&read(settings)?);
    let token = Arc::new(token.map_err(|e| TargetError::new(e.field, e.why))?);
    Ok((token.clone(), token))
}

#[cfg(not(feature = "pkcs11"))]
fn pkcs11(_: Value) -> Result<KeyStore, TargetError> {
    Err(not_compiled_in("pkcs11"))
}

/// Connects an object store. `region` is the name that tenants' requests use.
pub(super) fn objects(region: &str, kind: &str, settings: Value) -> Result<ObjectStore, TargetError> {
    match kind {
        "s3" => s3(region, settings),
        _ => Err(unknown("", OBJECTS)),
    }
}

#[cfg(feature = "s3")]
fn s3(region: &str, settings: Value) -> Result<ObjectStore, TargetError> {
    use crate::s3::{S3, S3Target};
    let target: S3Target = read(settings)?;
    same("region", &target.region, region)?;
    let store = Arc::new(S3::connect(&target).map_err(|e| TargetError::new(e.field, e.why))?);
    Ok((store.clone(), store))
}

#[cfg(not(feature = "s3"))]
fn s3(_: &str, _: Value) -> Result<ObjectStore, TargetError> {
    Err(not_compiled_in("s3"))
}

/// Connects a machine. `cluster` and `node` are its names in the fleet.
pub(super) fn machine(
    cluster: &str,
    node: &str,
    kind: &str,
    settings: Value,
) -> Result<Machine, TargetError> {
    match kind {
        "drives" => drives(cluster, node, settings),
        _ => Err(unknown("", MACHINES)),
    }
}

#[cfg(feature = "drives")]
fn drives(cluster: &str, node: &str, settings: Value) -> Result<Machine, TargetError> {
    let machine = crate::drives::LocalMachine::connect(cluster, node, read(settings)?)?;
    let machine = Arc::new(machine);
    Ok((machine.clone(), machine))
}

#[cfg(not(feature = "drives"))]
fn drives(_: &str, _: &str, _: Value) -> Result<Machine, TargetError> {
    Err(not_compiled_in("drives"))
}

pub(super) fn hook(kind: &str, settings: Value) -> Result<Arc<dyn HookBackend>, TargetError> {
    match kind {
        "exec" => exec(settings),
        "http" => http(settings),
        _ => Err(unknown("", HOOKS)),
    }
}

#[cfg(feature = "exec")]
fn exec(settings: Value) -> Result<Arc<dyn HookBackend>, TargetError> {
    Ok(Arc::new(crate::exec::Program::connect(&read(settings)?)?))
}

#[cfg(not(feature = "exec"))]
fn exec(_: Value) -> Result<Arc<dyn HookBackend>, TargetError> {
    Err(not_compiled_in("exec"))
}

#[cfg(feature = "http")]
fn http(settings: Value) -> Result<Arc<dyn HookBackend>, TargetError> {
    Ok(Arc::new(crate::http::Service::connect(&read(settings)?)?))
}

#[cfg(not(feature = "http"))]
fn http(_: Value) -> Result<Arc<dyn HookBackend>, TargetError> {
    Err(not_compiled_in("http"))
}
