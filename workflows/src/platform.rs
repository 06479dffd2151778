//! The world outside, as actions see it: one capability per field, each behind a trait.
//!
//! Every actuator action has this as its `type Platform`. Invariant: nothing here knows a policy, a plan or a
//! ledger; what reaches a capability is resolved text and numbers, and a tenant is an opaque label.

use crate::{
    actuators::{
        Estate, Gpus, Hooks, Identity, Keys, Kubernetes, Machines, Objects, Records, Slurm, Workloads,
    },
    backends::{
        agents::Agents,
        records::Unsealed,
        simulated::{LocalWorld, Simulated, World, simulated_signer},
    },
    destruction::Signer,
    tenancy::Cluster,
};
use std::{collections::BTreeMap, sync::Arc};

/// All capabilities of a platform. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Namespaces, nodes, queues, quotas, isolation.
    pub kubernetes: Arc<dyn Kubernetes>,
    /// Accounts of the batch scheduler.
    pub slurm: Arc<dyn Slurm>,
    /// Layout and health of GPUs.
    pub gpus: Arc<dyn Gpus>,
    /// The key store.
    pub keys: Arc<dyn Keys>,
    /// Buckets.
    pub objects: Arc<dyn Objects>,
    /// Groups and credentials of people.
    pub identity: Arc<dyn Identity>,
    /// Workloads, and the GPUs under them.
    pub workloads: Arc<dyn Workloads>,
    /// What tenants leave behind, wherever it lies.
    pub estate: Arc<dyn Estate>,
    /// Machines as hardware.
    pub machines: Arc<dyn Machines>,
    /// The engine's own records.
    pub records: Arc<dyn Records>,
    /// What operators plug in by name.
    pub hooks: Arc<dyn Hooks>,
    /// Signs certificates of destruction.
    pub signer: Arc<dyn Signer>,
    /// Where the agents of nodes come for their orders.
    pub agents: Arc<Agents>,
    world: Option<Arc<dyn World>>,
    served: BTreeMap<String, String>,
}

impl Platform {
    /// A platform on which everything is simulated by one world, in this process or in another.
    #[must_use]
    pub fn simulated(world: Arc<dyn World>) -> Self {
        let all = Arc::new(Simulated::new(world.clone()));
        Self {
            kubernetes: all.clone(),
            slurm: all.clone(),
            gpus: all.clone(),
            keys: all.clone(),
            objects: all.clone(),
            identity: all.clone(),
            workloads: all.clone(),
            estate: all.clone(),
            machines: all.clone(),
            hooks: all,
            records: Arc::new(Unsealed),
            signer: simulated_signer(),
            agents: Arc::default(),
            world: Some(world),
            served: BTreeMap::new(),
        }
    }

    /// The platform with certificates signed by `signer`.
    #[must_use]
    pub fn signed_by(self, signer: Arc<dyn Signer>) -> Self {
        Self { signer, ..self }
    }

    /// The platform with the engine's own records kept by `records`.
    #[must_use]
    pub fn recorded_by(self, records: Arc<dyn Records>) -> Self {
        Self { records, ..self }
    }

    /// What [`Platform::backend_of`] can answer.
    pub const BACKENDS: [&str; 7] = [
        "agents",
        "agents and kubernetes",
        "agents and kubernetes and slurm",
        "agents and slurm",
        "kubernetes",
        "kubernetes and slurm",
        "slurm",
    ];

    /// The platform with clusters served by kinds of backend, one of [`Platform::BACKENDS`] each; `simulated` for one that is
    /// named and stays simulated.
    #[must_use]
    pub fn serving(self, served: BTreeMap<String, String>) -> Self {
        Self { served, ..self }
    }

    /// What serves a cluster, if that is not the simulated world.
    #[must_use]
    pub fn backend_of(&self, cluster: &str) -> Option<&str> {
        self.served.get(cluster).map(String::as_str).filter(|backend| *backend != Cluster::SIMULATED)
    }

    /// Whether somebody has said of the cluster that it is simulated.
    #[must_use]
    pub fn stays_simulated(&self, cluster: &str) -> bool {
        self.served.get(cluster).is_some_and(|backend| backend == Cluster::SIMULATED)
    }

    /// The world that simulates this platform, if it is in this process: for snapshots and scripts in tests.
    #[must_use]
    pub fn local_world(&self) -> Option<&LocalWorld> {
        self.world.as_ref()?.local()
    }

    /// The capabilities that a simulator serves.
    #[must_use]
    pub fn simulated_parts(&self) -> Vec<String> {
        let parts = self.backends().into_iter().filter(|(_, backend)| backend.contains("simulated"));
        parts.map(|(part, _)| part.to_owned()).collect()
    }

    /// Which backend serves each capability, so that plans, readiness and output can say what is simulated.
    #[must_use]
    pub fn backends(&self) -> BTreeMap<&'static str, &'static str> {
        BTreeMap::from([
            ("kubernetes", self.kubernetes.backend()),
            ("slurm", self.slurm.backend()),
            ("gpus", self.gpus.backend()),
            ("keys", self.keys.backend()),
            ("objects", self.objects.backend()),
            ("identity", self.identity.backend()),
            ("workloads", self.workloads.backend()),
            ("estate", self.estate.backend()),
            ("machines", self.machines.backend()),
            ("records", self.records.backend()),
            ("hooks", self.hooks.backend()),
        ])
    }
}
