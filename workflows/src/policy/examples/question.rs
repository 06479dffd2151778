//! A decision as data: a question that can be answered, recorded and repeated.

use crate::policy::{
    Judgement, OnboardingEvaluation, OnboardingFacts, PlatformPolicy, PolicyRef, RuleName,
    decisions::{
        Approval, ApprovalFor, Blocked, CapacityFacts, ClusterChoiceFacts, EligibleClusters, Failure,
        GrantedAmount, GuardedAction, IsolationFacts, IsolationRules, Permission, PermissionFacts,
        QuotaAmountFacts, Remedy, RetentionFacts, RetentionRuling, Ruling, SchedulerFacts, SchedulerSettings,
        approval, blocked, decide_permission, decide_quota_amount, decide_retention, eligible_clusters,
        is_exhausted, isolation, on_failure, schedulers,
    },
    evaluate, sha256,
};
use engine::{Entity, Seat};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// A question to policy, with all facts that its answer depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyQuestion {
    /// May a tenant be onboarded? Combines several other questions.
    Onboarding(OnboardingFacts),
    /// May a workload run?
    Who(PermissionFacts),
    /// Which clusters are eligible?
    Where(ClusterChoiceFacts),
    /// How large may a quota be?
    HowMuch(QuotaAmountFacts),
    /// Is an approval required?
    Approval(ApprovalFor),
    /// How is a tenant isolated?
    Isolation(IsolationFacts),
    /// What is the remedy of a failure?
    Failure(Failure),
    /// How long are data kept?
    Retention(RetentionFacts),
    /// Is an action safe?
    Guard(GuardedAction),
    /// What are the scheduler settings?
    Schedulers(SchedulerFacts),
    /// Is capacity exhausted?
    Capacity(CapacityFacts),
}

/// An answer of policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyAnswer {
    /// The decision on an onboarding.
    Onboarding(Box<OnboardingEvaluation>),
    /// The permission of a workload.
    Who(Permission),
    /// The eligible clusters.
    Where(EligibleClusters),
    /// The granted quota.
    HowMuch(GrantedAmount),
    /// The required approval.
    Approval(Approval),
    /// The isolation.
    Isolation(IsolationRules),
    /// The remedy of a failure.
    Failure(Remedy),
    /// The retention of data.
    Retention(RetentionRuling),
    /// The reason why an action is stopped; `None` if it is safe.
    Guard(Option<Blocked>),
    /// The scheduler settings.
    Schedulers(SchedulerSettings),
    /// True if exhausted capacity needs a remedy.
    Capacity(bool),
}

/// Answers `question` by `policy`. Equal input always gives an equal answer (I-20).
#[must_use]
pub fn rule(question: &PolicyQuestion, policy: &PlatformPolicy) -> Ruling<PolicyAnswer> {
    match question {
        PolicyQuestion::Onboarding(facts) => {
            let evaluation = evaluate(facts, policy);
            let reasons = evaluation.reasons.clone();
            Ruling { answer: PolicyAnswer::Onboarding(Box::new(evaluation)), reasons }
        }
        PolicyQuestion::Who(facts) => decide_permission(facts, policy).map(PolicyAnswer::Who),
        PolicyQuestion::Where(facts) => eligible_clusters(facts, policy).map(PolicyAnswer::Where),
        PolicyQuestion::HowMuch(facts) => decide_quota_amount(facts, policy).map(PolicyAnswer::HowMuch),
        PolicyQuestion::Approval(ask) => approval(ask, policy).map(PolicyAnswer::Approval),
        PolicyQuestion::Isolation(facts) => isolation(facts, policy).map(PolicyAnswer::Isolation),
        PolicyQuestion::Failure(failure) => on_failure(failure, policy).map(PolicyAnswer::Failure),
        PolicyQuestion::Retention(facts) => decide_retention(facts, policy).map(PolicyAnswer::Retention),
        PolicyQuestion::Guard(deed) => {
            let stopped = blocked(deed, policy);
            let reasons = stopped.iter().map(|stopped| stopped.reason.clone()).collect();
            Ruling { answer: PolicyAnswer::Guard(stopped), reasons }
        }
        PolicyQuestion::Schedulers(facts) => schedulers(facts, policy).map(PolicyAnswer::Schedulers),
        PolicyQuestion::Capacity(facts) => is_exhausted(facts, policy).map(PolicyAnswer::Capacity),
    }
}

impl<T> Ruling<T> {
    fn map<U>(self, wrap: impl FnOnce(T) -> U) -> Ruling<U> {
        Ruling { answer: wrap(self.answer), reasons: self.reasons }
    }

    /// Returns true if `rule` failed.
    #[must_use]
    pub fn fails(&self, rule: RuleName) -> bool {
        self.failed_rules().any(|reason| reason.rule == rule.as_str())
    }

    /// Returns the failed rules.
    pub fn failed_rules(&self) -> impl Iterator<Item = &crate::policy::Reason> {
        self.reasons.iter().filter(|reason| reason.verdict == Judgement::Failed)
    }
}

impl PolicyAnswer {
    /// Returns the answer in one word, as examples of a policy expect it.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self {
            Self::Onboarding(evaluation) => evaluation.verdict.into(),
            Self::Who(Permission::Allowed) => "allowed",
            Self::Who(Permission::Refused { .. }) => "refused",
            Self::Where(eligible) if eligible.clusters.is_empty() => "nowhere",
            Self::Where(_) => "eligible",
            Self::HowMuch(GrantedAmount::All { over_limit: false }) => "granted",
            Self::HowMuch(GrantedAmount::All { over_limit: true }) => "granted_over_limit",
            Self::HowMuch(GrantedAmount::Nothing { .. }) => "refused",
            Self::Approval(Approval::Nobody) => "nobody",
            Self::Approval(Approval::People { .. }) => "people",
            Self::Approval(Approval::Refused) => "refused",
            Self::Isolation(IsolationRules::Apart { .. }) => "apart",
            Self::Isolation(IsolationRules::Insufficient) => "insufficient",
            Self::Failure(remedy) => remedy_word(remedy),
            Self::Retention(RetentionRuling::MustKeep { .. }) => "must_keep",
            Self::Retention(RetentionRuling::May(_)) => "may_go",
            Self::Retention(RetentionRuling::Due(_)) => "due",
            Self::Retention(RetentionRuling::Unclassified) => "unclassified",
            Self::Guard(None) => "safe",
            Self::Guard(Some(_)) => "blocked",
            Self::Schedulers(_) => "configured",
            Self::Capacity(true) => "exhausted",
            Self::Capacity(false) => "enough",
        }
    }

    /// Returns the seats that must approve; empty if no approval is required.
    #[must_use]
    pub fn seats(&self) -> &[Seat] {
        match self {
            Self::Onboarding(evaluation) => {
                let asked = evaluation.terms.as_ref().filter(|terms| !terms.waived);
                asked.map_or(&[], |terms| terms.seats.as_slice())
            }
            Self::Approval(Approval::People { seats, .. })
            | Self::Failure(Remedy::AskPeople { seats, .. }) => seats,
            Self::Approval(Approval::Nobody | Approval::Refused)
            | Self::Failure(_)
            | Self::Who(_)
            | Self::Where(_)
            | Self::HowMuch(_)
            | Self::Isolation(_)
            | Self::Retention(_)
            | Self::Guard(_)
            | Self::Schedulers(_)
            | Self::Capacity(_) => &[],
        }
    }
}

fn remedy_word(remedy: &Remedy) -> &'static str {
    match remedy {
        Remedy::TryAgain => "try_again",
        Remedy::Replace => "replace",
        Remedy::Wait { .. } => "wait",
        Remedy::AskPeople { .. } => "people",
        Remedy::TakeBack => "take_back",
        Remedy::Quarantine => "quarantine",
        Remedy::Escalate => "escalate",
        Remedy::Climb(rung) => (*rung).into(),
        Remedy::Accept => "accept",
    }
}

/// A recorded decision, with all facts to repeat it. Never rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRuling {
    /// The unique name, for example the requesting execution and step.
    pub name: String,
    /// The policy in force.
    pub policy: PolicyRef,
    /// The question with its facts.
    pub question: PolicyQuestion,
    /// SHA-256 of the question.
    pub facts_digest: String,
    /// The answer.
    pub answer: PolicyAnswer,
    /// The rules that led to it.
    pub reasons: Vec<crate::policy::Reason>,
    /// The time of the decision.
    pub at: Timestamp,
}

impl RecordedRuling {
    /// Decides `question` by `policy` and returns the record under `name`.
    #[must_use]
    pub fn decide(name: String, question: PolicyQuestion, policy: &PlatformPolicy, at: Timestamp) -> Self {
        let Ruling { answer, reasons } = rule(&question, policy);
        let facts_digest = sha256(&serde_json::to_vec(&question).unwrap_or_default());
        Self { name, policy: policy.reference.clone(), question, facts_digest, answer, reasons, at }
    }

    /// Returns true if `policy` still gives the recorded answer. Pass the version that was in force: [`super::super::version`].
    #[must_use]
    pub fn holds_under(&self, policy: &PlatformPolicy) -> bool {
        rule(&self.question, policy).answer == self.answer
    }
}

impl Entity for RecordedRuling {
    const COLLECTION: &'static str = "rulings";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        self.name.clone()
    }
}
