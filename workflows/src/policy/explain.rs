//! Lists the rules that apply to one tenant: all kinds of S-69 in one list, each with its place.

use crate::{
    policy::{
        GuardName, Multitenancy, OnboardingFacts, OnboardingRequest, Origin, PlatformPolicy, TenantPolicy,
        constraints,
        decisions::{IsolationFacts, IsolationRules, isolation, scrub_method},
        duration::show,
        sections::procedures::describe,
    },
    tenancy::{ClusterKind, Entitlement, Gpus, Tenant},
};
use engine::{Procedure, Seat};
use serde::Serialize;
use std::{collections::BTreeSet, time::Duration};
use strum::VariantArray as _;

/// A rule that applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApplicableRule {
    /// The topic.
    pub topic: &'static str,
    /// The rule: a key of the platform policy, or a field of the tenant's.
    pub rule: String,
    /// The value for this tenant.
    pub says: String,
    /// The place of the rule: document, version and line. The document is `request` for the tenant's own fields.
    pub by: Option<Origin>,
}

/// The tenant whose rules are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    request: OnboardingRequest,
    /// The document with its own fields.
    document: String,
}

impl Subject {
    /// Creates the subject of a requested tenant.
    #[must_use]
    pub fn from_request(request: OnboardingRequest) -> Self {
        Self { request, document: "request".into() }
    }

    /// Creates the subject of an existing tenant with its entitlement.
    #[must_use]
    pub fn from_tenant(tenant: &Tenant, bought: &Entitlement) -> Self {
        let request = OnboardingRequest {
            name: tenant.id.clone(),
            tenant: TenantPolicy {
                tier: tenant.tier,
                isolation: tenant.isolation,
                data_residency: tenant.data_residency.clone(),
                allow_preemption: tenant.allow_preemption,
                allow_gpu_sharing: tenant.allow_gpu_sharing,
            },
            workspaces: Vec::new(),
            entitlement: super::EntitlementRequest {
                gpu_model: bought.gpu_model.clone(),
                gpus: bought.gpus,
                slice_profile: bought.slicing.as_ref().map(|slicing| slicing.profile.clone()),
                region: bought.region.clone(),
                from: bought.from.clone(),
                to: bought.to.clone(),
            },
            compliance: tenant.compliance.clone(),
            multitenancy: tenant.multitenancy,
            lines: std::collections::BTreeMap::new(),
        };
        Self { request, document: format!("tenant {}", tenant.id) }
    }
}

/// Returns every rule of `policy` that applies to `subject`, by topic.
#[must_use]
pub fn explain(subject: &Subject, policy: &PlatformPolicy) -> Vec<ApplicableRule> {
    let mut list = List { subject, policy, topic: "", rules: Vec::new() };
    list.entitlement();
    list.tier_and_isolation();
    list.admission();
    list.placement();
    list.compliance();
    list.degradation();
    list.lifecycle();
    list.rules
}

struct List<'a> {
    subject: &'a Subject,
    policy: &'a PlatformPolicy,
    topic: &'static str,
    rules: Vec<ApplicableRule>,
}

impl List<'_> {
    /// Adds a field of the tenant's own document.
    fn own(&mut self, field: &str, says: String) {
        let line = self.subject.request.lines.get(field).copied();
        let document = self.subject.document.clone();
        let by = line.map(|line| Origin { document, version: 1, line });
        self.rules.push(ApplicableRule { topic: self.topic, rule: field.into(), says, by });
    }

    /// Adds a key of the platform policy.
    fn key(&mut self, key: &str, says: impl Into<String>) {
        let by = self.policy.provenance.origin(key);
        self.rules.push(ApplicableRule { topic: self.topic, rule: key.into(), says: says.into(), by });
    }

    fn entitlement(&mut self) {
        self.topic = "entitlements and quotas";
        let (request, policy) = (&self.subject.request, self.policy);
        let bought = &request.entitlement;
        self.own("entitlement", format!("{} {}", bought.gpus, bought.gpu_model));
        let lending = limit(policy.lending_limit);
        let borrowing = if request.tenant.allow_preemption {
            format!("{} for a workspace that sets none", limit(policy.borrowing_limit))
        } else {
            "none: its workloads may not be preempted".into()
        };
        self.key("quotas.borrowing_limit", borrowing);
        self.key("quotas.lending_limit", format!("{lending} for a workspace that sets none"));
        self.key("capacity.overcommit", policy.overcommit.to_string());
        let increase = &policy.approvals.quota_increase;
        let says = format!(
            "up to {} GPUs or {} of the quota need no approval",
            increase.auto_gpus, increase.auto_share
        );
        self.key("approvals.quota_increase.auto", says);
        self.key(
            "approvals.quota_increase",
            gate(&increase.gate.seats, increase.gate.within, &increase.gate.procedure),
        );
        let decrease = &policy.approvals.quota_decrease;
        self.key("approvals.quota_decrease", gate(&decrease.seats, decrease.within, &decrease.procedure));
        for (n, soft) in policy.admission.soft.iter().enumerate() {
            let says = format!("notified at {}, and again after it fell below {}", soft.at, soft.clear);
            self.key(&format!("admission.soft[{n}]"), says);
        }
    }

    fn tier_and_isolation(&mut self) {
        self.topic = "tier and isolation";
        let (request, policy) = (&self.subject.request, self.policy);
        let (tier, level) = (<&str>::from(request.tenant.tier), <&str>::from(request.tenant.isolation));
        self.own("tenant.tier", tier.into());
        let value = policy.priorities.get(&request.tenant.tier).copied().unwrap_or_default();
        self.key(&format!("priorities.{tier}"), format!("priority {value}"));
        self.own("tenant.isolation", level.into());
        let facts = IsolationFacts {
            isolation: request.tenant.isolation,
            allow_gpu_sharing: request.tenant.allow_gpu_sharing,
            multitenancy: request.multitenancy,
            compliance: request.compliance.clone(),
            model: request.entitlement.gpu_model.clone(),
            slice_profile: request.entitlement.slice_profile.clone(),
            kind: ClusterKind::Kubernetes,
        };
        let ruling = isolation(&facts, policy);
        match &ruling.answer {
            IsolationRules::Apart { parts, probes, layout, .. } => {
                let parts: Vec<&str> = parts.iter().map(|part| (*part).into()).collect();
                self.own("tenant.isolation", format!("on Kubernetes: {}", parts.join(", ")));
                self.own("tenant.isolation", format!("{} probes; GPUs are cut {layout}", probes.len()));
            }
            IsolationRules::Insufficient => self.own("tenant.isolation", "not supported, see below".into()),
        }
        for reason in ruling.reasons {
            let (topic, rule) = (self.topic, reason.rule);
            self.rules.push(ApplicableRule { topic, rule, says: reason.detail, by: reason.by });
        }
        self.own("tenant.allow_gpu_sharing", request.tenant.allow_gpu_sharing.to_string());
        if request.multitenancy == Some(Multitenancy::Customer) {
            self.key("lending.customer_sharing", policy.lending.customer_sharing.to_string());
        }
        let change = &policy.approvals.sla_change;
        self.key("approvals.sla_change", gate(&change.seats, change.within, &change.procedure));
    }

    fn admission(&mut self) {
        self.topic = "admission control";
        let policy = self.policy;
        let stale = show(policy.admission.max_staleness);
        self.key(
            "admission.max_staleness",
            format!("workloads are not admitted on observations older than {stale}"),
        );
        self.key(
            "admission.line_limit",
            format!("at most {} workloads of a workspace may be queued", policy.admission.line_limit),
        );
        let ageing = &policy.admission.ageing;
        let says =
            format!("+{} after each {}, at most +{}", ageing.priority, show(ageing.every), ageing.at_most);
        self.key("admission.ageing", says);
        self.key("lending.classes", names(&policy.lending.classes));
        self.key("lending.workloads", names(&policy.lending.workloads));
        self.key("lending.max_duration", show(policy.lending.max_duration));
        self.key("lending.cool_down", show(policy.lending.cool_down));
        for (n, pair) in policy.lending.anti_colocate.iter().enumerate() {
            let (a, b) = (<&str>::from(pair.class_a), <&str>::from(pair.class_b));
            let region = pair.region.as_ref().map_or("every region".into(), ToString::to_string);
            let scope = <&str>::from(pair.scope);
            let says = format!("{a} and {b} share no {scope} in {region}");
            self.key(&format!("lending.anti_colocate[{n}]"), says);
        }
    }

    fn placement(&mut self) {
        self.topic = "placement";
        let (request, policy) = (&self.subject.request, self.policy);
        self.own("tenant.data_residency", request.tenant.data_residency.describe());
        let facts = OnboardingFacts {
            request: request.clone(),
            name_in_use: false,
            candidates: Vec::new(),
            preflight: None,
        };
        for (label, cluster) in constraints(&facts, policy).pins {
            let place = policy.pins.iter().position(|pin| pin.label == label).unwrap_or_default();
            self.key(&format!("pins[{place}]"), format!("{label} runs only in {cluster}"));
        }
        self.key("nodes.drivers", policy.drivers.join(", "));
        let says = format!("{} of each model in a region without its own buffer", policy.buffer);
        self.key("capacity.buffer_gpus", says);
        self.key(
            "waits.waitlist",
            format!("waits {} for capacity, then operators are asked", show(policy.waitlist)),
        );
        let model = &request.entitlement.gpu_model;
        let key = format!("gpu_models.{model}");
        for (alias, named) in policy.gpu_models.aliases.iter().filter(|(_, named)| *named == model) {
            self.key(&format!("aliases.{alias}"), format!("{alias} is an alias of {named}"));
        }
        match policy.gpu_models.get(model) {
            None => self.key("gpu_models", format!("{model} is not in the catalogue")),
            Some(facts) => {
                let ecc = if facts.ecc { "with" } else { "without" };
                let says = format!("{} MiB, {ecc} ECC, {} MIG profiles", facts.memory_mib, facts.mig.len());
                self.key(&key, says);
            }
        }
    }

    fn compliance(&mut self) {
        self.topic = "privacy and compliance";
        let (request, policy) = (&self.subject.request, self.policy);
        for tag in &request.compliance {
            let Some(demands) = policy.compliance.get(tag) else { continue };
            let tag = <&str>::from(*tag);
            if let Some(residency) = &demands.residency {
                let says = format!("data stays in {}", residency.describe());
                self.key(&format!("compliance.{tag}.residency"), says);
            }
            if let Some(levels) = &demands.isolation {
                self.key(&format!("compliance.{tag}.isolation"), names(levels));
            }
        }
        self.key("images.registries", policy.registries.join(", "));
        let (scrub, key) = scrub_method(&request.compliance, false, policy);
        self.key(key, format!("GPU memory between workspaces: at least {}", <&str>::from(scrub)));
        for (n, rule) in policy.retention.iter().enumerate() {
            if rule.tag.is_none_or(|tag| request.compliance.contains(&tag)) {
                let most = rule.max.map_or("no maximum".into(), |max| format!("at most {}", show(max)));
                let (least, then) = (show(rule.min), <&str>::from(rule.then));
                let says = format!("{}: at least {least}, {most}, then {then}", rule.class);
                self.key(&format!("retention[{n}]"), says);
            }
        }
    }

    fn degradation(&mut self) {
        self.topic = "degradation and preemption";
        let (request, policy) = (&self.subject.request, self.policy);
        self.own("tenant.allow_preemption", request.tenant.allow_preemption.to_string());
        let tier = request.tenant.tier;
        let rungs: Vec<&str> = policy.capacity.rungs(tier).iter().map(|rung| (*rung).into()).collect();
        self.key(&format!("capacity.ladder.{}", <&str>::from(tier)), rungs.join(", "));
        let reclaim = &policy.reclaim;
        let (deadline, grace) = (show(reclaim.deadline), show(reclaim.grace));
        self.key("reclaim.deadline", format!("lent GPUs are returned within {deadline}"));
        self.key("reclaim.grace", format!("victims have {grace} to save their work"));
        self.key("reclaim.algorithm", <&str>::from(reclaim.algorithm));
        let guard = &reclaim.guard;
        let says = format!(
            "approval is needed above {} GPUs of victims per requested GPU, {} of the tenant's GPUs, {} GPUs of one victim, or {} of unsaved work",
            guard.ratio,
            guard.share,
            guard.victim_gpus,
            show(guard.victim_age)
        );
        self.key("reclaim.guard", says);
        self.key("scheduling.within_cluster_queue", <&str>::from(policy.scheduling.within_cluster_queue));
        self.key("scheduling.reclaim_within_cohort", <&str>::from(policy.scheduling.reclaim_within_cohort));
        let rules = &policy.capacity;
        let says = format!(
            "exhausted if less than {} is free for {}, or a request has waited {}",
            rules.threshold,
            show(rules.lasting),
            show(rules.oldest_waiter)
        );
        self.key("capacity.threshold", says);
        for guard in GuardName::VARIANTS {
            let (name, mode) = (<&str>::from(*guard), <&str>::from(policy.guards.mode(*guard)));
            self.key(&format!("guards.{name}"), mode);
        }
    }

    fn lifecycle(&mut self) {
        self.topic = "onboarding and offboarding";
        let policy = self.policy;
        let tiers = names(&policy.self_service_tiers);
        self.key("self_service", format!("{tiers} up to {} GPUs need no approval", policy.self_service_gpus));
        self.key("approvals.onboarding", {
            let asked = &policy.onboarding;
            gate(&asked.seats, asked.within, &asked.procedure)
        });
        let above = policy.onboarding.finance_above;
        let says = format!("above {above} a month, also {}", seats(&policy.onboarding.finance_seats));
        self.key("approvals.onboarding.finance", says);
        let says = format!("with compliance tags also {}", seats(&policy.onboarding.security_seats));
        self.key("approvals.onboarding.security", says);
        let (offboard, destroy) = (&policy.approvals.offboard, &policy.approvals.destroy);
        self.key("approvals.offboard", gate(&offboard.seats, offboard.within, &offboard.procedure));
        let window = show(policy.offboarding.export_window);
        self.key("offboarding.export_window", format!("{window} to fetch its data"));
        let kept = show(policy.offboarding.certificate_kept);
        self.key("offboarding.certificate_kept", format!("its certificate is kept for {kept}"));
        self.key("approvals.destroy", gate(&destroy.seats, destroy.within, &destroy.procedure));
        for (medium, method) in &policy.sanitisation.minimum {
            let method = policy.sanitisation.method(*medium, self.subject.request.tenant.tier).max(*method);
            let medium = <&str>::from(*medium);
            self.key(&format!("sanitisation.minimum.{medium}"), <&str>::from(method));
        }
    }
}

fn limit(limit: Option<Gpus>) -> String {
    limit.map_or("unlimited".into(), |gpus| format!("{gpus} GPUs"))
}

fn names<T: Copy>(all: &BTreeSet<T>) -> String
where
    &'static str: From<T>,
{
    let names: Vec<&'static str> = all.iter().map(|one| (*one).into()).collect();
    names.join(", ")
}

fn seats(seats: &[Seat]) -> String {
    let each = seats.iter().map(|seat| format!("{} of {}", seat.count, seat.any_of.join("/")));
    each.collect::<Vec<_>>().join(" and ")
}

fn gate(asked: &[Seat], within: Duration, procedure: &Procedure) -> String {
    format!("{}, within {}{}", seats(asked), show(within), describe(procedure, seats))
}
