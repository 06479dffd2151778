//! What can be done to the world outside: one file per capability, with its trait and its actions.
//!
//! Workflows name the actions; backends implement the traits. Invariant: every call that changes something carries a
//! [`Stamp`], and every object made carries the step that made it, so that an undo finds its own work by name and
//! leaves another's alone. `docs/actuators.md` lists capabilities, codes and remedies.

pub mod codes;
mod estate;
mod gpus;
mod hooks;
mod identity;
mod isolation;
mod keys;
mod kubernetes;
mod leaving;
mod limit_lines;
mod limits;
mod machines;
mod names;
mod namespace;
mod nodes;
mod objects;
mod priority;
mod queues;
mod quota;
mod records;
mod recovery;
mod scrubbing;
mod slurm;
mod stamp;
mod workloads;

pub use estate::{Admits, Emptied, Estate, Eyes, LUKS_KEY, SYSTEMS, Seen, Thing};
pub use gpus::{
    DiagnoseNode, Diagnosis, GpuLayout, Gpus, LayoutState, Level, ReadGpuLayout, RestoreGpuLayout,
    SetGpuLayout,
};
pub use hooks::{Hook, HookOutput, Hooks, RunHook, UndoHook};
pub use identity::{
    CreateIdentity, CredentialReference, DeleteIdentity, Identity, PublishCredentials, RevokeCredentials,
};
pub use isolation::{Finding, IsolateNetwork, IsolationKind, ProbeIsolation, RestoreNetwork};
pub use keys::{CreateTenantKey, DestroyTenantKey, KeyReference, KeySafety, Keys};
pub use kubernetes::{Kind, Kubernetes, Manifest, Ownership, Place, Swap};
pub use leaving::{
    Admission, AwaitIdle, DiagnoseRemoval, Fate, ReadAdmission, RemoveThing, Removed, RewrapThing,
    SetAdmission, ShredKey, Shredded, SurveyTenant, VerifyAbsent, VerifyNothingLeft,
};
pub use limits::{
    ChangeAssociationLimit, ChangeCohortQuota, ChangeNamespaceLabels, ChangeQueueQuota, ChangeResourceQuota,
    KeepLimits, LimitKept, LimitNames, Limits, ReadLimits, RestoreAssociationLimit, RestoreCohortQuota,
    RestoreNamespaceLabels, RestoreQueueQuota, RestoreResourceQuota, Restored, read_limits,
};
pub use machines::{
    Devices, Drive, DriveTechnique, DriveTool, Environment, FilledGpu, GpuDevice, Machines, Reset, Samples,
    SanitiseLog, SanitiseStatus, Segment,
};
pub use names::{bucket_name, flavor_name, tenant_name, workspace_name};
pub use namespace::{CreateNamespace, DeleteNamespace};
pub use nodes::{ReturnNode, Returned, TakeNode, Taken};
pub use objects::{Bucket, CreateBucket, DeleteBucket, Objects};
pub use priority::PriorityClass;
pub use queues::{
    CreateCohort, CreateFlavor, CreateQueue, DeleteCohort, DeleteFlavor, DeleteQueue, FlavorQuota, HoldQueue,
    OpenQueue,
};
pub use quota::{ClearResourceQuota, Containers, SetResourceQuota};
pub use records::{DestroyRecordKey, Records};
pub use recovery::{ExamineNode, GpuHealth, InspectGpus, RebootNode, Recovery, ResetGpus, UncordonNode};
pub use scrubbing::{
    AwaitDrained, BeginSanitise, CordonNode, EnterScrub, NodeDevices, Progress, ReadDevices, ReadProgress,
    ReimageNode, ResetMachine, SampleDrive, ScrubGpu,
};
pub use slurm::{Associations, CreateAccount, DeleteAccount, Slurm};
pub use stamp::{ANSWER_WITHIN, Found, LOOK_AGAIN, Made, Removal, Stamp};
pub use workloads::{
    AwaitGone, DrainService, EvictWorkload, ForceWorkload, GpuSet, ListGpuClients, NotifyBorrower,
    RequeueWorkload, RestoreService, RunningWorkload, SaveWork, ScrubGpus, ScrubLevel, Scrubbed,
    StartWorkload, Telling, WithdrawNotice, WorkloadRef, Workloads,
};

/// The key of what depends on a cluster: operators limit it, and its breaker watches over it.
fn at_cluster(cluster: &str) -> Vec<String> {
    vec![format!("cluster/{cluster}")]
}
