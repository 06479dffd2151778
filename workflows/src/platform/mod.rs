//! The interface to the systems that Tenure controls: one file for each capability, with its trait and its actions.
//!
//! Workflows use the actions, and backends implement the traits. Invariant: every changing call carries a [`CallMetadata`], and every created object
//! carries the step that created it. An undo therefore finds its own objects by name and leaves others. `docs/backends/contract.md` lists the
//! capabilities, `docs/operations.md` the codes with their remedies.

mod actions;
mod call_metadata;
pub(crate) mod capabilities;
pub mod codes;
mod names;

pub use crate::tenancy::{FlavorQuota, IsolationKind, PriorityClass};
pub use actions::gpus::{DiagnoseNode, ReadGpuLayout, RestoreGpuLayout, SetGpuLayout};
pub use actions::hooks::{RunHook, UndoHook};
pub use actions::identity::{
    CreateIdentity, CredentialReference, DeleteIdentity, PublishCredentials, RevokeCredentials,
};
pub use actions::keys::{CreateTenantKey, DestroyTenantKey, KeyReference};
pub use actions::kubernetes::isolation::{IsolateNetwork, ProbeIsolation, RestoreNetwork};
pub use actions::kubernetes::namespace::{CreateNamespace, DeleteNamespace};
pub use actions::kubernetes::node_ownership::{NodeReturned, NodeTaken, ReturnNode, TakeNode};
pub use actions::kubernetes::queues::{
    BoughtGpus, CreateCohort, CreateFlavor, CreateQueue, DeleteCohort, DeleteFlavor, DeleteQueue, HoldQueue,
    OpenQueue,
};
pub use actions::kubernetes::resource_quota::{ClearResourceQuota, Containers, SetResourceQuota};
pub use actions::limits::{
    ChangeAssociationLimit, ChangeCohortQuota, ChangeNamespaceLabels, ChangeQueueQuota, ChangeResourceQuota,
    KeepLimits, LayerLimits, LimitKept, LimitNames, LimitRestored, ReadLimits, RestoreAssociationLimit,
    RestoreCohortQuota, RestoreNamespaceLabels, RestoreQueueQuota, RestoreResourceQuota, read_limits,
};
pub use actions::machines::qualify::{QualifyFinding, QualifyNode};
pub use actions::machines::recover::{ExamineNode, InspectGpus, RebootNode, ResetGpus, UncordonNode};
pub use actions::machines::sanitise::{
    AwaitDrained, BeginSanitise, CordonNode, DriveStatus, EnterScrub, NodeDevices, ReadDevices, ReadProgress,
    ReimageNode, ResetMachine, SampleDrive, ScrubGpu,
};
pub use actions::objects::{CreateBucket, DeleteBucket};
pub use actions::offboarding::{
    AwaitIdle, ObserveAbsence, ObservedAbsence, ReadAdmission, RemainingThing, ResourceAdmission,
    SetAdmission, VerifiedSystems, VerifyAbsent, VerifyNothingLeft,
};
pub use actions::records::DestroyRecordKey;
pub use actions::removal::{
    CheckRewrap, DiagnoseRemoval, RemovalFate, RemoveThing, Removed, RewrapThing, ShredKey, Shredded,
};
pub use actions::slurm::{CreateAccount, DeleteAccount};
pub use actions::survey::{SurveyTenant, TenantSurvey};
pub use actions::workload_gpus::{ListGpuClients, ObserveGpus, ScrubGpus};
pub use actions::workloads::{
    AwaitGone, DrainService, EvictWorkload, ForceWorkload, NotifyBorrower, RequeueWorkload, RestoreService,
    SaveWork, StartWorkload, WithdrawNotice,
};
pub use call_metadata::{ANSWER_WITHIN, CallMetadata, CreatedObject, FoundObject, LOOK_AGAIN, Removal};
pub use capabilities::gpu_placement::{ObservedGpus, PlannedGpus};
pub use capabilities::gpus::{Diagnosis, DiagnosisLevel, GpuHealth, GpuLayout, Gpus, LayoutState, Recovery};
pub use capabilities::hooks::{Hook, HookOutput, Hooks};
pub use capabilities::identity::Identity;
pub use capabilities::keys::{KeySafety, Keys, WayBack};
pub use capabilities::kubernetes::{
    FieldSwap, Kubernetes, Manifest, ObjectKind, ObjectRef, Ownership, ProbeFinding,
};
pub use capabilities::machines::{
    Devices, Drive, DriveTechnique, DriveTool, Environment, FilledGpu, GpuDevice, Machines, Reset, Samples,
    SanitiseLog, SanitiseStatus, Segment,
};
pub use capabilities::objects::{Bucket, Objects};
pub use capabilities::records::Records;
pub use capabilities::slurm::{Associations, Slurm};
pub use capabilities::tenant_resources::{
    AccessMode, EmptyProgress, EncryptedBy, LUKS_KEY, ObservedResource, Observer, SYSTEMS, TenantResource,
    TenantResources, UNTIL_LIFTED, VerifiedAs,
};
pub use capabilities::workloads::{
    GpuSet, RunningWorkload, ScrubLevel, Scrubbed, WorkloadNotice, WorkloadRef, Workloads,
};
pub use names::{bucket_name, flavor_name, tenant_name, workspace_name};

use crate::{signing::Signer, tenancy::Cluster};
use std::{any::Any, collections::BTreeMap, sync::Arc};

/// All capabilities of a platform. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Namespaces, nodes, queues, quotas, isolation.
    pub kubernetes: Arc<dyn Kubernetes>,
    /// Accounts of the batch scheduler.
    pub slurm: Arc<dyn Slurm>,
    /// The layout and health of GPUs.
    pub gpus: Arc<dyn Gpus>,
    /// The key store.
    pub keys: Arc<dyn Keys>,
    /// Buckets.
    pub objects: Arc<dyn Objects>,
    /// The groups and credentials of users.
    pub identity: Arc<dyn Identity>,
    /// Workloads and their GPUs.
    pub workloads: Arc<dyn Workloads>,
    /// The resources of tenants, in every system.
    pub tenant_resources: Arc<dyn TenantResources>,
    /// Machines as hardware.
    pub machines: Arc<dyn Machines>,
    /// The engine's own records.
    pub records: Arc<dyn Records>,
    /// External systems that operators connect by name.
    pub hooks: Arc<dyn Hooks>,
    /// Signs certificates of destruction.
    pub signer: Arc<dyn Signer>,
    /// The simulator behind the platform, if there is one. Opaque here: `backends` sets it and reads it back for tests.
    pub simulator: Option<Arc<dyn Any + Send + Sync>>,
    /// The backend of each cluster in the target file.
    pub served: BTreeMap<String, String>,
    /// By cluster of the target file: the requirements for an onboarding that are not met.
    pub unready: BTreeMap<String, Vec<String>>,
}

impl Platform {
    /// Returns the platform with certificates signed by `signer`.
    #[must_use]
    pub fn with_signer(self, signer: Arc<dyn Signer>) -> Self {
        Self { signer, ..self }
    }

    /// Returns the platform with the engine's own records in `records`.
    #[must_use]
    pub fn with_records(self, records: Arc<dyn Records>) -> Self {
        Self { records, ..self }
    }

    /// The possible results of [`Platform::backend_of`].
    pub const BACKENDS: [&str; 7] = [
        "agents",
        "agents and kubernetes",
        "agents and kubernetes and slurm",
        "agents and slurm",
        "kubernetes",
        "kubernetes and slurm",
        "slurm",
    ];

    /// Returns the platform with the backend of each cluster: one of [`Platform::BACKENDS`], or `simulated` for a cluster that is named and stays
    /// simulated.
    #[must_use]
    pub fn with_backends(self, served: BTreeMap<String, String>) -> Self {
        Self { served, ..self }
    }

    /// Returns the platform with the unmet requirements of its clusters.
    #[must_use]
    pub fn with_unready(self, unready: BTreeMap<String, Vec<String>>) -> Self {
        Self { unready, ..self }
    }

    /// Returns the requirements for an onboarding that a cluster does not meet.
    #[must_use]
    pub fn unready(&self, cluster: &str) -> &[String] {
        self.unready.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// Returns the backend of a cluster, if it is not the simulator.
    #[must_use]
    pub fn backend_of(&self, cluster: &str) -> Option<&str> {
        self.served.get(cluster).map(String::as_str).filter(|backend| *backend != Cluster::SIMULATED)
    }

    /// Returns true if the target file declares the cluster as simulated.
    #[must_use]
    pub fn stays_simulated(&self, cluster: &str) -> bool {
        self.served.get(cluster).is_some_and(|backend| backend == Cluster::SIMULATED)
    }

    /// Returns the backend of each capability, so that plans, readiness and output can mark simulated ones.
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
            ("estate", self.tenant_resources.backend()),
            ("machines", self.machines.backend()),
            ("records", self.records.backend()),
            ("hooks", self.hooks.backend()),
        ])
    }
}

/// Returns the key for limits and the circuit breaker of a cluster.
fn at_cluster(cluster: &str) -> Vec<String> {
    vec![format!("cluster/{cluster}")]
}
