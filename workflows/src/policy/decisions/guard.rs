//! Stops unsafe actions, independent of the requester (S-90).

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{GuardMode, GuardName, Judgement, PlatformPolicy, Reason, RuleName, duration},
    tenancy::Gpus,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An action, with the facts that decide if it is safe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GuardedAction {
    /// A tenant ends.
    EndTenant {
        /// The number of its running workloads with a service level.
        running: u32,
    },
    /// The GPUs of a node are partitioned again.
    ChangeMig {
        /// Allocations on them, and processes observed on them.
        busy: u32,
    },
    /// A node returns to the pool.
    ReleaseNode {
        /// The number of the node's assets.
        assets: u32,
        /// Assets with a passed record newer than the node's last use. Missing, skipped and unknown records do not count.
        passed: u32,
    },
    /// Data of a tenant are destroyed.
    Destroy {
        /// The legal holds on the data.
        holds: Vec<String>,
    },
    /// Loans are reclaimed.
    Reclaim(ReclaimBreadth),
}

/// The size of a reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReclaimBreadth {
    /// The requested GPUs.
    pub asked: Gpus,
    /// GPUs of all victims.
    pub victims: Gpus,
    /// GPUs of the tenant.
    pub tenant: Gpus,
    /// GPUs of the largest victim.
    pub largest: Gpus,
    /// The age of the oldest victim that cannot save its work.
    #[serde(default, with = "duration::text")]
    pub oldest_unsaved: Duration,
}

impl ReclaimBreadth {
    /// The widest possible reclaim. Its approvers are the approvers beyond the guard.
    pub const WIDEST: Self = Self {
        asked: Gpus::ZERO,
        victims: Gpus(u32::MAX),
        tenant: Gpus::ZERO,
        largest: Gpus(u32::MAX),
        oldest_unsaved: Duration::MAX,
    };

    /// A reclaim within every limit. Callers set the known sizes.
    pub const NARROW: Self = Self {
        asked: Gpus(u32::MAX),
        victims: Gpus::ZERO,
        tenant: Gpus(u32::MAX),
        largest: Gpus::ZERO,
        oldest_unsaved: Duration::ZERO,
    };
}

/// A stopped action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The guard.
    pub guard: GuardName,
    /// The mode of the guard: stop, or require an approval.
    pub mode: GuardMode,
    /// The reason, with its place in the policy.
    pub reason: Reason,
}

/// Returns why an action is unsafe; `None` if it is safe. Checked again in the commit of the action, because facts change.
#[must_use]
pub fn blocked(deed: &GuardedAction, policy: &PlatformPolicy) -> Option<Blocked> {
    let (guard, unsafe_because) = match deed {
        GuardedAction::EndTenant { running } => (
            GuardName::EndOfTenantInUse,
            (*running > 0).then(|| format!("{running} workloads of the tenant still run")),
        ),
        GuardedAction::ChangeMig { busy } => (
            GuardName::MigChangeOnBusyGpu,
            (*busy > 0).then(|| format!("{busy} allocations or processes use its GPUs")),
        ),
        GuardedAction::ReleaseNode { assets, passed } => (
            GuardName::NodeReleaseUnsanitised,
            (passed != assets || *assets == 0)
                .then(|| format!("{passed} of {assets} assets are known to be clean")),
        ),
        GuardedAction::Destroy { holds } => (
            GuardName::DestroyUnderHold,
            (!holds.is_empty()).then(|| format!("held by {}", holds.join(", "))),
        ),
        GuardedAction::Reclaim(breadth) => (GuardName::ReclaimWiderThanGuard, too_wide(breadth, policy)),
    };
    let detail = unsafe_because?;
    let (mode, name) = (policy.guards.mode(guard), <&str>::from(guard));
    let rule = guard_rule(guard).as_str().to_owned();
    let verdict = match mode {
        GuardMode::Block => Judgement::Failed,
        GuardMode::Approve => Judgement::AsksPeople,
    };
    let by = policy.provenance.origin(&format!("guards.{name}"));
    let reason = Reason { rule, verdict, detail, line: None, by };
    Some(Blocked { guard, mode, reason })
}

fn guard_rule(guard: GuardName) -> RuleName {
    match guard {
        GuardName::EndOfTenantInUse => const { RuleName::known("guard.end_of_tenant_in_use") },
        GuardName::MigChangeOnBusyGpu => const { RuleName::known("guard.mig_change_on_busy_gpu") },
        GuardName::NodeReleaseUnsanitised => const { RuleName::known("guard.node_release_unsanitised") },
        GuardName::DestroyUnderHold => const { RuleName::known("guard.destroy_under_hold") },
        GuardName::ReclaimWiderThanGuard => const { RuleName::known("guard.reclaim_wider_than_guard") },
    }
}

fn too_wide(breadth: &ReclaimBreadth, policy: &PlatformPolicy) -> Option<String> {
    let broken = self::breadth(breadth, policy).reasons.into_iter().filter(Reason::counts);
    let broken: Vec<String> = broken.map(|reason| reason.detail).collect();
    (!broken.is_empty()).then(|| broken.join("; "))
}

/// Checks the size of a reclaim (P-4). The answer is true if it is within the guard. A value equal to a limit is allowed.
fn breadth(breadth: &ReclaimBreadth, policy: &PlatformPolicy) -> Ruling<bool> {
    let mut scales = ReasonCollector::new(policy);
    judge_breadth(breadth, &mut scales);
    let within = !scales.reasons.iter().any(Reason::counts);
    scales.finish(within)
}

pub(super) fn judge_breadth(breadth: &ReclaimBreadth, scales: &mut ReasonCollector<'_>) {
    let guard = scales.policy.reclaim.guard.clone();
    let ReclaimBreadth { asked, victims, tenant, largest, oldest_unsaved } = *breadth;
    let over = guard.ratio.is_exceeded(victims, asked);
    let detail = format!(
        "{victims} GPUs of victims for {asked} requested GPUs; the limit is a ratio of {}",
        guard.ratio
    );
    scales.ask(const { RuleName::known("reclaim.guard.ratio") }, "reclaim.guard.ratio", over, detail);
    let over = guard.share.is_exceeded(victims, tenant);
    let detail = format!("{victims} of the tenant's {tenant} GPUs; the limit is a share of {}", guard.share);
    scales.ask(const { RuleName::known("reclaim.guard.share") }, "reclaim.guard.share", over, detail);
    let detail = format!("the largest victim has {largest} GPUs; the limit is {}", guard.victim_gpus);
    scales.ask(
        const { RuleName::known("reclaim.guard.victim_gpus") },
        "reclaim.guard.victim_gpus",
        largest > guard.victim_gpus,
        detail,
    );
    let (age, limit) = (duration::show(oldest_unsaved), duration::show(guard.victim_age));
    let detail = format!("the oldest victim that cannot save its work is {age} old; the limit is {limit}");
    let over = oldest_unsaved > guard.victim_age;
    scales.ask(
        const { RuleName::known("reclaim.guard.victim_age") },
        "reclaim.guard.victim_age",
        over,
        detail,
    );
}
