//! The rules of the decision points, used by workflows, admission and examples.

use super::{APPROVERS, Rule, rule};

/// The rules, by name.
pub(super) const RULES: &[Rule] = &[
    rule(
        "approval.capacity",
        "an increase above a share of the free capacity needs the capacity manager's approval",
        APPROVERS,
    ),
    rule(
        "approval.capacity_rung",
        "a measure against exhausted capacity needs the approvers that the policy sets for it",
        APPROVERS,
    ),
    rule("approval.destroy", "the destruction of an inventory always needs approval", APPROVERS),
    rule("approval.incident", "a remedy that disturbs workloads of tenants needs approval", APPROVERS),
    rule("approval.offboard", "the end of a tenant always needs approval", APPROVERS),
    rule("approval.quota_decrease", "a quota below the present usage needs approval", APPROVERS),
    rule("approval.quota_increase", "an increase above the automatic limits needs approval", APPROVERS),
    rule("approval.reclaim", "a reclaim that exceeds the guard needs approval", APPROVERS),
    rule(
        "capacity.burst_cap",
        "a cloud burst costs at most the cap of the policy",
        "burst less, or raise `capacity.burst_cap_cents_per_month`",
    ),
    rule(
        "capacity.ladder",
        "the tier's ladder has a measure that was not tried yet",
        "nothing: after all measures were tried, requests wait, and their owners are notified",
    ),
    rule(
        "capacity.lasting",
        "too little has been free for as long as the policy allows",
        "nothing: the workflow `capacity_exhaustion` starts; see `capacity.lasting`",
    ),
    rule(
        "capacity.oldest_waiter",
        "the oldest request on the waitlist has waited for longer than the policy allows",
        "nothing: the workflow `capacity_exhaustion` starts; see `capacity.oldest_waiter`",
    ),
    rule(
        "capacity.rung",
        "the measure is on the ladder of the tenant's tier",
        "choose a measure that `capacity.ladder` has for the tier",
    ),
    rule(
        "capacity.threshold",
        "the free capacity outside the buffer is below the threshold",
        "nothing, or add nodes; see `capacity.threshold`",
    ),
    rule(
        "gpu_models.whole",
        "GPUs are requested in whole numbers",
        "request whole GPUs, or the slices that the answer names",
    ),
    rule("guard.destroy_under_hold", "data under a legal hold is not destroyed", "release the hold first"),
    rule(
        "guard.end_of_tenant_in_use",
        "a tenant does not end while its workloads run",
        "let its workloads end first; if the guard is `approve`, an approval also suffices",
    ),
    rule(
        "guard.mig_change_on_busy_gpu",
        "the slices of a GPU in use are not changed",
        "wait until no workload runs on the GPUs",
    ),
    rule(
        "guard.node_release_unsanitised",
        "a node returns to the pool only if every asset of it has a valid record of sanitisation",
        "sanitise the assets without a valid record",
    ),
    rule(
        "guard.reclaim_wider_than_guard",
        "a reclaim does not exceed the guard",
        "request fewer GPUs; if the guard is `approve`, an approval also suffices",
    ),
    rule(
        "lending.anti_colocate",
        "classes that the policy keeps apart do not lend to each other",
        "stay within the workspace's own quota, or see `lending.anti_colocate`",
    ),
    rule(
        "lending.class",
        "the class of the workspace may borrow",
        "stay within the workspace's own quota, or see `lending.classes`",
    ),
    rule(
        "lending.preemptible",
        "a workload that borrows may be preempted, so that its GPUs can be reclaimed",
        "set `preemptible: true` if the tenant allows preemption, or stay within the workspace's own quota",
    ),
    rule(
        "lending.workload",
        "the class of the workload may run on borrowed GPUs",
        "stay within the workspace's own quota, or see `lending.workloads`",
    ),
    rule(
        "limits.max_replacements",
        "an onboarding replaces a limited number of unfit nodes",
        "fix the unfit nodes, or raise `limits.max_replacements`",
    ),
    rule(
        "placement.anti_colocate",
        "no class runs in the cluster that the policy keeps apart from this one",
        "choose another region or cluster, or see `lending.anti_colocate`",
    ),
    rule("priorities", "the priority class of the tier; it never fails", "nothing"),
    rule(
        "quota.within_owned",
        "without overcommit, the quotas together are at most what the tenant owns",
        "request less, or let more nodes be claimed",
    ),
    rule(
        "reclaim.deadline",
        "lent GPUs are returned within the deadline",
        "nothing: operators are notified of a missed deadline",
    ),
    rule("reclaim.guard.ratio", "a reclaim evicts a limited number of GPUs per requested GPU", APPROVERS),
    rule("reclaim.guard.share", "a reclaim evicts at most a share of the tenant's GPUs", APPROVERS),
    rule(
        "reclaim.guard.victim_age",
        "a victim that cannot save its work is not older than the limit",
        APPROVERS,
    ),
    rule("reclaim.guard.victim_gpus", "no victim has more GPUs than the limit", APPROVERS),
    rule(
        "reclaim.replans",
        "a stale plan of a reclaim is replaced a limited number of times",
        "nothing: operators are notified after the last plan",
    ),
    rule("reclaim.scrub", "the minimum scrub of GPU memory before its next user; it never fails", "nothing"),
    rule(
        "retention.class",
        "a retention rule covers the class of data",
        "add a rule to `retention`, or classify the data",
    ),
    rule(
        "retention.hold",
        "a legal hold keeps the data, even if a retention rule would not",
        "release the hold first",
    ),
    rule(
        "sanitisation.attempts",
        "a medium is cleaned in a limited number of automatic attempts",
        "check the medium: its node is in quarantine",
    ),
    rule("scheduling.reclaim_within_cohort", "when a queue may preempt borrowers; it never fails", "nothing"),
    rule(
        "scheduling.within_cluster_queue",
        "when a queue may preempt its own workloads; it never fails",
        "nothing",
    ),
    rule(
        "sharing.consent",
        "workspaces share a GPU only if the tenant allows it",
        "request whole GPUs, or set isolation `shared_slices` and `allow_gpu_sharing: true`",
    ),
    rule(
        "waits.waitlist",
        "a request waits for capacity for a limited time",
        "nothing: operators decide whether it continues to wait",
    ),
];
