//! Finds contradictions in a policy whose values are each readable, such as promises that its own rules break.

use crate::{
    policy::{
        PlatformPolicy, Rung,
        duration::show,
        parsing::{finding::Finding, provenance::Provenance},
        sections::procedures::doubts as doubts_of,
    },
    tenancy::is_gpu_product,
};
use engine::Seat;
use std::collections::{BTreeMap, BTreeSet};

/// Collects findings.
struct FindingCollector<'a> {
    provenance: &'a Provenance,
    findings: Vec<Finding>,
}

impl FindingCollector<'_> {
    fn add(&mut self, key: &str, problem: String, remedy: &str) {
        let at = self.provenance.spot(key);
        self.findings.push(Finding::new(at, key, problem, remedy.into()));
    }
}

/// Returns every contradiction in `policy`, by key. A policy with a contradiction is rejected.
pub(super) fn contradictions(policy: &PlatformPolicy) -> Vec<Finding> {
    let mut doubts = FindingCollector { provenance: &policy.provenance, findings: Vec::new() };
    seats(policy, &mut doubts);
    lending(policy, &mut doubts);
    reclaim(policy, &mut doubts);
    ladder(policy, &mut doubts);
    destruction(policy, &mut doubts);
    places(policy, &mut doubts);
    doubts.findings
}

impl PlatformPolicy {
    /// Returns promises that the policy's own approvals may break, and aliases of unknown models. Such a policy cannot be published. An earlier
    /// published policy with them stays readable, and `tenure doctor` lists it while it is in force.
    #[must_use]
    pub fn broken_promises(&self) -> Vec<Finding> {
        let mut doubts = FindingCollector { provenance: &self.provenance, findings: Vec::new() };
        let (gate, deadline) = (&self.approvals.reclaim, self.reclaim.deadline);
        let longest = gate.within.saturating_add(gate.procedure.extend.unwrap_or_default());
        if longest > deadline {
            let (longest, deadline) = (show(longest), show(deadline));
            let problem = format!(
                "the approval of a reclaim may take {longest}, but the deadline of a reclaim is {deadline}"
            );
            let remedy =
                "let `within` and `extend` together be at most `reclaim.deadline`, or set a longer deadline";
            doubts.add("approvals.reclaim.within", problem, remedy);
        }
        for (alias, model) in &self.gpu_models.aliases {
            let Some(unknown) = self.gpu_models.no_model(model) else { continue };
            let remedy = "name a model of `gpu_models`, or a known product";
            doubts.add(
                &format!("aliases.{alias}"),
                format!("{alias} is not an alias of a known model: {unknown}"),
                remedy,
            );
        }
        doubts.findings
    }
}

/// Data destruction needs two approvers, and every approval needs time to answer.
fn seats(policy: &PlatformPolicy, doubts: &mut FindingCollector<'_>) {
    let gates = &policy.approvals;
    let people = |seats: &[Seat]| seats.iter().map(|seat| seat.count).sum::<u32>();
    if people(&gates.destroy.seats) < 2 {
        let problem = "one person can decide about a destruction".into();
        doubts.add("approvals.destroy.seats", problem, "require at least two approvers");
    }
    for (n, next) in gates.destroy.procedure.escalate.iter().enumerate() {
        if people(&next.seats) < 2 {
            let problem = "one person can decide about a destruction".into();
            doubts.add(
                &format!("approvals.destroy.escalate[{n}].seats"),
                problem,
                "require at least two approvers",
            );
        }
    }
    if gates.destroy.procedure.break_glass.as_ref().is_some_and(|glass| !glass.destroys) {
        let problem = "a break-glass decision would destroy data, but `destroys` is not set".into();
        let remedy = "leave `break_glass` out, or add `destroys: true`";
        doubts.add("approvals.destroy.break_glass", problem, remedy);
    }
    let asked = &policy.onboarding;
    for (field, problem, remedy) in doubts_of(&asked.procedure, &asked.seats, asked.within) {
        doubts.add(&format!("approvals.onboarding.{field}"), problem, remedy);
    }
    let plain = [
        ("quota_increase", &gates.quota_increase.gate),
        ("quota_decrease", &gates.quota_decrease),
        ("reclaim", &gates.reclaim),
        ("offboard", &gates.offboard),
        ("destroy", &gates.destroy),
        ("sla_change", &gates.sla_change),
        ("incident", &gates.incident),
    ];
    let rungs = gates.capacity.iter().map(|(rung, gate)| (format!("capacity.{}", <&str>::from(*rung)), gate));
    for (name, gate) in plain.into_iter().map(|(name, gate)| (name.to_owned(), gate)).chain(rungs) {
        if gate.within.is_zero() {
            let problem = "approvers have no time to answer, so the approval always lapses".into();
            doubts.add(&format!("approvals.{name}.within"), problem, "set a duration such as `1h`");
        }
        for (field, problem, remedy) in doubts_of(&gate.procedure, &gate.seats, gate.within) {
            doubts.add(&format!("approvals.{name}.{field}"), problem, remedy);
        }
        if gate.seats.iter().any(|seat| seat.any_of.iter().all(|role| role == "auditor")) {
            let problem = "an auditor cannot decide, so the seat stays empty".into();
            doubts.add(&format!("approvals.{name}.seats"), problem, "name a role that can decide");
        }
    }
}

fn lending(policy: &PlatformPolicy, doubts: &mut FindingCollector<'_>) {
    let lending = &policy.lending;
    if lending.min_runtime > lending.max_duration {
        let (least, most) = (show(lending.min_runtime), show(lending.max_duration));
        let problem = format!("a loan is protected for {least} and ends after {most}");
        doubts.add("lending.min_runtime", problem, "set at most `max_duration`");
    }
    for (n, pair) in lending.anti_colocate.iter().enumerate().filter(|(_, pair)| pair.class_a == pair.class_b)
    {
        let class = <&str>::from(pair.class_a);
        let problem = format!("{class} is kept apart from itself, so two workspaces of it can never run");
        doubts.add(&format!("lending.anti_colocate[{n}]"), problem, "name two classes");
    }
    let increase = &policy.approvals.quota_increase;
    if increase.auto_share > super::Ratio::ONE {
        let problem = format!("a workspace may grow by {} without approval", increase.auto_share);
        doubts.add("approvals.quota_increase.auto.share", problem, "write a share of at most 1");
    }
}

fn reclaim(policy: &PlatformPolicy, doubts: &mut FindingCollector<'_>) {
    let scrub = &policy.reclaim.scrub;
    if scrub.cross_workspace < scrub.same_workspace {
        let problem = "memory is cleaned less between workspaces than within one".into();
        doubts.add("reclaim.scrub.cross_workspace", problem, "write at least what `same_workspace` says");
    }
    if scrub.sensitive < scrub.cross_workspace {
        let problem = "sensitive memory is cleaned less than other memory".into();
        doubts.add("reclaim.scrub.sensitive", problem, "write at least what `cross_workspace` says");
    }
    let confirm = &policy.reclaim.confirm;
    let takes = confirm.apart.saturating_mul(confirm.reads.saturating_sub(1));
    if takes > policy.reclaim.limits.confirm {
        let (takes, limit) = (show(takes), show(policy.reclaim.limits.confirm));
        let problem =
            format!("{} observations take {takes}, but the limit of the step is {limit}", confirm.reads);
        doubts.add("reclaim.confirm", problem, "set fewer observations, or raise `reclaim.limits.confirm`");
    }
}

/// S-140: each rung occurs once, and only rungs on a ladder have an approval.
fn ladder(policy: &PlatformPolicy, doubts: &mut FindingCollector<'_>) {
    let capacity = &policy.capacity;
    if capacity.recovered <= capacity.threshold {
        let problem = format!(
            "capacity counts as exhausted below {}, and as recovered from {} on",
            capacity.threshold, capacity.recovered
        );
        doubts.add("capacity.recovered", problem, "set more than `threshold`");
    }
    let mut climbed: BTreeSet<Rung> = BTreeSet::new();
    for (tier, rungs) in &capacity.ladder {
        let mut seen = BTreeSet::new();
        for (n, rung) in rungs.iter().enumerate() {
            climbed.insert(*rung);
            if !seen.insert(*rung) {
                let problem =
                    format!("{} is listed twice, so the second is never reached", <&str>::from(*rung));
                let key = format!("capacity.ladder.{}[{n}]", <&str>::from(*tier));
                doubts.add(&key, problem, "remove one of them");
            }
        }
    }
    for rung in policy.approvals.capacity.keys().filter(|rung| !climbed.contains(rung)) {
        let name = <&str>::from(*rung);
        let problem = format!("an approval is set for the measure {name}, which is in no tier's ladder");
        let remedy = "add the measure to a ladder, or remove its approval";
        doubts.add(&format!("approvals.capacity.{name}"), problem, remedy);
    }
}

fn destruction(policy: &PlatformPolicy, doubts: &mut FindingCollector<'_>) {
    for (n, rule) in policy.retention.iter().enumerate() {
        let together = |other: &&super::Retention| {
            other.class == rule.class && (other.tag.is_none() || rule.tag.is_none() || other.tag == rule.tag)
        };
        let shortest = policy.retention.iter().filter(together).filter_map(|other| other.max).min();
        if let Some(max) = shortest.filter(|max| rule.min > *max) {
            let problem =
                format!("{} is kept for at least {} and at most {}", rule.class, show(rule.min), show(max));
            doubts.add(
                &format!("retention[{n}].min"),
                problem,
                "set at most the smallest `max` of the class",
            );
        }
    }
    for (tier, methods) in &policy.sanitisation.by_tier {
        for (medium, method) in methods {
            let least = policy.sanitisation.minimum.get(medium);
            if let Some(least) = least.filter(|least| method < *least) {
                let (medium, method, least) =
                    (<&str>::from(*medium), <&str>::from(*method), <&str>::from(*least));
                let key = format!("sanitisation.by_tier.{}.{medium}", <&str>::from(*tier));
                let problem = format!("{method} is weaker than the minimum, {least}");
                doubts.add(&key, problem, "set the minimum or a stronger method");
            }
        }
    }
}

/// A label is pinned to one cluster, and an alias is not the name of a model.
fn places(policy: &PlatformPolicy, doubts: &mut FindingCollector<'_>) {
    let mut seen = BTreeMap::new();
    for alias in policy.gpu_models.aliases.keys() {
        if policy.gpu_models.get(alias).is_some() || is_gpu_product(alias) {
            let problem = format!("{alias} is the name of a model, so it cannot be an alias");
            doubts.add(&format!("aliases.{alias}"), problem, "remove the alias");
        }
    }
    for (n, pin) in policy.pins.iter().enumerate() {
        let first = seen.entry(&pin.label).or_insert(&pin.cluster);
        if **first != pin.cluster {
            let problem = format!(
                "{} is pinned to both {first} and {}, so it can run in no cluster",
                pin.label, pin.cluster
            );
            doubts.add(&format!("pins[{n}]"), problem, "pin it to one cluster");
        }
    }
}
