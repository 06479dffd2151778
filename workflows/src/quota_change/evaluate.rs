//! The decision on a quota change: a pure function of facts and policy, so that it can be repeated (I-20).

use super::{ChangeFacts, ChangeTerms, Direction};
use crate::{
    placement::{Candidate, Constraints, buffer, usable},
    policy::{
        Judgement, PlatformPolicy, PolicyRef, Reason, RuleName, Verdict,
        decisions::{ClusterChoiceFacts, eligible_clusters, gpu_layout},
        pins,
    },
    quota_change::increase_approval::{amount_fails, increase_asks},
    tenancy::{Allowance, GpuOffer, Gpus, Layout, Resource, Tenant, TenantState},
};
use engine::{Entity, Seat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use store::{ExecutionId, Timestamp};

/// A decision, and its terms unless it is a rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeEvaluation {
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that led to it.
    pub reasons: Vec<Reason>,
    /// The terms; `None` if rejected.
    pub terms: Option<ChangeTerms>,
}

/// A decision on a quota change, with all facts, so that it can be repeated with the same result. Kept forever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaDecision {
    /// The requesting execution.
    pub execution: ExecutionId,
    /// The policy in force.
    pub policy: PolicyRef,
    /// All facts.
    pub facts: ChangeFacts,
    /// SHA-256 of the facts.
    pub facts_digest: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that led to it.
    pub reasons: Vec<Reason>,
}

impl Entity for QuotaDecision {
    const COLLECTION: &'static str = "quota-decisions";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        self.execution.to_string()
    }
}

/// Decides on `facts` by `policy`.
#[must_use]
pub fn evaluate(facts: &ChangeFacts, policy: &PlatformPolicy) -> ChangeEvaluation {
    let mut judge = Judge { facts, policy, reasons: Vec::new() };
    let terms = judge.judge();
    let rejected = judge.reasons.iter().any(|reason| reason.verdict == Judgement::Failed);
    let terms = terms.filter(|_| !rejected);
    let verdict = match &terms {
        None => Verdict::Rejected,
        Some(terms) if terms.waived.is_some() => Verdict::SelfService,
        Some(_) => Verdict::NeedsApproval,
    };
    ChangeEvaluation { verdict, reasons: judge.reasons, terms }
}

struct Judge<'a> {
    facts: &'a ChangeFacts,
    policy: &'a PlatformPolicy,
    reasons: Vec<Reason>,
}

impl<'a> Judge<'a> {
    fn note(&mut self, rule: &str, field: &str, verdict: Judgement, detail: String) {
        let line = self.facts.request.lines.get(field).copied();
        let key = match rule {
            "approval.auto_limit" => Some("approvals.quota_increase.auto.gpus"),
            "approval.capacity_share" => Some("approvals.quota_increase.capacity.above_share"),
            "approval.in_use" | "approval.other_limits" => Some("approvals.quota_decrease.seats"),
            "capacity.ever_fits" => Some("capacity.buffer_gpus.each"),
            _ => None,
        };
        let by = key.and_then(|key| self.policy.provenance.origin(key));
        self.reasons.push(Reason { rule: rule.into(), verdict, detail, line, by });
    }

    fn check(&mut self, rule: &str, field: &str, holds: bool, detail: String) -> bool {
        self.note(rule, field, if holds { Judgement::Passed } else { Judgement::Failed }, detail);
        holds
    }

    fn asks(&mut self, rule: &str, field: &str, asks: bool, detail: String) -> bool {
        self.note(rule, field, if asks { Judgement::AsksPeople } else { Judgement::Passed }, detail);
        asks
    }

    fn judge(&mut self) -> Option<ChangeTerms> {
        let (facts, request) = (self.facts, &self.facts.request);
        let active = facts.tenant.as_ref().filter(|tenant| tenant.state == TenantState::Active);
        let said = if active.is_some() { "is active" } else { "is not active" };
        self.check("tenant.active", "tenant", active.is_some(), format!("tenant {} {said}", request.tenant));
        let (tenant, (kind, simulated)) = (active?, facts.cluster?);
        let cluster = tenant.cluster.clone()?;
        let (before, after) = self.step()?;
        self.form(tenant, &before, &after);
        let more = after.nominal.saturating_sub(before.nominal);
        let constraints = self.constraints(tenant);
        let (mut lacking, mut exceeds) = (0, false);
        if facts.direction == Direction::Increase && request.resource.gpu().is_some() {
            exceeds = more > 0 && self.entitled(more);
            let fails = more > 0
                && amount_fails(
                    self.policy,
                    const { RuleName::known("quota.within_owned") },
                    &facts.stand,
                    (more, Gpus::ZERO),
                );
            lacking = if fails { facts.stand.lacking(more) } else { 0 };
            self.capacity(lacking, &constraints);
        }
        let (waived, seats) = match facts.direction {
            Direction::Increase => self.increase_seats(&before, more, lacking, exceeds, &constraints),
            Direction::Decrease => self.decrease_seats(&after),
        };
        let gate = match facts.direction {
            Direction::Increase => &self.policy.approvals.quota_increase.gate,
            Direction::Decrease => &self.policy.approvals.quota_decrease,
        };
        Some(ChangeTerms {
            policy: self.policy.reference.clone(),
            waived,
            procedure: gate
                .procedure
                .clone()
                .with_extra_seats(seats.get(gate.seats.len()..).unwrap_or_default()),
            seats,
            approve_within: gate.within,
            wait: self.policy.waitlist,
            patience_seats: gate.seats.clone(),
            patience: self.policy.patience,
            max_replacements: self.policy.max_replacements,
            cluster,
            kind,
            simulated,
            before,
            after,
            bought: facts.bought.unwrap_or_default(),
            lacking: self.gpus_for(lacking),
            constraints,
            layout: layout(tenant, &request.resource),
            slicing: facts.slicing.clone(),
            overcommit: self.policy.overcommit,
            ends: request.until,
        })
    }

    /// Returns the allowance before and after; `None` if nothing changes.
    fn step(&mut self) -> Option<(Allowance, Allowance)> {
        let (facts, request) = (self.facts, &self.facts.request);
        let known = facts.standing.is_some();
        let said = if known { "is the tenant's" } else { "is not the tenant's" };
        self.check("workspace.known", "workspace", known, format!("workspace {} {said}", request.workspace));
        let before = facts.standing?.allowance;
        let detail = match (&before, request.resource.gpu()) {
            (None, Some(kind)) => {
                let offer = GpuOffer::of(&kind.model, facts.slicing.as_ref());
                if facts.slicing.is_some() && offer.kind != *kind {
                    format!("the tenant's GPUs of {} are sliced: request {}", kind.model, offer.resource())
                } else {
                    let unknown = self.policy.gpu_models.no_model(&kind.model);
                    unknown.unwrap_or_else(|| format!("the tenant did not buy {kind}"))
                }
            }
            (None, None) => format!("{} has no limit: there is nothing to change", request.resource),
            (Some(line), _) => format!("{} is limited to {}", request.resource, line.nominal),
        };
        self.check("quota.resource", "resource", before.is_some(), detail);
        let before = before?;
        let after = request.apply_to(&before, facts.direction);
        let field = if request.lines.contains_key("by") { "by" } else { "to" };
        let holds = after.as_ref().is_some_and(|after| facts.direction.allows(&before, after));
        let (rule, word) = match facts.direction {
            Direction::Increase => ("quota.raises", "more"),
            Direction::Decrease => ("quota.lowers", "less"),
        };
        let to = after.map_or_else(|| "an amount below 0".to_owned(), |after| after.nominal.to_string());
        let detail = if after == Some(before) {
            format!("{to} is already in force, with these limits: change the amount or a limit")
        } else {
            format!("{to} must be {word} than {}, unless only limits change", before.nominal)
        };
        self.check(rule, field, holds, detail);
        Some((before, after?))
    }

    /// Checks the form of the request, and the quota in force.
    fn form(&mut self, tenant: &Tenant, before: &Allowance, after: &Allowance) {
        let (facts, request) = (self.facts, &self.facts.request);
        let lends = after.lending_limit.is_none_or(|limit| limit <= after.nominal);
        let detail = format!("a workspace can lend at most its own {}", after.nominal);
        self.check("quota.lends_its_own", "lending_limit", lends, detail);
        let more = after.borrowing_limit != before.borrowing_limit && after.borrowing_limit != Some(0);
        let detail = format!(
            "allow_preemption is {}; workloads that may not be preempted cannot borrow",
            tenant.allow_preemption
        );
        self.check(
            "preemption.needed_to_borrow",
            "borrowing_limit",
            !more || tenant.allow_preemption,
            detail,
        );
        if more && tenant.has_customers() {
            let holds = self.policy.lending.customer_sharing;
            let detail = "customers of a tenant may not borrow from each other".to_owned();
            self.check("multitenancy.sharing", "borrowing_limit", holds, detail);
        }
        if let Some(until) = request.until {
            let up = facts.direction == Direction::Increase;
            let detail = "only an increase can have an end, and the end must be in the future".to_owned();
            self.check("quota.ends_later", "until", up && until > facts.at, detail);
            let other = facts.ends.as_ref().filter(|ends| ends.at != until);
            let detail = match other {
                Some(ends) => format!(
                    "the workspace has a temporary quota that ends at {}: use the same end, or wait for it",
                    format_time(ends.at)
                ),
                None => "the workspace has no other temporary quota".into(),
            };
            self.check("quota.one_end", "until", other.is_none(), detail);
        }
        if facts.direction == Direction::Decrease {
            let reserved = facts.standing.map_or(0, |standing| standing.reserved);
            let detail = format!("{reserved} are reserved: end reservations first to go below");
            self.check("quota.covers_reservations", "to", after.nominal >= reserved, detail);
        }
        if request.ended {
            let due = facts.ends.as_ref().filter(|ends| ends.at <= facts.at);
            let agreed = due.and_then(|ends| ends.then.get(&request.resource)) == Some(after);
            self.check("quota.ended", "to", agreed, "the quota returns to its agreed amount".into());
        }
    }

    /// Checks the bought amount. Returns true if an approval for more is required.
    fn entitled(&mut self, more: u64) -> bool {
        let (stand, request) = (&self.facts.stand, &self.facts.request);
        let bought = self.facts.bought.unwrap_or_default();
        let asked = stand.nominal.saturating_add(more);
        let detail = format!("the workspaces would have {asked} of {bought} purchased");
        if !amount_fails(
            self.policy,
            const { RuleName::known("quota.within_entitlement") },
            stand,
            (more, bought),
        ) {
            self.check("quota.within_entitlement", "to", true, detail);
            return false;
        }
        let excepted = request.exception && request.until.is_some();
        if !excepted {
            let detail = format!("{detail}; to exceed the purchase, set `exception: true` and `until`");
            self.check("quota.within_entitlement", "exception", false, detail);
            return false;
        }
        self.asks("quota.within_entitlement", "exception", true, detail)
    }

    /// Checks that the tenant's cluster can ever have the missing amount.
    fn capacity(&mut self, lacking: u64, constraints: &Constraints) {
        let gpus = self.gpus_for(lacking);
        let detail = format!(
            "{} of {} owned GPUs are promised already, so nodes with {gpus} GPUs must be claimed",
            self.facts.stand.nominal.saturating_add(self.facts.stand.earmarked),
            self.facts.stand.owned
        );
        self.note("capacity.owned", "to", Judgement::Passed, detail);
        if lacking == 0 {
            return;
        }
        let allowed = self.eligible(constraints);
        let most =
            allowed.iter().map(|c| c.total.saturating_sub(buffer(c, constraints))).max().unwrap_or_default();
        let detail = format!("the tenant's cluster has {most} GPUs in all, without the buffer");
        self.check("capacity.ever_fits", "to", gpus <= most, detail);
    }

    /// Returns the eligible clusters, by the decision that `policy explain` and examples show.
    fn eligible(&self, constraints: &Constraints) -> Vec<&'a Candidate> {
        let facts = self.facts;
        let Some(Tenant { compliance: tags, .. }) = &facts.tenant else { return Vec::new() };
        let choice = ClusterChoiceFacts::of_tenant(constraints.clone(), tags, &facts.candidates);
        eligible_clusters(&choice, self.policy).answer.among(&facts.candidates)
    }

    /// Returns the GPUs for this number of pieces of the resource.
    fn gpus_for(&self, pieces: u64) -> Gpus {
        let request = &self.facts.request;
        let offer = request.resource.gpu().map(|kind| GpuOffer::of(&kind.model, self.facts.slicing.as_ref()));
        let plain = Gpus(u32::try_from(pieces).unwrap_or(u32::MAX));
        offer.map_or(plain, |offer| offer.gpus_for(pieces))
    }

    /// Returns the placement constraints: new nodes join the others, in the tenant's cluster.
    fn constraints(&self, tenant: &Tenant) -> Constraints {
        let here = self.facts.candidates.iter().find(|c| Some(&c.cluster) == tenant.cluster.as_ref());
        Constraints {
            tenant: tenant.id.clone(),
            residency: tenant.data_residency.clone(),
            regions: here.map(|here| BTreeSet::from([here.region.clone()])),
            cluster: tenant.cluster.clone(),
            isolation: tenant.isolation,
            kind: self.facts.cluster.map(|(kind, _)| kind),
            simulated: self.facts.cluster.map(|(_, simulated)| simulated),
            buffer: self.policy.buffer,
            buffers: self.policy.buffers.clone(),
            drivers: self.policy.drivers.clone(),
            pins: pins(&tenant.compliance, self.policy),
            apart: Vec::new(),
        }
    }

    /// Returns the seats for an increase; empty within the automatic limit.
    fn increase_seats(
        &mut self,
        before: &Allowance,
        more: u64,
        lacking: u64,
        exceeds: bool,
        constraints: &Constraints,
    ) -> (Option<String>, Vec<Seat>) {
        let request = &self.facts.request;
        let rules = &self.policy.approvals.quota_increase;
        let share = before.nominal.saturating_mul(u64::from(rules.auto_share.thousandths)) / 1_000;
        let offer = |model| GpuOffer::of(model, self.facts.slicing.as_ref());
        let auto =
            share.max(request.resource.gpu().map_or(0, |kind| offer(&kind.model).pieces(rules.auto_gpus)));
        let limits = request.borrowing_limit.is_some() || request.lending_limit.is_some();
        let allowed = self.eligible(constraints);
        let free: Gpus = allowed.iter().map(|c| usable(c, &self.facts.candidates, constraints)).sum();
        let taken = self.gpus_for(lacking);
        let asks = |rule, from, more| increase_asks(self.policy, rule, from, more, free);
        let cut = self.facts.slicing.is_some();
        let automatic = match request.resource.gpu() {
            Some(_) if !cut => {
                !asks(const { RuleName::known("approval.quota_increase") }, before.nominal, more)
            }
            Some(_) | None => more <= auto,
        };
        let small = automatic && !limits;
        let large =
            taken > Gpus::ZERO && asks(const { RuleName::known("approval.capacity") }, 0, u64::from(taken.0));
        let detail = format!("{more} more; up to {auto} more need no approval, other limits do");
        self.asks("approval.auto_limit", "by", !small, detail);
        let detail = format!(
            "the change takes {taken} of {free} free GPUs; above a share of {}, the capacity manager must approve",
            rules.capacity_share
        );
        self.asks("approval.capacity_share", "by", large, detail);
        let mut seats = rules.gate.seats.clone();
        if small && !large && !exceeds {
            return (Some("approval.auto_limit".into()), seats);
        }
        seats.extend(rules.capacity_seats.iter().filter(|_| large).cloned());
        seats.extend(self.policy.onboarding.finance_seats.iter().filter(|_| exceeds).cloned());
        (None, seats)
    }

    /// Returns the seats for a decrease; empty if usage is lower, or if the end was approved with the increase.
    fn decrease_seats(&mut self, after: &Allowance) -> (Option<String>, Vec<Seat>) {
        let used = self.facts.standing.map_or(0, |standing| standing.used);
        let seats = self.policy.approvals.quota_decrease.seats.clone();
        let ended = self.facts.request.ended;
        let detail = format!("{used} are in use; the new limit is {}", after.nominal);
        let over = used > after.nominal && !ended;
        self.asks("approval.in_use", "to", over, detail);
        let request = &self.facts.request;
        let limits = (request.borrowing_limit.is_some() || request.lending_limit.is_some()) && !ended;
        let detail = "other lending or borrowing limits need approval".to_owned();
        let over = self.asks("approval.other_limits", "lending_limit", limits, detail) || over;
        let rule = if ended { "quota.ended" } else { "approval.in_use" };
        ((!over).then(|| rule.to_owned()), seats)
    }
}

/// Returns the layout of the tenant's other nodes.
fn layout(tenant: &Tenant, resource: &Resource) -> Layout {
    resource.gpu().map_or(Layout::Whole, |kind| gpu_layout(tenant.isolation, &kind.model))
}

/// Returns a time in the format of requests.
pub(crate) fn format_time(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(chrono::DateTime::from_timestamp_millis);
    at.map_or_else(|| "the end of time".into(), |at| at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
}
