//! The rules of the decision points, used by workflows, admission and examples.

use super::{APPROVERS, Rule, rule};

/// The rules, by name.
pub(super) const RULES: &[Rule] = &[
    rule(
        "approval.capacity",
        "an increase of more than a share of what is free is a question for the capacity manager",
        APPROVERS,
    ),
    rule(
        "approval.capacity_rung",
        "a rung of the ladder against exhausted capacity asks the people that policy names for it",
        APPROVERS,
    ),
    rule("approval.destroy", "the destruction of an inventory is always a question for people", APPROVERS),
    rule("approval.incident", "a remedy that disturbs tenants' work is a question for people", APPROVERS),
    rule("approval.offboard", "the end of a tenant is always a question for people", APPROVERS),
    rule("approval.quota_decrease", "a quota below what is in use is a question for people", APPROVERS),
    rule(
        "approval.quota_increase",
        "an increase above the automatic limits is a question for people",
        APPROVERS,
    ),
    rule("approval.reclaim", "a reclaim that is wider than the guard is a question for people", APPROVERS),
    rule(
        "capacity.burst_cap",
        "a cloud burst costs at most the cap of the policy",
        "burst less, or raise `capacity.burst_cap_cents_per_month`",
    ),
    rule(
        "capacity.ladder",
        "the ladder of the tier has a rung that was not tried yet",
        "nothing: when all rungs were tried, requests wait and their owners are told",
    ),
    rule(
        "capacity.lasting",
        "too little has been free for as long as the policy allows",
        "nothing: the exhaustion workflow begins; see `capacity.lasting`",
    ),
    rule(
        "capacity.oldest_waiter",
        "the oldest request on the waitlist has waited for longer than the policy allows",
        "nothing: the exhaustion workflow begins; see `capacity.oldest_waiter`",
    ),
    rule(
        "capacity.rung",
        "the rung is on the ladder of the tenant's tier",
        "take a rung that `capacity.ladder` has for the tier",
    ),
    rule(
        "capacity.threshold",
        "less is free beside the buffer than the threshold",
        "nothing, or add nodes; see `capacity.threshold`",
    ),
    rule(
        "gpu_models.whole",
        "GPUs are asked for in whole numbers",
        "ask for whole GPUs, or for the slices that the answer names",
    ),
    rule("guard.destroy_under_hold", "nothing under a legal hold is destroyed", "release the hold first"),
    rule(
        "guard.end_of_tenant_in_use",
        "a tenant does not end while its work runs",
        "let its workloads end first, or ask the approvers where the guard is `approve`",
    ),
    rule(
        "guard.mig_change_on_busy_gpu",
        "GPUs in use are not cut into other slices",
        "wait until nothing runs on the GPUs",
    ),
    rule(
        "guard.node_release_unsanitised",
        "a node goes back to the pool only when every asset of it is known to be clean",
        "sanitise the assets that lack a record",
    ),
    rule(
        "guard.reclaim_wider_than_guard",
        "a reclaim disturbs no more than the guard allows",
        "ask for fewer GPUs, or ask the approvers where the guard is `approve`",
    ),
    rule(
        "lending.anti_colocate",
        "classes that policy keeps apart do not lend to each other",
        "ask for the workspace's own quota, or see `lending.anti_colocate`",
    ),
    rule(
        "lending.class",
        "the class of the workspace may borrow",
        "ask for the workspace's own quota, or see `lending.classes`",
    ),
    rule(
        "lending.preemptible",
        "work that borrows may be preempted, so that it can be called back",
        "set `preemptible: true` where the tenant allows it, or ask for the workspace's own quota",
    ),
    rule(
        "lending.workload",
        "the kind of work may run on what is borrowed",
        "ask for the workspace's own quota, or see `lending.workloads`",
    ),
    rule(
        "limits.max_replacements",
        "an onboarding replaces at most so many unfit nodes",
        "fix the unfit nodes, or raise `limits.max_replacements`",
    ),
    rule(
        "placement.anti_colocate",
        "no class runs in the cluster that policy keeps apart from this one",
        "ask for another region or cluster, or see `lending.anti_colocate`",
    ),
    rule("priorities", "the priority class of the tier; it never fails", "nothing"),
    rule(
        "quota.within_owned",
        "the quotas come to at most what the tenant owns, where policy does not overcommit",
        "ask for less, or let more nodes be claimed",
    ),
    rule(
        "reclaim.deadline",
        "lent GPUs are back within the deadline",
        "nothing: operators are told of a deadline that was missed",
    ),
    rule(
        "reclaim.guard.ratio",
        "the victims' GPUs are at most so many for each GPU that was asked for",
        APPROVERS,
    ),
    rule("reclaim.guard.share", "the victims' GPUs are at most a share of the tenant's", APPROVERS),
    rule("reclaim.guard.victim_age", "work that cannot be saved is not older than the limit", APPROVERS),
    rule("reclaim.guard.victim_gpus", "no victim has more GPUs than the limit", APPROVERS),
    rule(
        "reclaim.replans",
        "a stale plan of a reclaim is made again at most so often",
        "nothing: operators are told when the plans are used up",
    ),
    rule(
        "reclaim.scrub",
        "the least that is done to GPU memory before it changes hands; it never fails",
        "nothing",
    ),
    rule(
        "retention.class",
        "a rule of retention knows the class of data",
        "add a rule to `retention`, or classify the data",
    ),
    rule(
        "retention.hold",
        "a legal hold keeps the data, whatever the rules of retention say",
        "release the hold first",
    ),
    rule(
        "sanitisation.attempts",
        "a medium is cleaned in at most so many automatic attempts",
        "look at the medium: its node is in quarantine",
    ),
    rule(
        "scheduling.reclaim_within_cohort",
        "what a queue may call back from borrowers; it never fails",
        "nothing",
    ),
    rule("scheduling.within_cluster_queue", "what a queue may preempt of its own; it never fails", "nothing"),
    rule(
        "sharing.consent",
        "one GPU is shared between workspaces only where the tenant allows it",
        "ask for whole GPUs, or set isolation `shared_slices` and `allow_gpu_sharing: true`",
    ),
    rule(
        "waits.waitlist",
        "a request waits for capacity at most so long",
        "nothing: people are asked whether it waits on",
    ),
];
