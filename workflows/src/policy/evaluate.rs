//! The decision on an onboarding: a pure function of facts and policy, so that it can be decided again (I-20).

use super::{PlatformPolicy, PriceClass, Request, Terms, constraints, sha256, terms::Chosen};
use crate::{
    placement::{Candidate, buffer, eligible},
    tenancy::{Gpus, Isolation, Residency},
};
use engine::Seat;
use serde::{Deserialize, Serialize};

/// Everything that a decision looks at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// What is asked for.
    pub request: Request,
    /// Whether another tenant has the name.
    pub name_in_use: bool,
    /// The clusters that have or had the model.
    pub candidates: Vec<Candidate>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    /// No, whoever approves.
    Rejected,
    /// Yes, without people.
    SelfService,
    /// If people approve.
    NeedsApproval,
}

/// How one rule judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Nothing against it.
    Passed,
    /// It cannot be.
    Failed,
    /// People must look at it.
    AsksPeople,
}

/// One rule's part in a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The rule.
    pub rule: String,
    /// How it judged.
    pub verdict: Judgement,
    /// On what.
    pub detail: String,
    /// The line of the request that it is about, where known.
    pub line: Option<u64>,
}

impl Reason {
    /// Whether it tells more than that there was nothing against it.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.verdict != Judgement::Passed
    }
}

/// A decision, and the terms that follow from it unless it is a rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// What was decided.
    pub verdict: Verdict,
    /// By which rules.
    pub reasons: Vec<Reason>,
    /// The terms; `None` when rejected.
    pub terms: Option<Terms>,
}

impl Facts {
    /// `sha256:` and the digest of the facts.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }
}

/// Decides on `facts` by `policy`. The same input gives the same decision, now and in ten years.
#[must_use]
pub fn evaluate(facts: &Facts, policy: &PlatformPolicy) -> Evaluation {
    let mut judge = Judge { facts, reasons: Vec::new() };
    judge.consistency();
    judge.compliance(policy);
    let chosen = judge.clusters(policy);
    let seats = judge.seats(policy);
    let rejected = judge.reasons.iter().any(|reason| reason.verdict == Judgement::Failed);
    let Some(chosen) = chosen.filter(|_| !rejected) else {
        return Evaluation { verdict: Verdict::Rejected, reasons: judge.reasons, terms: None };
    };
    let verdict = if seats.is_empty() { Verdict::SelfService } else { Verdict::NeedsApproval };
    let terms = Terms::of(facts, policy, &chosen, seats);
    Evaluation { verdict, reasons: judge.reasons, terms: Some(terms) }
}

struct Judge<'a> {
    facts: &'a Facts,
    reasons: Vec<Reason>,
}

impl<'a> Judge<'a> {
    fn note(&mut self, rule: &str, field: &str, verdict: Judgement, detail: String) {
        let line = self.facts.request.lines.get(field).copied();
        self.reasons.push(Reason { rule: rule.into(), verdict, detail, line });
    }

    fn check(&mut self, rule: &str, field: &str, holds: bool, detail: String) {
        self.note(rule, field, if holds { Judgement::Passed } else { Judgement::Failed }, detail);
    }

    /// Rules about the request alone.
    fn consistency(&mut self) {
        let request = &self.facts.request;
        let (tenant, bought, asked) = (&request.tenant, request.entitlement.gpus, request.nominal());
        let taken = if self.facts.name_in_use { "is in use" } else { "is not in use" };
        self.check(
            "tenant.name_free",
            "name",
            !self.facts.name_in_use,
            format!("the name {} {taken}", request.name),
        );
        let detail = format!("the workspaces ask for {asked} GPUs of the {bought} bought");
        self.check("quota.within_entitlement", "workspaces", asked <= bought, detail);
        let slices = tenant.isolation == Isolation::SharedSlices;
        let detail = format!(
            "isolation is {}, allow_gpu_sharing is {}",
            <&str>::from(tenant.isolation),
            tenant.allow_gpu_sharing
        );
        self.check(
            "isolation.sharing_allowed",
            "tenant.allow_gpu_sharing",
            !slices || tenant.allow_gpu_sharing,
            detail,
        );
        let borrows = request
            .workspaces
            .iter()
            .any(|w| w.limits.borrowing_limit.is_some_and(|limit| limit > Gpus::ZERO));
        let detail = format!(
            "allow_preemption is {}; what may not be preempted cannot borrow",
            tenant.allow_preemption
        );
        self.check(
            "preemption.needed_to_borrow",
            "tenant.allow_preemption",
            !borrows || tenant.allow_preemption,
            detail,
        );
    }

    /// What the compliance tags demand.
    fn compliance(&mut self, policy: &PlatformPolicy) {
        let request = &self.facts.request;
        for tag in &request.compliance {
            let Some(demands) = policy.compliance.get(tag) else { continue };
            let tag = <&str>::from(*tag);
            if let Some(residency) = &demands.residency {
                let inside = within(&request.tenant.data_residency, residency);
                let detail = format!("{tag} demands that data stay in {}", residency.describe());
                self.check("compliance.residency", "tenant.data_residency", inside, detail);
            }
            if let Some(isolation) = &demands.isolation {
                let all: Vec<&str> = isolation.iter().map(|level| (*level).into()).collect();
                let detail = format!("{tag} demands isolation {}", all.join(" or "));
                self.check(
                    "compliance.isolation",
                    "tenant.isolation",
                    isolation.contains(&request.tenant.isolation),
                    detail,
                );
            }
        }
    }

    /// Narrows the clusters down; the one with most free GPUs says which kind the tenant gets.
    fn clusters(&mut self, policy: &PlatformPolicy) -> Option<Chosen<'a>> {
        let (facts, constraints) = (self.facts, constraints(self.facts, policy));
        let asked = facts.request.entitlement.gpus;
        let (allowed, considered) = eligible(&facts.candidates, &constraints);
        for step in &considered {
            let after = step.after().len();
            let mut detail = format!("{} of {} clusters left", after, step.before.len());
            for (cluster, why) in step.excluded.iter().take(8) {
                detail.push_str(&format!("; {cluster} {why}"));
            }
            let rule = format!("placement.{}", step.constraint.replace(' ', "_"));
            self.check(&rule, field_of(&step.constraint), after > 0, detail);
            if after == 0 {
                return None;
            }
        }
        let most = |c: &&Candidate| c.total.less_or_none(buffer(c, &constraints));
        let largest = allowed.iter().map(most).max().unwrap_or_default();
        let detail = format!(
            "{asked} GPUs in one cluster are asked for; the largest has {largest} that are not kept back"
        );
        self.check("placement.ever_fits", "entitlement.gpus", asked <= largest, detail);
        let fitting: Vec<_> = allowed.into_iter().filter(|c| most(c) >= asked).collect();
        let shape =
            fitting.iter().copied().max_by(|a, b| a.free.cmp(&b.free).then(b.cluster.cmp(&a.cluster)))?;
        let alike = fitting.iter().filter(|c| c.kind == shape.kind && c.simulated == shape.simulated);
        Some(Chosen { shape, regions: alike.map(|c| c.region.clone()).collect() })
    }

    /// Who must agree: nobody if policy waives people.
    fn seats(&mut self, policy: &PlatformPolicy) -> Vec<Seat> {
        let request = &self.facts.request;
        let (tier, gpus) = (request.tenant.tier, request.entitlement.gpus);
        let monthly = policy.monthly(&request.entitlement.gpu_model, gpus);
        let small = policy.self_service_tiers.contains(&tier) && gpus <= policy.self_service_gpus;
        let dear = monthly > policy.onboarding.finance_above;
        let tagged = !request.compliance.is_empty();
        let asks = |asks: bool| if asks { Judgement::AsksPeople } else { Judgement::Passed };
        let detail = format!(
            "tier {}, {gpus} GPUs; self-service goes up to {}",
            <&str>::from(tier),
            policy.self_service_gpus
        );
        self.note("approval.self_service", "tenant.tier", asks(!small), detail);
        let class = <&str>::from(if dear { PriceClass::AboveThreshold } else { PriceClass::Usual });
        let detail = format!(
            "{monthly} a month by list, {class}; the threshold is {}",
            policy.onboarding.finance_above
        );
        self.note("approval.price", "entitlement.gpus", asks(dear), detail);
        let detail = format!("{} compliance tags", request.compliance.len());
        self.note("approval.compliance", "compliance", asks(tagged), detail);
        if small && !dear && !tagged {
            return Vec::new();
        }
        let approvals = &policy.onboarding;
        let mut seats = approvals.seats.clone();
        seats.extend(approvals.finance_seats.iter().filter(|_| dear).cloned());
        seats.extend(approvals.security_seats.iter().filter(|_| tagged).cloned());
        seats
    }
}

fn field_of(constraint: &str) -> &'static str {
    match constraint {
        "gpu model" => "entitlement.gpu_model",
        "region" => "entitlement.region",
        "data residency" => "tenant.data_residency",
        "isolation" => "tenant.isolation",
        _ => "",
    }
}

/// Whether `inner` allows nothing that `outer` does not.
fn within(inner: &Residency, outer: &Residency) -> bool {
    match (inner, outer) {
        (_, Residency::Any) => true,
        (Residency::Any, Residency::Within(_)) => false,
        (Residency::Within(inner), Residency::Within(_)) => inner.iter().all(|j| outer.allows(j)),
    }
}
