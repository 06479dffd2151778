//! What policy says on admission and lending, resolved.

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

/// How waiting raises a request in its line. One that it cannot raise further is overdue: no younger one borrows before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAging {
    /// After each such span. Default 10 min.
    pub every: Duration,
    /// By so much. Default 1.
    pub priority: u32,
    /// But never by more than this. Default 50.
    pub at_most: u32,
}

/// A threshold of usage that is told and never blocks, in thousandths of the nominal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageThreshold {
    /// Told when usage rises to this.
    pub at: u64,
    /// Armed again when it falls below this.
    pub clear: u64,
}

/// When a borrower that is reclaimed from again and again borrows less for a while (P-9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrashLimits {
    /// So many reclaims for one lender. Default 3.
    pub reclaims: usize,
    /// Within so long. Default 1 h.
    pub within: Duration,
    /// Cut the borrowing limit to so many thousandths. Default 500.
    pub share: u64,
    /// For so long. Default 1 h.
    pub hold: Duration,
}

/// The rules of admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The policy that they come from.
    pub policy: PolicyRef,
    /// Older observations admit nothing (S-41). Default 2 min.
    pub max_staleness: Duration,
    /// Workloads of one workspace that may wait. Default 1,000; never more than [`WorkspaceQueue::MOST`](crate::tenancy::WorkspaceQueue::MOST).
    pub line_limit: u32,
    /// How waiting raises a request.
    pub ageing: QueueAging,
    /// Soft thresholds, lowest first; the first 16 count.
    pub soft: Vec<UsageThreshold>,
    /// Workspaces that may borrow, by class. Default all.
    pub borrowers: BTreeSet<WorkspaceClass>,
    /// Workloads that may borrow, by class. Default batch and interactive (S-59).
    pub borrowing: BTreeSet<WorkloadClass>,
    /// How long a loan lasts at most while somebody waits. Default 24 h.
    pub max_duration: Duration,
    /// How long a loan is safe from being called back. Default none.
    pub min_runtime: Duration,
    /// How long a victim may not borrow again. Default 10 min.
    pub cool_down: Duration,
    /// When a borrower is slowed.
    pub thrash: ThrashLimits,
    /// Who is kept apart.
    pub apart: Vec<AntiColocate>,
    /// What must stay where it is.
    pub pins: Vec<Pin>,
    /// From demand to usable GPUs, where no reservation says. Default 15 min.
    pub reclaim_deadline: Duration,
    /// Between notice and eviction, where no reservation says. Default 2 min.
    pub grace: Duration,
}

impl Rules {
    /// The defaults, as if `policy` said nothing else.
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

    /// Whether workspaces of these classes are kept apart in `region` (S-14): they share no node and lend each other nothing.
    #[must_use]
    pub fn keeps_apart(&self, region: Option<&RegionId>, a: WorkspaceClass, b: WorkspaceClass) -> bool {
        region.is_some_and(|region| self.apart.iter().any(|rule| rule.forbids(region, a, b)))
    }

    /// How much waiting for `waited` has raised a priority, and whether it can raise it no further.
    #[must_use]
    pub fn aged_priority(&self, waited: Duration) -> (u32, bool) {
        let QueueAging { every, priority, at_most } = self.ageing;
        let spans = waited.as_millis().checked_div(every.as_millis()).unwrap_or(0);
        let raised = spans.saturating_mul(u128::from(priority));
        let most = u128::from(at_most);
        (u32::try_from(raised.min(most)).unwrap_or(at_most), priority > 0 && raised >= most)
    }
}

/// Rules that were read lately. A version of a policy never changes, so what was read of it stays true.
static READ: Mutex<Vec<Rules>> = Mutex::new(Vec::new());
/// How many versions are kept.
const KEPT: usize = 4;

impl Rules {
    /// The rules of the policy in force.
    ///
    /// # Errors
    /// What the view lacks; a permanent `policy.invalid`.
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

/// The policy that holds while none was published.
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
