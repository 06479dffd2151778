//! The tenancy model: plain data and checked, pure transitions. `docs/glossary.md` defines the terms.
//!
//! Each entity is one kind of document in the ledger. Only the actions of [`crate::ledger`] and [`crate::fleet`] change documents.

mod entitlement;
pub(crate) mod hardware;
mod isolation_kind;
mod name;
mod policy_ref;
mod priority_class;
mod quantity;
pub mod quotas;
mod region;
mod resource;
mod tenant;
pub(crate) mod workloads;
mod workspace;

pub use entitlement::Entitlement;
pub use hardware::capacity_waitlist::{Waiter, Waitlist};
pub use hardware::cluster::{Cluster, ClusterKind, Tenancy};
pub use hardware::cluster_classes::ClusterClasses;
pub use hardware::cluster_key::{ClusterKey, ClusterKeyStatus, KeyScope, PreviousKey};
pub use hardware::free_pool::{ChunkCount, FreePool, FreePoolChunk};
pub use hardware::gpu::{Gpu, Layout};
pub use hardware::gpu_bars::GpuBars;
pub use hardware::gpu_names::{
    canonical as canonical_gpu_name, is_product as is_gpu_product, nearest as nearest_gpu_model,
};
pub use hardware::node::{Node, NodeError, NodeState};
pub use hardware::node_allocation::{AllocatedNode, NodeAllocation};
pub use hardware::occupancy::{GpuUse, GpuUser, LastObservation, NodeRoom, NodeUse, Occupancy};
pub use hardware::offer::{GpuOffer, GpuSlicing, layout_offers};
pub use isolation_kind::IsolationKind;
pub use name::{
    ClusterId, GpuModel, Name, NameError, NameKind, NodeId, OfCluster, OfModel, OfNode, OfRegion, OfTenant,
    OfWorkspace, RegionId, TenantId, WorkspaceName,
};
pub use policy_ref::PolicyRef;
pub use priority_class::PriorityClass;
pub use quantity::{Cents, Gpus, OwnerEpoch};
pub use quotas::cohort::{
    Account, AccountReservation, AccountState, ActiveReclaim, Balance, Beneficiary, Cohort,
};
pub use quotas::earmark::{Earmark, Earmarks};
pub use quotas::flavor_quota::FlavorQuota;
pub use quotas::lender::Lender;
pub use quotas::loan::{Loan, LoanState, OpenLoan, OpenLoans};
pub use quotas::quota::{Allowance, Quota, QuotaEnd, QuotaLimits};
pub use quotas::reservation::Reservation;
pub use quotas::usage::{CapacityUsage, MonthlyUsage, UsageCounters};
pub use region::{Buffer, Jurisdiction, OfJurisdiction, Region, RegionIndex, Residency};
pub use resource::{
    Amounts, GpuKind, OfProfile, Profile, Resource, ResourceError, as_written, as_written_if_any,
};
pub use tenant::{Compliance, Isolation, Multitenancy, Tenant, TenantState, Tier, is_reserved};
pub use workloads::admission::{
    Admission, AdmissionFacts, AdmissionVerdict, Dimension, DimensionFinding, ResourceFacts,
};
pub use workloads::failed_start::FailedStart;
pub use workloads::observed_placement::{
    BoundGpus, ObservedPlacement, PlacementBasis, SeenGpu, SeenWorkload, UuidsByNode,
};
pub use workloads::queue::{QueuedWorkload, WorkspaceQueue};
pub use workloads::running::{RunningEntry, RunningList};
pub use workloads::workload::{Checkpoint, Placed, Workload, WorkloadClass, WorkloadState};
pub use workspace::{Workspace, WorkspaceClass, workspace_key};
