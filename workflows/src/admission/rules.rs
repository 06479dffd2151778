//! What policy says on admission and lending, resolved.

use crate::{
    policy::PolicyRef,
    tenancy::{ClusterId, RegionId, WorkloadClass, WorkspaceClass},
};
use engine::{Undecided, View};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// How waiting raises a request in its line. One that it cannot raise further is overdue: no younger one borrows before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ageing {
    /// After each such span. Default 10 min.
    pub every: Duration,
    /// By so much. Default 1.
    pub priority: u32,
    /// But never by more than this. Default 50.
    pub at_most: u32,
}

/// A threshold of usage that is told and never blocks, in thousandths of the nominal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Soft {
    /// Told when usage rises to this.
    pub at: u64,
    /// Armed again when it falls below this.
    pub clear: u64,
}

/// When a borrower that is reclaimed from again and again borrows less for a while (P-9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thrash {
    /// So many reclaims for one lender. Default 3.
    pub reclaims: usize,
    /// Within so long. Default 1 h.
    pub within: Duration,
    /// Cut the borrowing limit to so many thousandths. Default 500.
    pub share: u64,
    /// For so long. Default 1 h.
    pub hold: Duration,
}

/// Two classes of workspaces that may not share a node, nor lend to each other, in a region or in all (S-14).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// Where; `None` everywhere.
    pub region: Option<RegionId>,
    /// One class.
    pub a: WorkspaceClass,
    /// The other.
    pub b: WorkspaceClass,
}

/// Work with a label that must stay in one cluster (S-13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The label.
    pub label: String,
    /// The cluster.
    pub cluster: ClusterId,
}

/// The rules of admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The policy that they come from.
    pub policy: PolicyRef,
    /// Older observations admit nothing (S-41). Default 2 min.
    pub max_staleness: Duration,
    /// Workloads of one workspace that may wait. Default 1,000; never more than [`Line::MOST`](crate::tenancy::Line::MOST).
    pub line_limit: u32,
    /// How waiting raises a request.
    pub ageing: Ageing,
    /// Soft thresholds, lowest first; the first 16 count.
    pub soft: Vec<Soft>,
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
    pub thrash: Thrash,
    /// Who is kept apart.
    pub apart: Vec<Apart>,
    /// What must stay where it is.
    pub pins: Vec<Pin>,
    /// GPUs of each kind that borrowers leave free on a tenant's nodes (S-119). Default none.
    pub buffer: u64,
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
            ageing: Ageing { every: 10 * MINUTE, priority: 1, at_most: 50 },
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
            thrash: Thrash { reclaims: 3, within: HOUR, share: 500, hold: HOUR },
            apart: Vec::new(),
            pins: Vec::new(),
            buffer: 0,
            reclaim_deadline: 15 * MINUTE,
            grace: 2 * MINUTE,
        }
    }

    /// Whether workspaces of these classes are kept apart in `region`.
    #[must_use]
    pub fn keeps_apart(&self, region: Option<&RegionId>, a: WorkspaceClass, b: WorkspaceClass) -> bool {
        let here = |rule: &Apart| rule.region.is_none() || rule.region.as_ref() == region;
        let pair = |rule: &Apart| (rule.a, rule.b) == (a, b) || (rule.b, rule.a) == (a, b);
        self.apart.iter().any(|rule| here(rule) && pair(rule))
    }

    /// How much waiting for `waited` has raised a priority, and whether it can raise it no further.
    #[must_use]
    pub fn raised(&self, waited: Duration) -> (u32, bool) {
        let Ageing { every, priority, at_most } = self.ageing;
        let spans = waited.as_millis().checked_div(every.as_millis()).unwrap_or(0);
        let raised = spans.saturating_mul(u128::from(priority));
        let most = u128::from(at_most);
        (u32::try_from(raised.min(most)).unwrap_or(at_most), priority > 0 && raised >= most)
    }
}

impl Rules {
    /// The rules of the policy in force.
    ///
    /// # Errors
    /// What the view lacks; a permanent `policy.invalid`.
    pub fn in_force(view: &mut View) -> Result<Self, Undecided> {
        Ok(Self::new(crate::policy::in_force(view)?.reference))
    }
}
