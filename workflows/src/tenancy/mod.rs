//! The tenancy model: plain data and checked, pure transitions. `docs/glossary.md` has the words.
//!
//! Each entity is one kind of document in the ledger. Documents are changed by the actions of [`crate::ledger`] and by
//! [`crate::fleet`] alone.

mod cluster;
mod cluster_key;
mod decision;
mod entitlement;
mod gpu;
mod holding;
mod name;
mod node;
mod pool;
mod quantity;
mod quota;
mod region;
mod tenant;
mod waitlist;
mod workspace;

pub use cluster::{Cluster, ClusterKind, Tenancy};
pub use cluster_key::{ClusterKey, Scope};
pub use decision::Decision;
pub use entitlement::Entitlement;
pub use gpu::{Gpu, Layout};
pub use holding::{Held, Holding};
pub use name::{
    ClusterId, GpuModel, Name, NameError, Naming, NodeId, OfCluster, OfModel, OfNode, OfRegion, OfTenant,
    OfWorkspace, RegionId, TenantId, WorkspaceName,
};
pub use node::{Node, NodeError, NodeState};
pub use pool::{Chunk, ChunkCount, Pool};
pub use quantity::{Cents, Gpus, OwnerEpoch};
pub use quota::{Limits, Quota};
pub use region::{Atlas, Buffer, Jurisdiction, OfJurisdiction, Region, Residency};
pub use tenant::{Compliance, Isolation, Tenant, TenantState, Tier};
pub use waitlist::{Waiter, Waitlist};
pub use workspace::{Workspace, WorkspaceClass, workspace_key};
