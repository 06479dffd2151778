//! The rules of decisions on requests: onboarding, quota change and SLA change.

use super::{APPROVERS, Rule, rule};

/// The rules, by name.
pub(super) const RULES: &[Rule] = &[
    rule("approval.auto_limit", "an increase up to the limit of the policy needs no people", APPROVERS),
    rule(
        "approval.capacity_share",
        "a large share of the free capacity is a question for the capacity manager",
        APPROVERS,
    ),
    rule("approval.compliance", "a request with compliance tags is a question for security", APPROVERS),
    rule("approval.in_use", "a quota below what is in use is a question for people", APPROVERS),
    rule("approval.other_limits", "other lending or borrowing limits are a question for people", APPROVERS),
    rule("approval.price", "a price above the threshold is a question for finance", APPROVERS),
    rule("approval.self_service", "a small request of a tier with self-service needs no people", APPROVERS),
    rule("approval.sla_change", "another service level is a question for people", APPROVERS),
    rule(
        "capacity.ever_fits",
        "the GPUs that are lacking exist in the tenant's cluster",
        "ask for fewer GPUs, or add nodes",
    ),
    rule("capacity.owned", "what the tenant owns and what is lacking; it never fails", "nothing"),
    rule(
        "compliance.isolation",
        "the isolation is one that the compliance tags demand",
        "ask for one of the isolation levels that the detail names",
    ),
    rule(
        "compliance.residency",
        "the data residency lies within what the compliance tags demand",
        "narrow `tenant.data_residency`",
    ),
    rule(
        "entitlement.not_ended",
        "the contract ends after today",
        "set `entitlement.to` to a later day; it is the day after the last",
    ),
    rule(
        "gpu_models.ecc",
        "customers of a tenant get a GPU model whose memory corrects errors",
        "ask for another model, or add the model to `gpu_models`",
    ),
    rule(
        "gpu_models.mig_profile",
        "the GPUs can be cut into the slices that were asked for",
        "ask for a profile that the model has in `gpu_models`, or for whole GPUs",
    ),
    rule(
        "isolation.sharing_allowed",
        "slices are shared only where GPU sharing is allowed",
        "set `allow_gpu_sharing: true`, or another isolation",
    ),
    rule(
        "multitenancy.sharing",
        "customers of a tenant share no GPU and borrow nothing",
        "ask for nodes or a cluster, and no borrowing limit",
    ),
    rule(
        "placement.approved_kind",
        "the cluster is of the kind that was approved",
        "ask again, so that the other kind is approved",
    ),
    rule(
        "placement.data_residency",
        "a cluster lies where the data may be",
        "widen `tenant.data_residency`, or add a cluster there",
    ),
    rule(
        "placement.ever_fits",
        "the GPUs fit in one cluster, beside what its region keeps back",
        "ask for fewer GPUs, add nodes to a cluster, or lower `capacity.buffer_gpus`",
    ),
    rule(
        "placement.gpu_model",
        "a cluster has GPUs of the model",
        "check the spelling with `tenure clusters list`, or import nodes with the model",
    ),
    rule(
        "placement.isolation",
        "a cluster has the tenancy that the isolation needs",
        "ask for another isolation, or add a cluster of that tenancy",
    ),
    rule(
        "placement.pins",
        "the cluster is the one that the tenant's labels are pinned to",
        "see `pins` in the policy",
    ),
    rule(
        "placement.readiness",
        "the target of the cluster has what an onboarding needs",
        "set what the detail names in the file of targets, then restart the server",
    ),
    rule("placement.region", "a cluster lies in the region", "ask for another region, or none"),
    rule(
        "preemption.needed_to_borrow",
        "only work that may be preempted borrows",
        "set `allow_preemption: true`, or no borrowing limit",
    ),
    rule(
        "quota.covers_reservations",
        "the quota is not below what is reserved",
        "end reservations first, or lower the quota less",
    ),
    rule("quota.ended", "an exception has ended, and the quota goes back to what was agreed", "nothing"),
    rule(
        "quota.ends_later",
        "an end lies in the future, and only an increase has one",
        "name a later moment, or none",
    ),
    rule(
        "quota.lends_its_own",
        "a workspace lends at most its own quota",
        "set `lending_limit` to at most the quota",
    ),
    rule(
        "quota.lowers",
        "a decrease leads to less than there is",
        "name a smaller amount, or ask for an increase",
    ),
    rule(
        "quota.one_end",
        "a quota has one end at a time",
        "wait until the other exception ends, or end it first",
    ),
    rule(
        "quota.raises",
        "an increase leads to more than there is",
        "name a larger amount, or ask for a decrease",
    ),
    rule(
        "quota.resource",
        "the resource is one that the tenant bought or that quotas limit",
        "check the spelling with `tenure quotas list`",
    ),
    rule(
        "quota.slices",
        "quotas count slices only where the tenant's GPUs are cut into slices",
        "ask for `gpus`, or for isolation `shared_slices` on a model that can be cut",
    ),
    rule(
        "quota.unpromised",
        "GPUs that are bought and promised to no workspace are the tenant's pool (a warning)",
        "nothing, or raise the quotas of workspaces to promise them",
    ),
    rule(
        "quota.whole",
        "quotas in slices come to whole GPUs when the GPUs are no longer cut",
        "change the quotas to multiples of the slices of one GPU first",
    ),
    rule(
        "quota.within_entitlement",
        "all quotas together are at most what was bought",
        "ask for less, lower another quota first, or ask for an exception with an end",
    ),
    rule("sla.changes", "the request changes something", "name what is to change"),
    rule(
        "sla.same_cluster",
        "a tenant stays in its cluster",
        "onboard a new tenant in the other kind of cluster",
    ),
    rule(
        "tenant.active",
        "the tenant is in use",
        "finish its onboarding first; a closed tenant does not come back",
    ),
    rule(
        "tenant.name_free",
        "no tenant has or had the name",
        "choose another name; that of a closed tenant is not used again",
    ),
    rule(
        "workspace.known",
        "the tenant has the workspace",
        "check the spelling with `tenure workspaces list`",
    ),
];
