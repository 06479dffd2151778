//! The rules of policy for admission and lending, resolved.

use crate::{
    policy::{AntiColocate, Pin, PlatformPolicy, PolicyInForce, PolicyRef, SoftThreshold},
    tenancy::{RegionId, WorkloadClass, WorkspaceClass},
};
use engine::{Undecided, View};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    sync::{Mutex, OnceLock},
    time::Duration,
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Aging: a wait raises the priority of a queued request. At the maximum the request is overdue: no younger one borrows before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAging {
    /// The interval of one raise. Default 10 min.
    pub every: Duration,
    /// The raise per interval. Default 1.
    pub priority: u32,
    /// The maximum raise. Default 50.
    pub at_most: u32,
}

/// A soft threshold of usage, in thousandths of the nominal quota. It raises a notice and never blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageThreshold {
    /// Usage at or above this raises a notice.
    pub at: u64,
    /// Usage below this arms the threshold again.
    pub clear: u64,
}

/// Limits for a borrower that is reclaimed repeatedly: it borrows less for a while (P-9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrashLimits {
    /// The number of reclaims for one lender. Default 3.
    pub reclaims: usize,
    /// The window in which reclaims are counted. Default 1 h.
    pub within: Duration,
    /// The reduced borrowing limit, in thousandths of the limit. Default 500.
    pub share: u64,
    /// The duration of the reduction. Default 1 h.
    pub hold: Duration,
}

/// The rules of admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The policy version of these rules.
    pub policy: PolicyRef,
    /// Older observations admit nothing (S-41). Default 2 min.
    pub max_staleness: Duration,
    /// The most queued workloads of one workspace. Default 1,000; never more than [`WorkspaceQueue::MOST`](crate::tenancy::WorkspaceQueue::MOST).
    pub line_limit: u32,
    /// Aging of queued requests.
    pub ageing: QueueAging,
    /// Soft thresholds, lowest first; only the first 16 count.
    pub soft: Vec<UsageThreshold>,
    /// Classes of workspaces that may borrow. Default all.
    pub borrowers: BTreeSet<WorkspaceClass>,
    /// Classes of workloads that may borrow. Default batch and interactive (S-59).
    pub borrowing: BTreeSet<WorkloadClass>,
    /// The longest duration of a loan while another workload waits. Default 24 h.
    pub max_duration: Duration,
    /// The time before a loan can be reclaimed. Default none.
    pub min_runtime: Duration,
    /// The time for which a victim may not borrow again. Default 10 min.
    pub cool_down: Duration,
    /// Limits for borrowers that are reclaimed repeatedly.
    pub thrash: ThrashLimits,
    /// Classes that may not share nodes or loans.
    pub apart: Vec<AntiColocate>,
    /// Workloads that must not be moved.
    pub pins: Vec<Pin>,
    /// The time from a demand to usable GPUs, unless a reservation sets it. Default 15 min.
    pub reclaim_deadline: Duration,
    /// The time between notice and eviction, unless a reservation sets it. Default 2 min.
    pub grace: Duration,
}

impl Rules {
    /// Returns the defaults under the name of `policy`.
    #[must_use]
    pub fn new(policy: PolicyRef) -> Self {
        Self {
            policy,
            max_staleness: 2 * MINUTE,
            line_limit: 1_000,
            ageing: QueueAging { every: 10 * MINUTE, priority: 1, at_most: 50 },
            soft: Vec::new(),
            borrowers: [
                WorkspaceClass::Production,
                WorkspaceClass::Research,
                WorkspaceClass::Batch,
                WorkspaceClass::Dev,
            ]
            .into(),
            borrowing: [WorkloadClass::Batch, WorkloadClass::Interactive].into(),
            max_duration: 24 * HOUR,
            min_runtime: Duration::ZERO,
            cool_down: 10 * MINUTE,
            thrash: ThrashLimits { reclaims: 3, within: HOUR, share: 500, hold: HOUR },
            apart: Vec::new(),
            pins: Vec::new(),
            reclaim_deadline: 15 * MINUTE,
            grace: 2 * MINUTE,
        }
    }

    /// Returns true if policy separates workspaces of these classes in `region` (S-14): they share no node and lend each other nothing.
    #[must_use]
    pub fn keeps_apart(&self, region: Option<&RegionId>, a: WorkspaceClass, b: WorkspaceClass) -> bool {
        region.is_some_and(|region| self.apart.iter().any(|rule| rule.forbids(region, a, b)))
    }

    /// Returns the raise of the priority after `waited`, and true if it is the maximum.
    #[must_use]
    pub fn aged_priority(&self, waited: Duration) -> (u32, bool) {
        let QueueAging { every, priority, at_most } = self.ageing;
        let spans = waited.as_millis().checked_div(every.as_millis()).unwrap_or(0);
        let raised = spans.saturating_mul(u128::from(priority));
        let most = u128::from(at_most);
        (u32::try_from(raised.min(most)).unwrap_or(at_most), priority > 0 && raised >= most)
    }
}

/// Recently read rules. A version of a policy never changes, so cached rules stay valid.
static READ: Mutex<Vec<Rules>> = Mutex::new(Vec::new());
/// The number of cached versions.
const KEPT: usize = 4;

impl Rules {
    /// Returns the rules of the policy in force.
    ///
    /// # Errors
    /// Undecided until the view has loaded every needed document; permanent `policy.invalid`.
    pub fn in_force(view: &mut View) -> Result<Self, Undecided> {
        let head = view.get::<PolicyInForce>(PlatformPolicy::NAME)?;
        let reference = match &head {
            Some(head) => Some(head.reference.clone()),
            None => BUILT_IN.get().cloned(),
        };
        let read = |rules: &&Self| Some(&rules.policy) == reference.as_ref();
        if let Ok(kept) = READ.lock()
            && let Some(rules) = kept.iter().find(read)
        {
            return Ok(rules.clone());
        }
        let rules = Self::from(&crate::policy::in_force(view)?);
        if head.is_none() {
            BUILT_IN.get_or_init(|| rules.policy.clone());
        }
        if let Ok(mut kept) = READ.lock() {
            kept.insert(0, rules.clone());
            kept.truncate(KEPT);
        }
        Ok(rules)
    }
}

/// The built-in policy, used until a version is published.
static BUILT_IN: OnceLock<PolicyRef> = OnceLock::new();

impl From<&PlatformPolicy> for Rules {
    fn from(policy: &PlatformPolicy) -> Self {
        let (lending, admission) = (&policy.lending, &policy.admission);
        let soft = |soft: &SoftThreshold| UsageThreshold {
            at: soft.at.thousandths.into(),
            clear: soft.clear.thousandths.into(),
        };
        let thrash = &lending.thrash;
        Self {
            max_staleness: admission.max_staleness,
            line_limit: admission.line_limit,
            ageing: QueueAging {
                every: admission.ageing.every,
                priority: admission.ageing.priority,
                at_most: admission.ageing.at_most,
            },
            soft: admission.soft.iter().map(soft).collect(),
            borrowers: lending.classes.clone(),
            borrowing: lending.workloads.clone(),
            max_duration: lending.max_duration,
            min_runtime: lending.min_runtime,
            cool_down: lending.cool_down,
            thrash: ThrashLimits {
                reclaims: usize::try_from(thrash.reclaims).unwrap_or(usize::MAX),
                within: thrash.within,
                share: thrash.limit_share.thousandths.into(),
                hold: thrash.hold,
            },
            apart: lending.anti_colocate.clone(),
            pins: policy.pins.clone(),
            reclaim_deadline: policy.reclaim.deadline,
            grace: policy.reclaim.grace,
            ..Self::new(policy.reference.clone())
        }
    }
}
