//! Incident response: contain first, find out, mend with as little harm as possible, and have somebody look at it.
//!
//! What containment does can be taken back, and takes back only its own: a node that somebody else keeps out of service stays
//! out. Evidence is kept from destruction by a hold. What would disturb work that runs asks people. The page is
//! `docs/workflows/incident_response.md`.

mod examples;
mod ledger;

pub use ledger::{Incident, Severity};

use crate::{
    actuators::{DiagnoseNode, Diagnosis, Level, codes},
    destruction::{Digest, Hold, HoldKind, PlaceHold, Scope},
    ledger::{IssueClusterKey, RevokeClusterKey},
    platform::Platform,
    tenancy::{ClusterId, NodeId, TenantId},
};
use engine::{
    DAY, HOUR, MINUTE, Outcome, Plan, Rule, Seat, Step, Subject, Workflow, act, act_each, approval, end, when,
};
use ledger::{EvacuateNode, FreezeTenants, OpenIncident, Opened, RestNode, ServeNode, ThawTenants};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Happening {
    /// GPUs of a node report errors.
    GpuFault {
        /// Whose node it is.
        tenant: TenantId,
        /// In which cluster.
        cluster: ClusterId,
        /// Which node.
        node: NodeId,
    },
    /// A cluster's key is known to others (S-9).
    KeyLeak {
        /// Whose it is.
        tenant: TenantId,
        /// Of which cluster.
        cluster: ClusterId,
        /// SHA-256 of the secret of the key that follows, in hexadecimal; without one no key follows.
        next_hash: Option<String>,
    },
    /// Tenants were not kept apart (S-24).
    IsolationBreach {
        /// Whom it concerns.
        tenants: Vec<TenantId>,
    },
    /// Anything else that people have to clear.
    Other {
        /// Whom it concerns.
        tenants: Vec<TenantId>,
        /// What kind of thing it is, such as `sanitisation_failed` or `reclaim_stuck`.
        what: String,
    },
}

/// What happened, and what has been learnt and done about it. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncidentResponse {
    /// What happened.
    pub happening: Happening,
    /// Who saw it.
    pub detector: String,
    /// What was seen.
    pub evidence: String,
    /// How bad it is, and who is asked. Filled by `Triaging`.
    pub opened: Option<Opened>,
    /// Workloads on the node when it was contained.
    pub running: Vec<String>,
    /// Whether it was this incident that took the node out of service.
    pub rested: bool,
    /// What was found.
    pub diagnosis: Option<String>,
    /// Whether the node may serve.
    pub fit: bool,
}

/// Where an incident stands. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/incident_response.md"
)]
pub enum State {
    Triaging,
    Containing,
    RestingNode,
    Diagnosing,
    Judging,
    AwaitingRemedy,
    Evacuating,
    RestoringNode,
    RevokingKey,
    ReissuingKey,
    FreezingTenants,
    PlacingHolds,
    AwaitingClearance,
    ThawingTenants,
    AwaitingReview,
    Closed,
    Escalated,
}

impl Workflow for IncidentResponse {
    const NAME: &'static str = "incident_response";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Triaging;
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        match state {
            Triaging => {
                act(OpenIncident { happening: self.happening.clone(), detector: self.detector.clone() })
                    .nothing_to_undo()
                    .record(|me: &mut Self, opened: Opened| me.opened = Some(opened))
                    .then(Containing)
            }
            Containing => when(self.node().is_some(), "GPUs of a node", RestingNode)
                .or_when(self.is_leak(), "a key is known to others", RevokingKey)
                .waived_by(self.rule())
                .otherwise("tenants", FreezingTenants),

            // A node: nothing new on it, then a look; who runs on a node that is unfit moves, after people have agreed.
            RestingNode => act_each(self.rests())
                .undo_each(|rest| ServeNode { tenant: rest.tenant.clone(), node: rest.node.clone() })
                .record(|me: &mut Self, (rested, running): (bool, Vec<String>)| {
                    me.rested = rested;
                    me.running = running;
                })
                .then(Diagnosing),
            // What was found unfit, and what could not be found out, do not serve: to turn back would put the node into service.
            Diagnosing => act_each(self.diagnoses())
                .nothing_to_undo()
                .on_failure(codes::NODE_UNFIT, Judging)
                .or_else(Judging)
                .record(|me: &mut Self, found: Diagnosis| {
                    me.fit = found.fit;
                    me.diagnosis = Some(found.report);
                })
                .attempt_within(45 * MINUTE)
                .within(2 * HOUR)
                .then(Judging),
            Judging => when(self.fit, "the node is fit", RestoringNode)
                .or_when(self.running.is_empty(), "nobody runs on it", Evacuating)
                .waived_by(self.rule())
                .otherwise("who runs on it has to move", AwaitingRemedy),
            AwaitingRemedy => approval(self.seats())
                .within(HOUR)
                .granted(Evacuating)
                .refused(AwaitingReview)
                .expired(AwaitingReview),
            Evacuating => act_each(self.evacuations()).forward_only().then(AwaitingReview),
            RestoringNode => act_each(self.serves()).nothing_to_undo().then(AwaitingReview),

            // A key: it opens nothing from this commit on, and no other key is touched.
            RevokingKey => act_each(self.revocations()).forward_only().then(ReissuingKey),
            ReissuingKey => act_each(self.issues()).forward_only().then(AwaitingReview),

            // Tenants: nothing new runs, and nothing of theirs is destroyed, until people say that it is over.
            FreezingTenants => act(FreezeTenants { tenants: self.tenants() })
                .undo(ThawTenants { tenants: self.tenants() })
                .then(PlacingHolds),
            PlacingHolds => {
                act_each(self.holds()).nothing_to_undo().or_else(AwaitingClearance).then(AwaitingClearance)
            }
            AwaitingClearance => approval(self.seats())
                .within(5 * DAY)
                .granted(ThawingTenants)
                .refused(Escalated)
                .expired(Escalated),
            ThawingTenants => {
                act(ThawTenants { tenants: self.tenants() }).nothing_to_undo().then(AwaitingReview)
            }

            // Somebody looks at how it went. What nobody reviews goes up.
            AwaitingReview => {
                approval([Seat { any_of: vec!["platform_ops".into(), "security".into()], count: 1 }])
                    .within(5 * DAY)
                    .granted(Closed)
                    .refused(Escalated)
                    .expired(Escalated)
            }
            Closed | Escalated => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        let name = match &self.happening {
            Happening::GpuFault { node, .. } => format!("incident of node {node}"),
            Happening::KeyLeak { cluster, .. } => format!("incident of the key of {cluster}"),
            Happening::IsolationBreach { tenants } => format!("isolation of {}", joined(tenants)),
            Happening::Other { tenants, what } => format!("{what} of {}", joined(tenants)),
        };
        let tenant = match self.tenants().as_slice() {
            [one] => one.to_string(),
            _ => String::new(),
        };
        // The same happening again is the same incident: a second one is refused, and names this.
        Subject { tenant, guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        Plan {
            title: self.subject().name,
            decides: json!({
                "kind": "incident_response",
                "happening": self.happening,
                "severity": self.opened.as_ref().map(|opened| opened.severity),
                "policy": self.opened.as_ref().map(|opened| &opened.policy),
                "moves": if self.fit { json!([]) } else { json!(self.running) },
            }),
            placement: json!({ "detector": self.detector, "evidence": self.evidence, "diagnosis": self.diagnosis }),
        }
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}

/// The name of the hold on what an incident is about. A long one is cut, as a hold whose name is too long would not be placed.
fn hold_of(incident: &str) -> String {
    let whole = format!("incident {incident}");
    if whole.len() <= Hold::LONGEST_ID {
        return whole;
    }
    let digest = Digest::of_bytes(incident.as_bytes());
    let room = Hold::LONGEST_ID.saturating_sub(digest.short().len() + 1);
    let head: String =
        whole.char_indices().take_while(|(at, c)| at + c.len_utf8() <= room).map(|(_, c)| c).collect();
    format!("{head} {}", digest.short())
}

fn joined(tenants: &[TenantId]) -> String {
    tenants.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

impl IncidentResponse {
    /// A response that begins.
    #[must_use]
    pub fn new(happening: Happening, detector: String, evidence: String) -> Self {
        Self {
            happening,
            detector,
            evidence,
            opened: None,
            running: Vec::new(),
            rested: false,
            diagnosis: None,
            fit: false,
        }
    }

    fn node(&self) -> Option<(&TenantId, &ClusterId, &NodeId)> {
        match &self.happening {
            Happening::GpuFault { tenant, cluster, node } => Some((tenant, cluster, node)),
            Happening::KeyLeak { .. } | Happening::IsolationBreach { .. } | Happening::Other { .. } => None,
        }
    }

    fn is_leak(&self) -> bool {
        matches!(self.happening, Happening::KeyLeak { .. })
    }

    /// Whom it concerns.
    fn tenants(&self) -> Vec<TenantId> {
        match &self.happening {
            Happening::GpuFault { tenant, .. } | Happening::KeyLeak { tenant, .. } => vec![tenant.clone()],
            Happening::IsolationBreach { tenants } | Happening::Other { tenants, .. } => tenants.clone(),
        }
    }

    /// The rule that stands for people where nobody is disturbed.
    fn rule(&self) -> Rule {
        let none = || Rule { name: String::new(), version: String::new() };
        self.opened.as_ref().map_or_else(none, |opened| Rule {
            name: format!("{}/incident.containment", opened.policy.name),
            version: format!("{} {}", opened.policy.version, opened.policy.digest),
        })
    }

    fn seats(&self) -> Vec<Seat> {
        let usual = || vec![Seat::of("platform_ops", 1)];
        self.opened.as_ref().map_or_else(usual, |opened| opened.seats.clone())
    }

    fn rests(&self) -> Vec<RestNode> {
        let rest = |(tenant, _, node): (&TenantId, &ClusterId, &NodeId)| RestNode {
            tenant: tenant.clone(),
            node: node.clone(),
        };
        self.node().map(rest).into_iter().collect()
    }

    fn diagnoses(&self) -> Vec<DiagnoseNode> {
        let look = |(_, cluster, node): (&TenantId, &ClusterId, &NodeId)| DiagnoseNode {
            cluster: cluster.to_string(),
            node: node.to_string(),
            level: Level::Long,
        };
        self.node().map(look).into_iter().collect()
    }

    fn evacuations(&self) -> Vec<EvacuateNode> {
        let leave = |(tenant, _, node): (&TenantId, &ClusterId, &NodeId)| EvacuateNode {
            tenant: tenant.clone(),
            node: node.clone(),
        };
        self.node().map(leave).into_iter().collect()
    }

    /// The node back in service, if it was this incident that took it out.
    fn serves(&self) -> Vec<ServeNode> {
        let serve = |(tenant, _, node): (&TenantId, &ClusterId, &NodeId)| ServeNode {
            tenant: tenant.clone(),
            node: node.clone(),
        };
        self.node().filter(|_| self.rested).map(serve).into_iter().collect()
    }

    fn revocations(&self) -> Vec<RevokeClusterKey> {
        match &self.happening {
            Happening::KeyLeak { tenant, cluster, .. } => {
                vec![RevokeClusterKey { cluster: cluster.clone(), tenant: tenant.clone() }]
            }
            Happening::GpuFault { .. } | Happening::IsolationBreach { .. } | Happening::Other { .. } => {
                Vec::new()
            }
        }
    }

    fn issues(&self) -> Vec<IssueClusterKey> {
        match &self.happening {
            Happening::KeyLeak { tenant, cluster, next_hash: Some(hash) } => vec![IssueClusterKey {
                cluster: cluster.clone(),
                tenant: tenant.clone(),
                hash: Some(hash.clone()),
            }],
            Happening::KeyLeak { .. }
            | Happening::GpuFault { .. }
            | Happening::IsolationBreach { .. }
            | Happening::Other { .. } => Vec::new(),
        }
    }

    fn holds(&self) -> Vec<PlaceHold> {
        let hold = |tenant: TenantId| PlaceHold {
            tenant,
            id: hold_of(&self.subject().name),
            kind: HoldKind::Incident,
            scope: Scope::Tenant,
            reason: self.evidence.clone(),
            placed_by: self.detector.clone(),
            review_at: None,
        };
        self.tenants().into_iter().map(hold).collect()
    }
}
