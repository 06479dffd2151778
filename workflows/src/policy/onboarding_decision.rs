//! The decision on an onboarding: a pure function of facts and policy, so that it can be repeated (I-20).

pub(super) mod preflight;

use super::{
    Judgement, Multitenancy, OnboardingFacts, OnboardingTerms, PlatformPolicy, PriceClass, Reason, RuleName,
    Verdict, constraints,
    decisions::{ClusterChoiceFacts, IsolationFacts, IsolationRules, Ruling, eligible_clusters, isolation},
    has_ended,
    terms::{ClusterChoice, RequestedPieces, classes, slicing},
};
use crate::{
    placement::{Candidate, buffer},
    tenancy::{ClusterKind, Gpus, Residency},
};
use engine::Seat;
use serde::{Deserialize, Serialize};

/// A decision, and its terms unless it is a rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingEvaluation {
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that led to it.
    pub reasons: Vec<Reason>,
    /// The terms; `None` if rejected.
    pub terms: Option<OnboardingTerms>,
}

/// Decides on `facts` by `policy`. Equal input always gives an equal decision.
#[must_use]
pub fn evaluate(facts: &OnboardingFacts, policy: &PlatformPolicy) -> OnboardingEvaluation {
    let mut judge = Judge { facts, policy, reasons: Vec::new() };
    judge.consistency();
    judge.compliance();
    judge.customers();
    let chosen = judge.clusters();
    let seats = judge.seats();
    let rejected = judge.reasons.iter().any(|reason| reason.verdict == Judgement::Failed);
    let Some(chosen) = chosen.filter(|_| !rejected) else {
        return OnboardingEvaluation { verdict: Verdict::Rejected, reasons: judge.reasons, terms: None };
    };
    let verdict = if seats.is_empty() { Verdict::SelfService } else { Verdict::NeedsApproval };
    let terms = OnboardingTerms::from_facts(facts, policy, &chosen, seats);
    OnboardingEvaluation { verdict, reasons: judge.reasons, terms: Some(terms) }
}

/// Returns the judgements of the rules that need only the request, each with its field.
fn document_reasons(facts: &OnboardingFacts, policy: &PlatformPolicy) -> Vec<(String, Reason)> {
    let mut judge = Judge { facts, policy, reasons: Vec::new() };
    judge.document();
    let field = |rule: &str| match rule {
        "entitlement.not_ended" => "entitlement.to",
        "isolation.sharing_allowed" => "tenant.allow_gpu_sharing",
        "preemption.needed_to_borrow" => "tenant.allow_preemption",
        _ => "workspaces",
    };
    judge.reasons.into_iter().map(|reason| (field(&reason.rule).to_owned(), reason)).collect()
}

struct Judge<'a> {
    facts: &'a OnboardingFacts,
    policy: &'a PlatformPolicy,
    reasons: Vec<Reason>,
}

/// The field and the policy key of a rule.
#[derive(Clone, Copy)]
struct RuleTarget<'a> {
    /// The field of the request.
    field: &'a str,
    /// The key of the policy; empty for rules of every policy.
    key: &'a str,
}

/// Returns the target of a rule that applies under every policy.
fn always(field: &str) -> RuleTarget<'_> {
    RuleTarget { field, key: "" }
}

impl<'a> Judge<'a> {
    fn note(&mut self, rule: &str, about: RuleTarget<'_>, verdict: Judgement, detail: String) {
        let line = self.facts.request.lines.get(about.field).copied();
        let by = (!about.key.is_empty()).then(|| self.policy.provenance.origin(about.key)).flatten();
        self.reasons.push(Reason { rule: rule.into(), verdict, detail, line, by });
    }

    fn check(&mut self, rule: &str, about: RuleTarget<'_>, holds: bool, detail: String) {
        self.note(rule, about, if holds { Judgement::Passed } else { Judgement::Failed }, detail);
    }

    /// Checks the name and the consistency of the request.
    fn consistency(&mut self) {
        let closed = self.facts.preflight.as_ref().and_then(|preflight| preflight.closed.as_ref());
        let taken = match closed {
            Some(closed) => closed.describe(),
            None if self.facts.name_in_use => "is in use".to_owned(),
            None => "is not in use".to_owned(),
        };
        self.check(
            "tenant.name_free",
            always("name"),
            !self.facts.name_in_use,
            format!("the name {} {taken}", self.facts.request.name),
        );
        self.document();
    }

    /// Checks the contract and the lending of workspaces, which depend on the day of the decision.
    fn preflight(&mut self) {
        let (request, facts) = (&self.facts.request, self.facts);
        let Some(preflight) = &facts.preflight else { return };
        if let Some(to) = &request.entitlement.to {
            let ended = has_ended(to, &preflight.today);
            let detail = format!("the contract ends on the day before {to}; today is {}", preflight.today);
            self.check("entitlement.not_ended", always("entitlement.to"), !ended, detail);
        }
        for workspace in &request.workspaces {
            let (Some(nominal), Some(lent)) = (workspace.nominal, workspace.limits.lending_limit) else {
                continue;
            };
            let detail = format!("workspace {} may lend {lent} of its {nominal} GPUs", workspace.name);
            self.check("quota.lends_its_own", always("workspaces"), lent <= nominal, detail);
        }
    }

    /// Checks the rules that need only the request.
    fn document(&mut self) {
        self.preflight();
        self.quotas();
        let request = &self.facts.request;
        let tenant = &request.tenant;
        for warning in request.warnings() {
            self.note("quota.unpromised", always("workspaces"), Judgement::Warns, warning);
        }
        let detail = format!(
            "isolation is {}, allow_gpu_sharing is {}",
            <&str>::from(tenant.isolation),
            tenant.allow_gpu_sharing
        );
        self.check(
            "isolation.sharing_allowed",
            always("tenant.allow_gpu_sharing"),
            !self.apart().fails(const { RuleName::known("isolation.sharing_allowed") }),
            detail,
        );
        let borrows = request
            .workspaces
            .iter()
            .any(|w| w.limits.borrowing_limit.is_some_and(|limit| limit > Gpus::ZERO));
        let detail = format!(
            "allow_preemption is {}; workloads that may not be preempted cannot borrow",
            tenant.allow_preemption
        );
        self.check(
            "preemption.needed_to_borrow",
            always("tenant.allow_preemption"),
            !borrows || tenant.allow_preemption,
            detail,
        );
    }

    /// Checks that the slices exist and that the quotas fit the bought amount.
    fn quotas(&mut self) {
        let (request, slicing) = (&self.facts.request, slicing(self.facts, self.policy));
        if let Err(problem) = &slicing {
            let about = RuleTarget { field: "entitlement.slice_profile", key: "gpu_models" };
            self.check("gpu_models.mig_profile", about, false, problem.clone());
        }
        let pieces = RequestedPieces::of(self.facts, self.policy);
        let (asked, bought) = (pieces.requested, pieces.bought);
        let what = pieces.offer.kind.profile.as_ref();
        let what = what.map_or_else(|| "GPUs".to_owned(), |profile| format!("slices of {profile}"));
        let detail = format!("the workspaces request {asked} {what}, and {bought} are purchased");
        self.check("quota.within_entitlement", always("workspaces"), asked <= bought, detail);
        let in_slices = request.workspaces.iter().find(|workspace| workspace.in_slices);
        if let (Some(workspace), None) = (in_slices, slicing.unwrap_or_default()) {
            let detail = format!(
                "workspace {} requests slices, but the tenant's GPUs are not cut into slices: request `gpus`, or isolation `shared_slices` on a model with slices",
                workspace.name
            );
            self.check("quota.slices", always("workspaces"), false, detail);
        }
    }

    /// Checks the demands of the compliance tags.
    fn compliance(&mut self) {
        let (request, policy) = (&self.facts.request, self.policy);
        for tag in &request.compliance {
            let Some(demands) = policy.compliance.get(tag) else { continue };
            let tag = <&str>::from(*tag);
            if let Some(residency) = &demands.residency {
                let inside = within(&request.tenant.data_residency, residency);
                let detail = format!("{tag} requires that data stays in {}", residency.describe());
                let key = format!("compliance.{tag}.residency");
                let about = RuleTarget { field: "tenant.data_residency", key: &key };
                self.check("compliance.residency", about, inside, detail);
            }
        }
        let line = request.lines.get("tenant.isolation").copied();
        let demanded =
            self.apart().reasons.into_iter().filter(|reason| reason.rule == "compliance.isolation");
        self.reasons.extend(demanded.map(|reason| Reason { line, ..reason }));
    }

    /// Returns the isolation of the tenant on the kind of cluster that needs most.
    fn apart(&self) -> Ruling<IsolationRules> {
        let request = &self.facts.request;
        let facts = IsolationFacts {
            isolation: request.tenant.isolation,
            allow_gpu_sharing: request.tenant.allow_gpu_sharing,
            multitenancy: request.multitenancy,
            compliance: request.compliance.clone(),
            model: request.entitlement.gpu_model.clone(),
            slice_profile: request.entitlement.slice_profile.clone(),
            kind: ClusterKind::Kubernetes,
        };
        isolation(&facts, self.policy)
    }

    /// Checks the rules for tenants with customers of their own.
    fn customers(&mut self) {
        let (request, policy) = (&self.facts.request, self.policy);
        if request.multitenancy != Some(Multitenancy::Customer) {
            return;
        }
        let shares = self.apart().fails(const { RuleName::known("multitenancy.sharing") });
        let borrows = |limit: Option<Gpus>| limit.is_some_and(|limit| limit > Gpus::ZERO);
        let borrows = request.workspaces.iter().any(|w| borrows(w.limits.borrowing_limit));
        let allowed = !shares && (policy.lending.customer_sharing || !borrows);
        let detail = "the tenant's customers may not share GPUs or borrow from each other".into();
        let about = RuleTarget { field: "multitenancy", key: "lending.customer_sharing" };
        self.check("multitenancy.sharing", about, allowed, detail);
        let model = &request.entitlement.gpu_model;
        let key = format!("gpu_models.{model}.ecc");
        let ecc = policy.gpu_models.get(model).is_some_and(|facts| facts.ecc);
        let detail = match policy.gpu_models.get(model) {
            None => format!("{model} is not in the catalogue, so its memory protection is unknown"),
            Some(facts) if facts.ecc => format!("memory of {model} corrects errors"),
            Some(_) => format!("memory of {model} does not correct errors"),
        };
        let about = RuleTarget { field: "entitlement.gpu_model", key: &key };
        self.check("gpu_models.ecc", about, ecc, detail);
    }

    /// Filters the clusters. The kind of the cluster with the most free GPUs becomes the tenant's kind.
    fn clusters(&mut self) -> Option<ClusterChoice<'a>> {
        let (facts, constraints) = (self.facts, constraints(self.facts, self.policy));
        let asked = facts.request.entitlement.gpus;
        let tags = &facts.request.compliance;
        let choice = ClusterChoiceFacts {
            classes: classes(&facts.request),
            ..ClusterChoiceFacts::of_tenant(constraints.clone(), tags, &facts.candidates)
        };
        let eligible = eligible_clusters(&choice, self.policy).answer;
        for step in &eligible.considered {
            let after = step.remaining().len();
            let rule = format!("placement.{}", step.constraint.replace(' ', "_"));
            let key = match step.constraint.as_str() {
                "pins" => "pins",
                "anti colocate" => "lending.anti_colocate",
                _ => "",
            };
            let about = RuleTarget { field: field_of(&step.constraint), key };
            let mut detail = step.describe(8);
            if step.constraint == "gpu model" && after == 0 {
                detail = self.no_such_model(detail);
            }
            self.check(&rule, about, after > 0, detail);
            if after == 0 {
                return None;
            }
        }
        let allowed = eligible.among(&facts.candidates);
        let most = |c: &&Candidate| c.total.saturating_sub(buffer(c, &constraints));
        let largest = allowed.iter().map(most).max().unwrap_or_default();
        let detail = format!(
            "{asked} GPUs in one cluster are requested; the largest cluster has {largest} outside the buffer"
        );
        let about = RuleTarget { field: "entitlement.gpus", key: "capacity.buffer_gpus" };
        self.check("placement.ever_fits", about, asked <= largest, detail);
        let fitting: Vec<_> = allowed.into_iter().filter(|c| most(c) >= asked).collect();
        let shape =
            fitting.iter().copied().max_by(|a, b| a.free.cmp(&b.free).then(b.cluster.cmp(&a.cluster)))?;
        let alike = fitting.iter().filter(|c| c.kind == shape.kind && c.simulated == shape.simulated);
        Some(ClusterChoice { shape, regions: alike.map(|c| c.region.clone()).collect() })
    }

    /// Returns why no cluster has the model: it is unknown, or none was imported. Names the available models.
    fn no_such_model(&self, detail: String) -> String {
        let (known, model) = (&self.policy.gpu_models, &self.facts.request.entitlement.gpu_model);
        match known.unknown(model) {
            None if self.facts.candidates.is_empty() => {
                format!("no cluster has {model}: import nodes with this model")
            }
            None => detail,
            Some(unknown) => known.no_model(model).unwrap_or(unknown),
        }
    }

    /// Returns the seats that must approve; empty if policy waives approvals.
    fn seats(&mut self) -> Vec<Seat> {
        let (request, policy) = (&self.facts.request, self.policy);
        let (tier, gpus) = (request.tenant.tier, request.entitlement.gpus);
        let monthly = policy.monthly(&request.entitlement.gpu_model, gpus);
        let small = policy.self_service_tiers.contains(&tier) && gpus <= policy.self_service_gpus;
        let dear = monthly > policy.onboarding.finance_above;
        let tagged = !request.compliance.is_empty();
        let asks = |asks: bool| if asks { Judgement::AsksPeople } else { Judgement::Passed };
        let detail = format!(
            "tier {}, {gpus} GPUs; self-service is limited to {}",
            <&str>::from(tier),
            policy.self_service_gpus
        );
        let about = RuleTarget { field: "tenant.tier", key: "self_service" };
        self.note("approval.self_service", about, asks(!small), detail);
        let class = <&str>::from(if dear { PriceClass::AboveThreshold } else { PriceClass::Usual });
        let detail = format!(
            "{monthly} a month at list price, {class}; the threshold is {}",
            policy.onboarding.finance_above
        );
        let key = "approvals.onboarding.finance.above_cents_per_month";
        self.note("approval.price", RuleTarget { field: "entitlement.gpus", key }, asks(dear), detail);
        let detail = format!("{} compliance tags", request.compliance.len());
        let about = RuleTarget { field: "compliance", key: "approvals.onboarding.security" };
        self.note("approval.compliance", about, asks(tagged), detail);
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
        "pins" => "compliance",
        "anti colocate" => "workspaces",
        _ => "entitlement",
    }
}

/// Returns true if `outer` allows everything that `inner` allows.
fn within(inner: &Residency, outer: &Residency) -> bool {
    match (inner, outer) {
        (_, Residency::Any) => true,
        (Residency::Any, Residency::Within(_)) => false,
        (Residency::Within(inner), Residency::Within(_)) => inner.iter().all(|j| outer.allows(j)),
    }
}
