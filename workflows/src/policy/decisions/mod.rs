//! The decision points (S-66): permission, clusters, amount, approval, isolation, failure and retention.
//!
//! Each is a pure function of facts and policy, so that a recorded decision can be repeated. Each checked rule becomes a [`Reason`] with its place in the
//! policy. Onboarding combines several of them in [`crate::policy::evaluate`]. [`crate::policy::PolicyQuestion`] is any of them as data, and
//! [`crate::policy::RecordedRuling`] is a recorded one.

mod approval;
mod clusters;
mod exhaustion;
mod failure;
mod guard;
mod isolation;
mod permission;
mod quota_amount;
mod retention;
mod schedulers;

pub use approval::{Approval, ApprovalFor, approval};
pub use clusters::{ClusterChoiceFacts, EligibleClusters, classes_apart, eligible_clusters};
pub use exhaustion::{CapacityFacts, has_recovered, is_exhausted, is_scarce};
pub use failure::{Failure, Remedy, on_failure};
pub use guard::{Blocked, GuardedAction, ReclaimBreadth, blocked};
pub use isolation::{
    IsolationFacts, IsolationPart, IsolationRules, gpu_layout, isolation, isolation_probes, scrub_method,
};
pub use permission::{
    BorrowRefusal, Borrower, Permission, PermissionFacts, Sharing, borrow_refusals, decide_permission,
};
pub use quota_amount::{GrantedAmount, QuotaAmountFacts, decide_quota_amount};
pub use retention::{
    RetentionFacts, RetentionPeriod, RetentionRuling, decide_retention, retention_covers, retention_period,
};
pub(in crate::policy) use schedulers::sharing_limits;
pub use schedulers::{
    Change, Observed, QueueSettings, SchedulerFacts, SchedulerSettings, changes, schedulers,
};

use super::{Judgement, PlatformPolicy, Reason, RuleName};

/// A decision with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling<T> {
    /// The answer.
    pub answer: T,
    /// Every checked rule, in order.
    pub reasons: Vec<Reason>,
}

/// Collects reasons, each with its place in the policy.
struct ReasonCollector<'a> {
    policy: &'a PlatformPolicy,
    reasons: Vec<Reason>,
}

impl<'a> ReasonCollector<'a> {
    fn new(policy: &'a PlatformPolicy) -> Self {
        Self { policy, reasons: Vec::new() }
    }

    /// Records the judgement of a rule at `key` in the policy.
    fn note(&mut self, rule: RuleName, key: &str, verdict: Judgement, detail: impl Into<String>) {
        let by = self.policy.provenance.origin(key);
        self.reasons.push(Reason {
            rule: rule.as_str().into(),
            verdict,
            detail: detail.into(),
            line: None,
            by,
        });
    }

    /// Records a rule as passed or failed.
    fn check(&mut self, rule: RuleName, key: &str, holds: bool, detail: impl Into<String>) {
        self.note(rule, key, if holds { Judgement::Passed } else { Judgement::Failed }, detail);
    }

    /// Records if a rule requires an approval.
    fn ask(&mut self, rule: RuleName, key: &str, asks: bool, detail: impl Into<String>) {
        self.note(rule, key, if asks { Judgement::AsksPeople } else { Judgement::Passed }, detail);
    }

    fn failed(&self) -> bool {
        self.reasons.iter().any(|reason| reason.verdict == Judgement::Failed)
    }

    fn finish<T>(self, answer: T) -> Ruling<T> {
        Ruling { answer, reasons: self.reasons }
    }
}
