//! The rules of decisions on requests: onboarding, quota change and SLA change.

use super::{APPROVERS, Rule, rule};

/// The rules, by name.
pub(super) const RULES: &[Rule] = &[
    rule("approval.auto_limit", "an increase up to the limit of the policy needs no approval", APPROVERS),
    rule(
        "approval.capacity_share",
        "a large share of the free capacity needs the capacity manager's approval",
        APPROVERS,
    ),
    rule("approval.compliance", "a request with compliance tags needs the approval of security", APPROVERS),
    rule("approval.in_use", "a quota below the present usage needs approval", APPROVERS),
    rule("approval.other_limits", "other lending or borrowing limits need approval", APPROVERS),
    rule("approval.price", "a price above the threshold needs the approval of finance", APPROVERS),
    rule("approval.self_service", "a small request of a tier with self-service needs no approval", APPROVERS),
    rule("approval.sla_change", "another service level needs approval", APPROVERS),
    rule(
        "capacity.ever_fits",
        "the missing GPUs exist in the tenant's cluster",
        "request fewer GPUs, or add nodes",
    ),
    rule("capacity.owned", "the GPUs that the tenant owns and needs; it never fails", "nothing"),
    rule(
        "compliance.isolation",
        "the isolation meets the compliance tags",
        "use one of the isolation levels in the detail",
    ),
    rule(
        "compliance.residency",
        "the data residency meets the compliance tags",
        "narrow `tenant.data_residency`",
    ),
    rule(
        "entitlement.not_ended",
        "the contract ends after today",
        "set `entitlement.to` to a later date; it is the day after the last day",
    ),
    rule(
        "gpu_models.ecc",
        "customers of a tenant get a GPU model whose memory corrects errors",
        "use another model, or add the model to `gpu_models`",
    ),
    rule(
        "gpu_models.mig_profile",
        "the GPUs can be cut into the requested slices",
        "request a profile that the model has in `gpu_models`, or whole GPUs",
    ),
    rule(
        "isolation.sharing_allowed",
        "slices are shared only if GPU sharing is allowed",
        "set `allow_gpu_sharing: true`, or another isolation",
    ),
    rule(
        "multitenancy.sharing",
        "customers of a tenant do not share GPUs or borrow from each other",
        "use isolation by nodes or cluster, and no borrowing limit",
    ),
    rule(
        "placement.approved_kind",
        "the cluster has the approved kind",
        "submit the request again, so that the other kind is approved",
    ),
    rule(
        "placement.data_residency",
        "a cluster exists where the data may be stored",
        "widen `tenant.data_residency`, or add a cluster there",
    ),
    rule(
        "placement.ever_fits",
        "one cluster has enough GPUs outside its region's buffer",
        "request fewer GPUs, add nodes to a cluster, or lower `capacity.buffer_gpus`",
    ),
    rule(
        "placement.gpu_model",
        "a cluster has GPUs of the model",
        "check the spelling with `tenure clusters list`, or import nodes with the model",
    ),
    rule(
        "placement.isolation",
        "a cluster has the tenancy that the isolation needs",
        "use another isolation, or add a cluster of that tenancy",
    ),
    rule(
        "placement.pins",
        "the cluster is not excluded by a pinned label of the tenant",
        "see `pins` in the policy",
    ),
    rule(
        "placement.readiness",
        "the configuration of the cluster's target is complete for an onboarding",
        "add the setting in the detail to the file of targets, then restart the server",
    ),
    rule("placement.region", "a cluster exists in the region", "use another region, or none"),
    rule(
        "preemption.needed_to_borrow",
        "only workloads that may be preempted borrow",
        "set `allow_preemption: true`, or no borrowing limit",
    ),
    rule(
        "quota.covers_reservations",
        "the quota is not below what is reserved",
        "end reservations first, or lower the quota less",
    ),
    rule("quota.ended", "an exception has ended, and the quota returns to the agreed amount", "nothing"),
    rule(
        "quota.ends_later",
        "only an increase has an end, which is in the future",
        "use a later time, or none",
    ),
    rule(
        "quota.lends_its_own",
        "a workspace lends at most its own quota",
        "set `lending_limit` to at most the quota",
    ),
    rule(
        "quota.lowers",
        "a decrease leads to a lower quota than the present one",
        "use a smaller amount, or request an increase",
    ),
    rule(
        "quota.one_end",
        "a quota has one end at a time",
        "wait until the other exception ends, or end it first",
    ),
    rule(
        "quota.raises",
        "an increase leads to a higher quota than the present one",
        "use a larger amount, or request a decrease",
    ),
    rule(
        "quota.resource",
        "the tenant bought the resource, or quotas limit it",
        "check the spelling with `tenure quotas list`",
    ),
    rule(
        "quota.slices",
        "quotas count slices only where the tenant's GPUs are cut into slices",
        "request `gpus`, or isolation `shared_slices` on a model with slices",
    ),
    rule(
        "quota.unpromised",
        "purchased GPUs outside all workspace quotas form the tenant's pool (a warning)",
        "nothing, or raise the quotas of workspaces",
    ),
    rule(
        "quota.whole",
        "quotas in slices equal whole GPUs if the GPUs are no longer cut into slices",
        "change the quotas to multiples of the slices of one GPU first",
    ),
    rule(
        "quota.within_entitlement",
        "all quotas together do not exceed the purchase",
        "request less, lower another quota first, or request a temporary exception",
    ),
    rule("sla.changes", "the request changes something", "set at least one field to a new value"),
    rule(
        "sla.same_cluster",
        "a tenant stays in its cluster",
        "onboard a new tenant in the other kind of cluster",
    ),
    rule(
        "tenant.active",
        "the tenant is in use",
        "finish its onboarding first; a closed tenant cannot be reopened",
    ),
    rule(
        "tenant.name_free",
        "no tenant has, or had, the name",
        "choose another name; the name of a closed tenant cannot be reused",
    ),
    rule(
        "workspace.known",
        "the tenant has the workspace",
        "check the spelling with `tenure workspaces list`",
    ),
];
