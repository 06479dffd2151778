//! Selects the eligible clusters, and records the effect of each constraint.

use super::{ReasonCollector, Ruling};
use crate::{
    placement::{Candidate, ConstraintEffect, Constraints, eligible},
    policy::{ColocationScope, PlatformPolicy, RuleName},
    tenancy::{ClusterId, Compliance, WorkspaceClass},
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The facts of a cluster choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterChoiceFacts {
    /// The constraints. Pins of policy are added.
    pub constraints: Constraints,
    /// Labels of the workload, and compliance tags of its tenant.
    pub labels: BTreeSet<String>,
    /// The class of its workspace; `None` for a tenant's nodes, which all its workspaces share.
    #[serde(default)]
    pub class: Option<WorkspaceClass>,
    /// All clusters.
    pub candidates: Vec<Candidate>,
    /// The classes that already run in each cluster.
    #[serde(default)]
    pub neighbours: BTreeMap<ClusterId, BTreeSet<WorkspaceClass>>,
}

/// The eligible clusters. If empty, waiting does not help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EligibleClusters {
    /// The clusters by name.
    pub clusters: Vec<ClusterId>,
    /// The clusters before and after each constraint, and the reason for each exclusion (S-86, S-87).
    pub considered: Vec<ConstraintEffect>,
}

impl EligibleClusters {
    /// Returns the eligible clusters among `candidates`, by name.
    #[must_use]
    pub fn among<'a>(&self, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
        let find = |id: &ClusterId| candidates.iter().find(|candidate| candidate.cluster == *id);
        self.clusters.iter().filter_map(find).collect()
    }
}

impl ClusterChoiceFacts {
    /// Returns the facts about the nodes of a tenant with these tags.
    #[must_use]
    pub fn of_tenant(
        constraints: Constraints,
        tags: &BTreeSet<Compliance>,
        candidates: &[Candidate],
    ) -> Self {
        let labels = tags.iter().map(|tag| <&str>::from(*tag).to_owned()).collect();
        let candidates = candidates.to_vec();
        Self { constraints, labels, class: None, candidates, neighbours: BTreeMap::new() }
    }
}

/// Selects the eligible clusters.
///
/// A full cluster stays eligible: the request waits for capacity. Without any eligible cluster it is rejected.
#[must_use]
pub fn eligible_clusters(facts: &ClusterChoiceFacts, policy: &PlatformPolicy) -> Ruling<EligibleClusters> {
    let mut scales = ReasonCollector::new(policy);
    let mut constraints = facts.constraints.clone();
    let mut pinned_at = BTreeMap::new();
    for (n, pin) in policy.pins.iter().enumerate().filter(|(_, pin)| facts.labels.contains(&pin.label)) {
        constraints.pins.insert(pin.label.clone(), pin.cluster.clone());
        pinned_at.insert(pin.label.clone(), format!("pins[{n}]"));
    }
    let (left, mut considered) = eligible(&facts.candidates, &constraints);
    let mut clusters: Vec<_> = left.iter().map(|candidate| candidate.cluster.clone()).collect();
    for step in &considered {
        let key = match step.constraint.as_str() {
            "pins" => pinned_at.values().next().map_or("pins", String::as_str),
            _ => "policy",
        };
        scales.check(
            placement_rule(&step.constraint),
            key,
            !step.remaining().is_empty(),
            step.describe(usize::MAX),
        );
    }
    let apart = colocation(facts, &left, policy);
    if !apart.excluded.is_empty() {
        clusters.retain(|cluster| !apart.excluded.contains_key(cluster));
        scales.check(
            const { RuleName::known("placement.anti_colocate") },
            "lending.anti_colocate",
            !clusters.is_empty(),
            apart.describe(usize::MAX),
        );
        considered.push(apart);
    }
    scales.finish(EligibleClusters { clusters, considered })
}

/// Returns the rule of a placement constraint.
fn placement_rule(constraint: &str) -> RuleName {
    match constraint {
        "gpu model" => const { RuleName::known("placement.gpu_model") },
        "region" => const { RuleName::known("placement.region") },
        "data residency" => const { RuleName::known("placement.data_residency") },
        "isolation" => const { RuleName::known("placement.isolation") },
        "approved kind" => const { RuleName::known("placement.approved_kind") },
        "pins" => const { RuleName::known("placement.pins") },
        "readiness" => const { RuleName::known("placement.readiness") },
        _ => const { RuleName::known("placement.ever_fits") },
    }
}

/// Excludes clusters with a class that may not meet this one.
fn colocation(facts: &ClusterChoiceFacts, left: &[&Candidate], policy: &PlatformPolicy) -> ConstraintEffect {
    let whole = |scope| match scope {
        ColocationScope::Cluster => true,
        ColocationScope::Node => false,
    };
    let before = left.iter().map(|candidate| candidate.cluster.clone()).collect();
    let Some(class) = facts.class else {
        return ConstraintEffect { constraint: "anti-colocation".into(), before, excluded: BTreeMap::new() };
    };
    let rules: Vec<_> = policy.lending.anti_colocate.iter().filter(|pair| whole(pair.scope)).collect();
    let mut excluded = BTreeMap::new();
    for candidate in left {
        let there = facts.neighbours.get(&candidate.cluster).into_iter().flatten();
        let mut met =
            there.filter(|other| rules.iter().any(|pair| pair.forbids(&candidate.region, class, **other)));
        if let Some(other) = met.next() {
            let why = format!("runs {}, kept apart from {}", <&str>::from(*other), <&str>::from(class));
            excluded.insert(candidate.cluster.clone(), why);
        }
    }
    ConstraintEffect { constraint: "anti-colocation".into(), before, excluded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::{ClusterKind, Gpus, Isolation, Residency, Tenancy};

    /// S-86: a placement constraint without its own rule would be recorded under another rule.
    #[test]
    fn every_constraint_of_placement_has_its_own_rule() {
        let constraints = Constraints {
            tenant: "acme".parse().unwrap(),
            residency: Residency::Any,
            regions: None,
            cluster: None,
            isolation: Isolation::DedicatedNodes,
            kind: None,
            simulated: None,
            buffer: Gpus::ZERO,
            buffers: BTreeMap::new(),
            drivers: Vec::new(),
            pins: BTreeMap::from([("gdpr".to_owned(), "eu-1".parse().unwrap())]),
        };
        let candidate = Candidate {
            cluster: "eu-1".parse().unwrap(),
            region: "eu-west".parse().unwrap(),
            jurisdiction: "eu".parse().unwrap(),
            kind: ClusterKind::Kubernetes,
            simulated: true,
            tenancy: Tenancy::Shared,
            total: Gpus(8),
            free: Gpus(8),
            buffer: Gpus::ZERO,
            unready: vec!["no probe image".to_owned()],
        };
        let (_, considered) = eligible(&[candidate], &constraints);
        assert!(considered.len() >= 7, "{considered:?}");
        for step in considered {
            let expected = format!("placement.{}", step.constraint.replace(' ', "_"));
            assert_eq!(placement_rule(&step.constraint).as_str(), expected);
        }
    }
}
