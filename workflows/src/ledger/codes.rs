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
    (SHORT, "nothing: the execution joins the waitlist; add nodes or release some to end the wait"),
    (CLAIM_EXISTS, "look at the tenant's other execution: it holds nodes; finish or cancel it first"),
    (CLAIM_MISSING, "the claim was released: cancel the execution and ask again"),
    (CONTRACT_ENDED, "ask again with a contract that ends later; nothing was changed"),
    (
        KEY_TAKEN,
        "the cluster still has another tenant's key: revoke it by finishing that tenant's offboarding",
    ),
    (BOOKS_DIFFER, "a defect: keep the store (`tenure store export`) and report it; nothing was changed"),
    (NODE_STATE, "read the message: the node is elsewhere in its life; sanitise or repair it first"),
    (QUOTA_CHANGED, "nothing was changed: look at the quota as it is, and ask again"),
    (EARMARK_MISSING, "a defect: keep the store (`tenure store export`) and report it; nothing was changed"),
    (
        QUOTA_IN_USE,
        "nothing: the execution waits until less is used; stop workloads of the workspace to end the wait",
    ),
    (
        OVER_ENTITLEMENT,
        "another change was granted meanwhile: lower another quota first, buy more, or ask for an exception with an end",
    ),
    (OVER_OWNED, "lower the quotas to what the tenant owns, or allow overcommit in the platform policy"),
    (SLA_CHANGED, "nothing was changed: look at the tenant as it is, and ask again"),
    (
        PROMISE_OPEN,
        "the message names what is in the way: end those loans or workloads; before the pivot the execution waits by itself",
    ),
    (
        TENANT_CLOSED,
        "nothing: a closed tenant does not come back, and its name is not used again; onboard under another",
    ),
    (NAME_TAKEN, "choose another name; that of a closed tenant is not used again"),
    (TENANT_CHANGING, "the message names what: let it end or cancel it, then ask again"),
    (
        TENANT_IN_USE,
        "policy `guards.end_of_tenant_in_use` is `block`: let the tenant's workloads end or finish them, then ask again",
    ),
    (TENANT_NOT_ACTIVE, "read the message: finish what the tenant is in first"),
    (
        WORKSPACE_FROZEN,
        "finish or cancel the execution that froze the workspace, such as its tenant's offboarding",
    ),
];
