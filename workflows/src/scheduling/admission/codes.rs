//! Error codes of admission with their remedies. A test compares them with `docs/operations.md`.
//!
//! The codes of decisions are listed in `docs/admission.md`.

/// The workload exists with other content.
pub const DIFFERS: &str = "workload.differs";
/// The tenant has no such workload.
pub const UNKNOWN_WORKLOAD: &str = "workload.unknown";
/// The workload's state does not allow the change.
pub const WORKLOAD_STATE: &str = "workload.state";
/// The workspace has no account.
pub const UNKNOWN_WORKSPACE: &str = "workspace.unknown";
/// The account has no room for more workspaces.
pub const COHORT_FULL: &str = "cohort.full";
/// A workload's request is not well-formed.
pub const INVALID: &str = "workload.invalid";
/// The tenant leaves, or has left.
pub const TENANT_LEAVES: &str = "tenant.leaves";
/// The workspace's queue is full.
pub const LINE_FULL: &str = "line.full";
/// A node, or a GPU of it, is in use.
pub const NODE_BUSY: &str = "node.busy";
/// The tenant has the maximum number of nodes.
pub const OCCUPANCY_FULL: &str = "occupancy.full";
/// Another execution reclaims the kind.
pub const RECLAIM_BUSY: &str = "reclaim.busy";
/// The execution does not reclaim the kind.
pub const RECLAIM_NOT_OURS: &str = "reclaim.not_ours";
/// The documents of the ledger contradict each other.
pub const BOOKS_DIFFER: &str = "ledger.books_differ";

/// Finding of a decision: no node of the tenant has enough GPUs for a group that must be on one node.
pub const NODES_TOO_SMALL: &str = "nodes.too_small";

/// Codes and remedies, in alphabetical order.
pub const ALL: &[(&str, &str)] = &[
    (COHORT_FULL, "split the tenant, or limit fewer resources: one tenant's workspaces are in one document"),
    (BOOKS_DIFFER, "a defect: keep the store (`tenure store export`) and report it; nothing was changed"),
    (LINE_FULL, "wait until the workspace's line is shorter, or raise admission.line_limit in the policy"),
    (NODE_BUSY, "wait until what runs there has ended, or evict it first"),
    (OCCUPANCY_FULL, "split the tenant: one tenant's nodes are listed in one document of at most 2,000"),
    (RECLAIM_BUSY, "nothing: another reclaim of the same kind is executing and comes first"),
    (RECLAIM_NOT_OURS, "nothing: the reclaim has ended, or another took its place; ask for a plan again"),
    (
        TENANT_LEAVES,
        "nothing: its offboarding has begun; cancel that before destruction begins to let it work again",
    ),
    (DIFFERS, "give the workload another name; only a rejected request can be corrected under its name"),
    (INVALID, "read the message: it names the field and what it may be"),
    (WORKLOAD_STATE, "read the message: the workload is elsewhere in its life"),
    (UNKNOWN_WORKLOAD, "check the name; `tenure workloads list` shows the tenant's"),
    (UNKNOWN_WORKSPACE, "check the name, or give the workspace a quota first: it has no account"),
];
