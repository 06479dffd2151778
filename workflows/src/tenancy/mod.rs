//! The tenancy model: plain data and checked, pure transitions. `docs/glossary.md` has the words.
//!
//! Each entity is one kind of document in the ledger. Documents are changed by the actions of [`crate::ledger`] and by
//! [`crate::fleet`] alone.

mod decision;
mod entitlement;
pub(crate) mod hardware;
mod name;
mod quantity;
pub mod quotas;
mod region;
mod resource;
mod tenant;
pub(crate) mod workloads;
mod workspace;

pub use crate::tenancy::hardware::capacity_waitlist::{Waiter, Waitlist};
pub use crate::tenancy::hardware::cluster::{Cluster, ClusterKind, Tenancy};
pub use crate::tenancy::hardware::cluster_key::{ClusterKey, Earlier, Scope, Standing};
pub use crate::tenancy::hardware::free_pool::{Chunk, ChunkCount, Pool};
pub use crate::tenancy::hardware::gpu::{Gpu, Layout};
pub use crate::tenancy::hardware::node::{Node, NodeError, NodeState};
pub use crate::tenancy::hardware::node_allocation::{Held, Holding};
pub use crate::tenancy::hardware::occupancy::{GpuUse, NodeUse, Occupancy, Room, Sighting, User};
pub use crate::tenancy::quotas::cohort::{Account, Admitting, Balance, Cohort, Promise, Reclaiming, Served};
pub use crate::tenancy::quotas::earmark::{Earmark, Earmarks};
pub use crate::tenancy::quotas::loan::{Loan, LoanState, OpenLoan, OpenLoans};
pub use crate::tenancy::quotas::quota::{Allowance, Limits, Quota, QuotaEnd};
pub use crate::tenancy::quotas::reservation::Reservation;
pub use crate::tenancy::quotas::usage::{Spent, Stock, Usage};
pub use crate::tenancy::workloads::admission::{Admission, Answer, Dimension, Ground, Grounds, Weighed};
pub use crate::tenancy::workloads::queue::{InLine, Line};
pub use crate::tenancy::workloads::running::{Roster, Running};
pub use crate::tenancy::workloads::workload::{Checkpoint, Placed, Workload, WorkloadClass, WorkloadState};
pub use decision::Decision;
pub use entitlement::Entitlement;
pub use name::{
    ClusterId, GpuModel, Name, NameError, Naming, NodeId, OfCluster, OfModel, OfNode, OfRegion, OfTenant,
    OfWorkspace, RegionId, TenantId, WorkspaceName,
};
pub use quantity::{Cents, Gpus, OwnerEpoch};
pub use region::{Atlas, Buffer, Jurisdiction, OfJurisdiction, Region, Residency};
pub use resource::{Amounts, GpuKind, OfProfile, Profile, Resource, ResourceError};
pub use tenant::{Compliance, Isolation, Tenant, TenantState, Tier};
pub use workspace::{Workspace, WorkspaceClass, workspace_key};
