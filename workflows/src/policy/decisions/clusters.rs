//! Selects the eligible clusters, and records the effect of each constraint.

use super::{ReasonCollector, Ruling};
use crate::{
    placement::{Candidate, ClassesApart, ConstraintEffect, Constraints, eligible},
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
    /// The classes of the tenant's workspaces, if these are its first nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub classes: BTreeSet<WorkspaceClass>,
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
        let (classes, neighbours) = (BTreeSet::new(), BTreeMap::new());
        Self { constraints, labels, class: None, classes, candidates, neighbours }
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
    constraints.apart = classes_apart(policy, &facts.classes.iter().copied().chain(facts.class).collect());
    let mut candidates = facts.candidates.clone();
    for candidate in &mut candidates {
        candidate.classes.extend(facts.neighbours.get(&candidate.cluster).into_iter().flatten());
    }
    let (left, considered) = eligible(&candidates, &constraints);
    let clusters: Vec<_> = left.iter().map(|candidate| candidate.cluster.clone()).collect();
    for step in &considered {
        let key = match step.constraint.as_str() {
            "pins" => pinned_at.values().next().map_or("pins", String::as_str),
            "anti colocate" => "lending.anti_colocate",
            _ => "policy",
        };
        scales.check(
            placement_rule(&step.constraint),
            key,
            !step.remaining().is_empty(),
            step.describe(usize::MAX),
        );
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
        "anti colocate" => const { RuleName::known("placement.anti_colocate") },
        _ => const { RuleName::known("placement.ever_fits") },
    }
}

/// Returns the pairs of classes that policy keeps in different clusters, for a tenant or workload with these classes (S-14).
#[must_use]
pub fn classes_apart(policy: &PlatformPolicy, classes: &BTreeSet<WorkspaceClass>) -> Vec<ClassesApart> {
    let mut apart = Vec::new();
    for pair in &policy.lending.anti_colocate {
        match pair.scope {
            ColocationScope::Node => continue,
            ColocationScope::Cluster => {}
        }
        for (own, other) in [(pair.class_a, pair.class_b), (pair.class_b, pair.class_a)] {
            if classes.contains(&own) {
                apart.push(ClassesApart { region: pair.region.clone(), own, other });
            }
        }
    }
    apart
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
            apart: vec![ClassesApart {
                region: None,
                own: WorkspaceClass::Production,
                other: WorkspaceClass::Research,
            }],
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
            classes: BTreeSet::new(),
        };
        let (_, considered) = eligible(&[candidate], &constraints);
        assert!(considered.len() >= 8, "{considered:?}");
        for step in considered {
            let expected = format!("placement.{}", step.constraint.replace(' ', "_"));
            assert_eq!(placement_rule(&step.constraint).as_str(), expected);
        }
    }
}
