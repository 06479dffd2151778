//! The actions of each step of an incident, derived from its results so far.

use super::{
    IncidentCause, IncidentResponse,
    ledger::{ClearNode, KeepApart, NoteCordon, RestNode, RestOutcome, ServeNode, triage},
};
use crate::{
    ledger::{IssueClusterKey, RevokeClusterKey},
    platform::{
        AwaitGone, CordonNode, Diagnosis, EvictWorkload, ExamineNode, GpuHealth, InspectGpus, RebootNode,
        Recovery, ResetGpus, UncordonNode,
    },
    tenancy::{ClusterId, NodeId, TenantId},
};
use engine::{Undecided, View};

/// Returns the action that removes a cordon of this platform.
pub(super) fn uncordon(of: &CordonNode, by: Option<String>) -> UncordonNode {
    let CordonNode { cluster, node, tenant, owner_epoch } = of.clone();
    UncordonNode { cluster, node, tenant, owner_epoch, by }
}

impl IncidentResponse {
    /// Returns a sentence about the containment.
    pub(super) fn contains(&self) -> String {
        match &self.happening {
            IncidentCause::GpuFault { node, .. } => {
                format!("nothing new is placed on node {node}, in the books and in its cluster")
            }
            IncidentCause::KeyLeak { cluster, .. } => {
                format!("the key of cluster {cluster} opens nothing any more")
            }
            IncidentCause::IsolationBreach { .. } | IncidentCause::Other { .. } => self.contains_tenants(),
        }
    }

    /// Returns the response after its triage. Changes nothing.
    ///
    /// # Errors
    /// The read errors of the view.
    pub fn triaged(self, view: &mut View) -> Result<Self, Undecided> {
        let opened = triage(view, &self.happening)?;
        Ok(Self { opened: Some(opened), ..self })
    }

    pub(super) fn contained(&mut self, rest: RestOutcome) {
        self.rested = rest.ours;
        self.owner_epoch = rest.owner_epoch;
        self.cordons = rest.cordons;
        self.running = rest.running;
    }

    pub(super) fn inspected(&mut self, health: GpuHealth) {
        self.fit = health.fit;
        self.recovery = health.recovery;
        self.boot = health.boot;
        self.diagnosis = Some(health.report);
    }

    pub(super) fn examined(&mut self, found: Diagnosis) {
        self.fit = found.fit;
        self.diagnosis = Some(found.report);
    }

    /// Returns the names of the workloads that would have to move.
    pub(super) fn moves(&self) -> Vec<&String> {
        self.running.iter().map(|workload| &workload.name).collect()
    }

    pub(super) fn asks_for_reset(&self) -> bool {
        match self.recovery {
            // Its peers are on the same node, which is empty by then.
            Recovery::Reset | Recovery::DrainAndReset | Recovery::DrainPeers => true,
            Recovery::Nothing | Recovery::Reboot => false,
        }
    }

    /// Returns one action for the node, if the incident is about a node.
    pub(super) fn on_node<A>(&self, make: impl Fn(&TenantId, &ClusterId, &NodeId) -> A) -> Vec<A> {
        self.node().map(|(tenant, cluster, node)| make(tenant, cluster, node)).into_iter().collect()
    }

    pub(super) fn rests(&self) -> Vec<RestNode> {
        self.on_node(|tenant, _, node| RestNode { tenant: tenant.clone(), node: node.clone() })
    }

    /// Only a node that this incident took out of service is cordoned by it. Cordons of others are not removed.
    pub(super) fn cordonings(&self) -> Vec<CordonNode> {
        let cordon = |tenant: &TenantId, cluster: &ClusterId, node: &NodeId| CordonNode {
            cluster: cluster.to_string(),
            node: node.to_string(),
            tenant: tenant.to_string(),
            owner_epoch: self.owner_epoch,
        };
        self.on_node(cordon).into_iter().filter(|_| self.rested).collect()
    }

    pub(super) fn uncordons(&self) -> Vec<UncordonNode> {
        let lifted =
            |cordon: CordonNode| self.cordons.iter().map(move |by| uncordon(&cordon, Some(by.clone())));
        self.cordonings().into_iter().flat_map(lifted).collect()
    }

    pub(super) fn notes(&self) -> Vec<NoteCordon> {
        let note = |node: &NodeId, by: &String| NoteCordon { node: node.clone(), by: by.clone() };
        let node = self.node().map(|(_, _, node)| node);
        node.into_iter().flat_map(|node| self.cordons.iter().map(move |by| note(node, by))).collect()
    }

    pub(super) fn inspections(&self) -> Vec<InspectGpus> {
        self.on_node(|_, cluster, node| InspectGpus { cluster: cluster.to_string(), node: node.to_string() })
    }

    pub(super) fn evictions(&self) -> Vec<EvictWorkload> {
        self.running.iter().map(|workload| EvictWorkload { workload: workload.clone() }).collect()
    }

    pub(super) fn absences(&self) -> Vec<AwaitGone> {
        self.running.iter().map(|workload| AwaitGone { workload: workload.clone() }).collect()
    }

    pub(super) fn clearances(&self) -> Vec<ClearNode> {
        self.on_node(|tenant, _, node| ClearNode { tenant: tenant.clone(), node: node.clone() })
    }

    pub(super) fn resets(&self) -> Vec<ResetGpus> {
        self.on_node(|_, cluster, node| ResetGpus { cluster: cluster.to_string(), node: node.to_string() })
    }

    pub(super) fn reboots(&self) -> Vec<RebootNode> {
        self.on_node(|_, cluster, node| RebootNode {
            cluster: cluster.to_string(),
            node: node.to_string(),
            boot: self.boot.clone(),
        })
    }

    pub(super) fn examinations(&self) -> Vec<ExamineNode> {
        self.on_node(|_, cluster, node| ExamineNode { cluster: cluster.to_string(), node: node.to_string() })
    }

    pub(super) fn quarantines(&self) -> Vec<KeepApart> {
        self.on_node(|tenant, _, node| KeepApart { tenant: tenant.clone(), node: node.clone() })
    }

    /// Returns the node to service, if this incident took it out.
    pub(super) fn serves(&self) -> Vec<ServeNode> {
        let serve = |tenant: &TenantId, _: &ClusterId, node: &NodeId| ServeNode {
            tenant: tenant.clone(),
            node: node.clone(),
        };
        self.on_node(serve).into_iter().filter(|_| self.rested).collect()
    }

    pub(super) fn revocations(&self) -> Vec<RevokeClusterKey> {
        match &self.happening {
            IncidentCause::KeyLeak { tenant, cluster, .. } => {
                vec![RevokeClusterKey { cluster: cluster.clone(), tenant: tenant.clone() }]
            }
            IncidentCause::GpuFault { .. }
            | IncidentCause::IsolationBreach { .. }
            | IncidentCause::Other { .. } => Vec::new(),
        }
    }

    /// Returns a sentence about a leaked key, with the command for the next key if none was included in the report.
    pub(super) fn closed(&self) -> String {
        let closed = "the key is revoked";
        match &self.happening {
            IncidentCause::KeyLeak { cluster, next_hash: None, .. } => {
                format!("{closed}; `tenure cluster key rotate {cluster}` issues the next key")
            }
            IncidentCause::KeyLeak { .. }
            | IncidentCause::GpuFault { .. }
            | IncidentCause::IsolationBreach { .. }
            | IncidentCause::Other { .. } => closed.into(),
        }
    }

    pub(super) fn issues(&self) -> Vec<IssueClusterKey> {
        match &self.happening {
            IncidentCause::KeyLeak { tenant, cluster, next_hash: Some(hash) } => vec![IssueClusterKey {
                cluster: cluster.clone(),
                tenant: tenant.clone(),
                hash: Some(hash.clone()),
            }],
            IncidentCause::KeyLeak { .. }
            | IncidentCause::GpuFault { .. }
            | IncidentCause::IsolationBreach { .. }
            | IncidentCause::Other { .. } => Vec::new(),
        }
    }
}

pub(super) fn joined(tenants: &[TenantId]) -> String {
    tenants.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}
