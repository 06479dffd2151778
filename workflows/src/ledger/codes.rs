//! Error codes of ledger actions, each with its remedy. A test compares them with `docs/operations.md`.

/// Not enough GPUs of the model are free in any allowed cluster.
pub const SHORT: &str = "capacity.short";
/// The tenant holds nodes that another execution claimed.
pub const CLAIM_EXISTS: &str = "claim.exists";
/// The tenant holds no nodes.
pub const CLAIM_MISSING: &str = "claim.missing";
/// The contract ended before the tenant was registered.
pub const CONTRACT_ENDED: &str = "contract.ended";
/// Another tenant has the cluster's key.
pub const KEY_TAKEN: &str = "cluster_key.taken";
/// The ledger's documents contradict each other about a node.
pub const BOOKS_DIFFER: &str = "ledger.books_differ";
/// A node does not allow the change.
pub const NODE_STATE: &str = "node.state";
/// No GPUs are earmarked for the execution.
pub const EARMARK_MISSING: &str = "quota.earmark_missing";
/// The quota was changed since the decision.
pub const QUOTA_CHANGED: &str = "quota.changed";
/// The usage is higher than the new quota.
pub const QUOTA_IN_USE: &str = "quota.in_use";
/// Quotas would exceed what the tenant bought.
pub const OVER_ENTITLEMENT: &str = "quota.over_entitlement";
/// Quotas would exceed what the tenant owns.
pub const OVER_OWNED: &str = "quota.over_owned";
/// The tenant is closed permanently.
pub const TENANT_CLOSED: &str = "tenant.closed";
/// The tenant's service level changed after the decision.
pub const SLA_CHANGED: &str = "sla.changed";
/// A condition of the new service level is not met.
pub const PROMISE_OPEN: &str = "sla.promise_open";
/// Another execution has stopped the workspace's admission.
pub const WORKSPACE_FROZEN: &str = "workspace.frozen";
/// Another tenant has the name.
pub const NAME_TAKEN: &str = "tenant.name_taken";
/// Another execution changes the tenant.
pub const TENANT_CHANGING: &str = "tenant.changing";
/// Workloads of the tenant run, and policy does not permit an end of the tenant then.
pub const TENANT_IN_USE: &str = "tenant.in_use";
/// The tenant is not active.
pub const TENANT_NOT_ACTIVE: &str = "tenant.not_active";

/// All codes with their remedies, in alphabetical order.
pub const ALL: &[(&str, &str)] = &[
    (SHORT, "nothing: the execution joins the waitlist; to end the wait, add nodes or release some"),
    (CLAIM_EXISTS, "another execution of the tenant holds nodes: finish or cancel it first"),
    (CLAIM_MISSING, "the claim was released: cancel the execution, and submit the request again"),
    (CONTRACT_ENDED, "nothing was changed: submit the request again with a contract that ends later"),
    (
        KEY_TAKEN,
        "the cluster still has another tenant's key: revoke it by finishing that tenant's offboarding",
    ),
    (
        BOOKS_DIFFER,
        "this is a defect, and nothing was changed: export the store (`tenure store export`), and report it",
    ),
    (NODE_STATE, "the node has another state, named in the message: sanitise or repair it first"),
    (
        QUOTA_CHANGED,
        "the quota has changed since, and nothing was done: read the quota, and submit the request again",
    ),
    (
        EARMARK_MISSING,
        "this is a defect, and nothing was changed: export the store (`tenure store export`), and report it",
    ),
    (
        QUOTA_IN_USE,
        "nothing: the execution waits until usage falls; to end the wait, stop workloads of the workspace",
    ),
    (
        OVER_ENTITLEMENT,
        "another change was granted meanwhile: lower another quota first, buy more, or request a temporary exception",
    ),
    (OVER_OWNED, "lower the quotas to what the tenant owns, or allow overcommit in the platform policy"),
    (
        SLA_CHANGED,
        "the terms have changed since, and nothing was done: read the tenant, and submit the request again",
    ),
    (
        PROMISE_OPEN,
        "end the loans or workloads in the message; before its point of no return, the execution waits automatically",
    ),
    (
        TENANT_CLOSED,
        "a closed tenant cannot be reopened, and its name cannot be reused: onboard it under another name",
    ),
    (NAME_TAKEN, "choose another name; the name of a closed tenant cannot be reused"),
    (TENANT_CHANGING, "wait for the change in the message, or cancel it; then submit the request again"),
    (
        TENANT_IN_USE,
        "policy `guards.end_of_tenant_in_use` is `block`: end the tenant's workloads, then submit the request again",
    ),
    (TENANT_NOT_ACTIVE, "the tenant has another state, named in the message: finish that execution first"),
    (
        WORKSPACE_FROZEN,
        "finish or cancel the execution that froze the workspace, such as its tenant's offboarding",
    ),
];
