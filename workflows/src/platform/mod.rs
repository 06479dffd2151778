//! What can be done to the world outside: one file per capability, with its trait and its actions.
//!
//! Workflows name the actions; backends implement the traits. Invariant: every call that changes something carries a
//! [`Stamp`], and every object made carries the step that made it, so that an undo finds its own work by name and
//! leaves another's alone. `docs/actuators.md` lists capabilities, codes and remedies.

pub mod actions;
mod call_metadata;
pub(crate) mod capabilities;
pub mod codes;
mod names;

pub use crate::platform::actions::gpus::{
    DiagnoseNode, Diagnosis, GpuLayout, Gpus, LayoutState, Level, ReadGpuLayout, RestoreGpuLayout,
    SetGpuLayout,
};
pub use crate::platform::actions::hooks::{Hook, HookOutput, Hooks, RunHook, UndoHook};
pub use crate::platform::actions::identity::{
    CreateIdentity, CredentialReference, DeleteIdentity, Identity, PublishCredentials, RevokeCredentials,
};
pub use crate::platform::actions::keys::{CreateTenantKey, DestroyTenantKey, KeyReference, KeySafety, Keys};
pub use crate::platform::actions::kubernetes::isolation::{
    Finding, IsolateNetwork, IsolationKind, ProbeIsolation, RestoreNetwork,
};
pub use crate::platform::actions::kubernetes::namespace::{CreateNamespace, DeleteNamespace};
pub use crate::platform::actions::kubernetes::node_ownership::{ReturnNode, Returned, TakeNode, Taken};
pub use crate::platform::actions::kubernetes::priority_class::PriorityClass;
pub use crate::platform::actions::kubernetes::queues::{
    CreateCohort, CreateFlavor, CreateQueue, DeleteCohort, DeleteFlavor, DeleteQueue, FlavorQuota, HoldQueue,
    OpenQueue,
};
pub use crate::platform::actions::kubernetes::resource_quota::{
    ClearResourceQuota, Containers, SetResourceQuota,
};
pub use crate::platform::actions::limits::{
    ChangeAssociationLimit, ChangeCohortQuota, ChangeNamespaceLabels, ChangeQueueQuota, ChangeResourceQuota,
    KeepLimits, LimitKept, LimitNames, Limits, ReadLimits, RestoreAssociationLimit, RestoreCohortQuota,
    RestoreNamespaceLabels, RestoreQueueQuota, RestoreResourceQuota, Restored, read_limits,
};
pub use crate::platform::actions::machines::recover::{
    ExamineNode, GpuHealth, InspectGpus, RebootNode, Recovery, ResetGpus, UncordonNode,
};
pub use crate::platform::actions::machines::sanitise::{
    AwaitDrained, BeginSanitise, CordonNode, EnterScrub, NodeDevices, Progress, ReadDevices, ReadProgress,
    ReimageNode, ResetMachine, SampleDrive, ScrubGpu,
};
pub use crate::platform::actions::objects::{Bucket, CreateBucket, DeleteBucket, Objects};
pub use crate::platform::actions::offboarding::{
    Admission, AwaitIdle, DiagnoseRemoval, Fate, ReadAdmission, RemoveThing, Removed, RewrapThing,
    SetAdmission, ShredKey, Shredded, SurveyTenant, VerifyAbsent, VerifyNothingLeft,
};
pub use crate::platform::actions::records::{DestroyRecordKey, Records};
pub use crate::platform::actions::slurm::{Associations, CreateAccount, DeleteAccount, Slurm};
pub use crate::platform::actions::workloads::{
    AwaitGone, DrainService, EvictWorkload, ForceWorkload, GpuSet, ListGpuClients, NotifyBorrower,
    RequeueWorkload, RestoreService, RunningWorkload, SaveWork, ScrubGpus, ScrubLevel, Scrubbed,
    StartWorkload, Telling, WithdrawNotice, WorkloadRef, Workloads,
};
pub use crate::platform::call_metadata::{ANSWER_WITHIN, Found, LOOK_AGAIN, Made, Removal, Stamp};
pub use crate::platform::capabilities::kubernetes::{Kind, Kubernetes, Manifest, Ownership, Place, Swap};
pub use crate::platform::capabilities::machines::{
    Devices, Drive, DriveTechnique, DriveTool, Environment, FilledGpu, GpuDevice, Machines, Reset, Samples,
    SanitiseLog, SanitiseStatus, Segment,
};
pub use crate::platform::capabilities::tenant_resources::{
    Admits, Emptied, Estate, Eyes, LUKS_KEY, SYSTEMS, Seen, Thing,
};
pub use names::{bucket_name, flavor_name, tenant_name, workspace_name};

use crate::{
    backends::{
        agents::Agents,
        record_keys::Unsealed,
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

/// The key of what depends on a cluster: operators limit it, and its breaker watches over it.
fn at_cluster(cluster: &str) -> Vec<String> {
    vec![format!("cluster/{cluster}")]
}
