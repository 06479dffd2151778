//! The tenancy model: plain data and checked, pure transitions. `docs/glossary.md` has the words.
//!
//! Each entity is one kind of document in the ledger. Documents are changed by the actions of [`crate::ledger`] and by
//! [`crate::fleet`] alone.

mod admission;
mod cluster;
mod cluster_key;
mod cohort;
mod decision;
mod earmark;
mod entitlement;
mod gpu;
mod holding;
mod line;
mod loan;
mod name;
mod node;
mod occupancy;
mod pool;
mod quantity;
mod quota;
mod region;
mod reservation;
mod resource;
mod roster;
mod tenant;
mod usage;
mod waitlist;
mod workload;
mod workspace;

pub use admission::{Admission, Answer, Dimension, Ground, Grounds, Weighed};
pub use cluster::{Cluster, ClusterKind, Tenancy};
pub use cluster_key::{ClusterKey, Earlier, Scope, Standing};
pub use cohort::{Account, Admitting, Balance, Cohort, Promise, Reclaiming, Served};
pub use decision::Decision;
pub use earmark::{Earmark, Earmarks};
pub use entitlement::Entitlement;
pub use gpu::{Gpu, Layout};
pub use holding::{Held, Holding};
pub use line::{InLine, Line};
pub use loan::{Loan, LoanState, OpenLoan, OpenLoans};
pub use name::{
    ClusterId, GpuModel, Name, NameError, Naming, NodeId, OfCluster, OfModel, OfNode, OfRegion, OfTenant,
    OfWorkspace, RegionId, TenantId, WorkspaceName,
};
pub use node::{Node, NodeError, NodeState};
pub use occupancy::{GpuUse, NodeUse, Occupancy, Room, Sighting, User};
pub use pool::{Chunk, ChunkCount, Pool};
pub use quantity::{Cents, Gpus, OwnerEpoch};
pub use quota::{Allowance, Limits, Quota, QuotaEnd};
pub use region::{Atlas, Buffer, Jurisdiction, OfJurisdiction, Region, Residency};
pub use reservation::Reservation;
pub use resource::{Amounts, GpuKind, OfProfile, Profile, Resource, ResourceError};
pub use roster::{Roster, Running};
pub use tenant::{Compliance, Isolation, Tenant, TenantState, Tier};
pub use usage::{Spent, Stock, Usage};
pub use waitlist::{Waiter, Waitlist};
pub use workload::{Checkpoint, Placed, Workload, WorkloadClass, WorkloadState};
pub use workspace::{Workspace, WorkspaceClass, workspace_key};
