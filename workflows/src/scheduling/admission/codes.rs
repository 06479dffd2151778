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
    (
        COHORT_FULL,
        "split the tenant, or limit fewer resources: the workspaces of a tenant share one document of limited size",
    ),
    (
        BOOKS_DIFFER,
        "this is a defect, and nothing was changed: export the store (`tenure store export`), and report it",
    ),
    (LINE_FULL, "wait until the workspace's queue is shorter, or raise `admission.line_limit` in the policy"),
    (NODE_BUSY, "wait until the workloads on the node have ended, or evict them first"),
    (OCCUPANCY_FULL, "split the tenant: a tenant can have at most 2,000 nodes"),
    (RECLAIM_BUSY, "nothing: another reclaim of the same resource runs first"),
    (
        RECLAIM_NOT_OURS,
        "nothing: the reclaim has ended, or another has replaced it; to see the present plan, preview a reclaim",
    ),
    (
        TENANT_LEAVES,
        "the tenant is being offboarded: to use it again, cancel the offboarding before its destruction begins",
    ),
    (DIFFERS, "choose another name; only a rejected workload can be corrected under its name"),
    (INVALID, "correct the field in the message; the message lists the valid values"),
    (WORKLOAD_STATE, "the workload has another state, named in the message"),
    (UNKNOWN_WORKLOAD, "check the name: `tenure workloads list` lists the workloads of the tenant"),
    (
        UNKNOWN_WORKSPACE,
        "check the name; a workspace without a quota cannot run workloads, so give it a quota first",
    ),
];
