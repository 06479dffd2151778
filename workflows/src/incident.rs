//! Incident response: contain the incident first, diagnose and repair it with minimal disruption, then have it reviewed.
//!
//! Containment can be undone, and the undo reverts only its own changes: a node that another execution keeps out of service stays out. A hold
//! protects evidence from destruction. Steps that disturb running work need an approval. The page is `docs/workflows/incident_response.md`.

mod examples;
mod holds;
mod ledger;
mod record;
mod resources;

pub use holds::IncidentHold;
pub use ledger::Incident;
pub use record::{IncidentCause, IncidentResponse, Severity};

use crate::{
    incident::resources::{joined, uncordon},
    platform::{Platform, Recovery},
    tenancy::{ClusterId, NodeId, TenantId},
};
use engine::{
    DAY, HOUR, MINUTE, Outcome, Plan, Procedure, RetryPolicy, Rule, Seat, Step, Subject, Workflow, act,
    act_each, approval, end, when,
};
use holds::ReadIncidentHolds;
use ledger::{FreezeTenants, OpenIncident, ServeNode, ThawTenants};
use record::IncidentTriage;
use serde_json::json;

/// The state of an incident. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/incident_response.md"
)]
pub enum State {
    Triaging,
    Containing,
    RestingNode,
    Cordoning,
    NotingCordon,
    Inspecting,
    Judging,
    AwaitingRemedy,
    Evicting,
    AwaitingGone,
    Clearing,
    ChoosingRemedy,
    ResettingGpus,
    Rebooting,
    Examining,
    JudgingAgain,
    KeepingApart,
    Uncordoning,
    RestoringNode,
    RevokingKey,
    ReissuingKey,
    FreezingTenants,
    PlacingHolds,
    ReadingHolds,
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
                    .record(|me: &mut Self, opened: IncidentTriage| me.opened = Some(opened))
                    .then(Containing)
            }
            Containing => when(self.node().is_some(), "GPUs of a node", RestingNode)
                .or_when(self.is_leak(), "a key is known to others", RevokingKey)
                .waived_by(self.rule())
                .otherwise("tenants", FreezingTenants),

            // For a node: stop new work in the ledger and in its cluster, then inspect it without disturbing running work.
            RestingNode => act_each(self.rests())
                .undo_each(|rest| ServeNode { tenant: rest.tenant.clone(), node: rest.node.clone() })
                .record(Self::contained)
                .then(Cordoning),
            Cordoning => act_each(self.cordonings())
                .undo_each(|cordon| uncordon(cordon, None))
                .record(|me: &mut Self, by: String| me.cordons.push(by))
                .then(NotingCordon),
            NotingCordon => act_each(self.notes()).nothing_to_undo().then(Inspecting),
            // If the inspection fails, the node stays out of service. An undo would return it to service.
            Inspecting => act_each(self.inspections())
                .nothing_to_undo()
                .or_else(Judging)
                .record(Self::inspected)
                .within(30 * MINUTE)
                .then(Judging),
            Judging => when(self.fit, "the node has no fault", Uncordoning)
                .or_when(self.running.is_empty(), "no workload runs on it", Clearing)
                .waived_by(self.rule())
                .otherwise("workloads on it must move", AwaitingRemedy),
            AwaitingRemedy => approval(self.seats())
                .within(HOUR)
                .with_procedure(self.procedure())
                .granted(Evicting)
                .refused(AwaitingReview)
                .expired(AwaitingReview),

            // Evicts the running workloads. They may run elsewhere only after they were observed to be gone.
            Evicting => act_each(self.evictions()).forward_only().within(10 * MINUTE).then(AwaitingGone),
            AwaitingGone => act_each(self.absences())
                .nothing_to_undo()
                .retry(RetryPolicy::patient())
                .within(HOUR)
                .then(Clearing),
            Clearing => act_each(self.clearances()).forward_only().then(ChoosingRemedy),

            // Applies the driver's request. A reset without effect is followed by a reboot, and both by a thorough test.
            ChoosingRemedy => when(self.asks_for_reset(), "the driver requests a reset", ResettingGpus)
                .or_when(self.recovery == Recovery::Reboot, "the driver requests a reboot", Rebooting)
                .otherwise("the driver requests nothing", Examining),
            ResettingGpus => {
                act_each(self.resets()).forward_only().within(15 * MINUTE).or_else(Rebooting).then(Examining)
            }
            Rebooting => {
                act_each(self.reboots()).forward_only().within(HOUR).or_else(Examining).then(Examining)
            }
            Examining => act_each(self.examinations())
                .forward_only()
                .or_else(KeepingApart)
                .record(Self::examined)
                .attempt_within(45 * MINUTE)
                .within(2 * HOUR)
                .then(JudgingAgain),
            JudgingAgain => when(self.fit, "the node passed its test", Uncordoning)
                .otherwise("the node failed its test", KeepingApart),
            KeepingApart => act_each(self.quarantines())
                .forward_only()
                .record(|me: &mut Self, (): ()| me.settled = Some("the node is in quarantine".into()))
                .then(AwaitingReview),
            Uncordoning => act_each(self.uncordons()).nothing_to_undo().then(RestoringNode),
            RestoringNode => act_each(self.serves())
                .nothing_to_undo()
                .record(|me: &mut Self, (): ()| me.settled = Some("the node is in service again".into()))
                .then(AwaitingReview),

            // For a key: it is invalid from this commit on, and no other key changes.
            RevokingKey => act_each(self.revocations())
                .forward_only()
                .record(|me: &mut Self, (): ()| me.settled = Some(me.closed()))
                .then(ReissuingKey),
            ReissuingKey => act_each(self.issues()).forward_only().then(AwaitingReview),

            // For tenants: admits no new work, and prevents destruction until the incident is closed. A failed freeze or hold parks the incident
            // (`PROTECTS`). The texts for operators mention only holds that were read.
            FreezingTenants => act(FreezeTenants { tenants: self.tenants() })
                .undo(ThawTenants { tenants: self.tenants() })
                .then(PlacingHolds),
            PlacingHolds => act_each(self.hold_orders()).nothing_to_undo().then(ReadingHolds),
            ReadingHolds => act(ReadIncidentHolds { tenants: self.tenants() })
                .nothing_to_undo()
                .record(|me: &mut Self, holds: Vec<IncidentHold>| me.holds = Some(holds))
                .then(AwaitingClearance),
            AwaitingClearance => approval(self.seats())
                .within(5 * DAY)
                .with_procedure(self.procedure())
                .granted(ThawingTenants)
                .refused(Escalated)
                .expired(Escalated),
            ThawingTenants => act(ThawTenants { tenants: self.tenants() })
                .nothing_to_undo()
                .record(|me: &mut Self, (): ()| {
                    me.settled = Some("workloads of the tenants are admitted again".into())
                })
                .then(AwaitingReview),

            // The incident is reviewed. Without a review it is escalated.
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
            IncidentCause::GpuFault { node, .. } => format!("incident of node {node}"),
            IncidentCause::KeyLeak { cluster, .. } => format!("incident of the key of {cluster}"),
            IncidentCause::IsolationBreach { tenants } => format!("isolation of {}", joined(tenants)),
            IncidentCause::Other { tenants, what } => format!("{what} of {}", joined(tenants)),
        };
        let tenant = match self.tenants().as_slice() {
            [one] => one.to_string(),
            _ => String::new(),
        };
        // A second execution for the same incident is rejected and names this one.
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
                "moves": if self.fit { json!([]) } else { json!(self.moves()) },
                "recovery": self.recovery,
                "contains": self.contains(),
                "asks": self.seats(),
                "settled": self.settled,
            }),
            placement: json!({ "detector": self.detector, "evidence": self.evidence, "diagnosis": self.diagnosis }),
        }
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}

impl IncidentResponse {
    /// Returns a new response.
    #[must_use]
    pub fn new(happening: IncidentCause, detector: String, evidence: String) -> Self {
        Self {
            happening,
            detector,
            evidence,
            opened: None,
            running: Vec::new(),
            rested: false,
            owner_epoch: 0,
            cordons: Vec::new(),
            recovery: Recovery::Nothing,
            boot: String::new(),
            diagnosis: None,
            fit: false,
            settled: None,
            reported_by: String::new(),
            holds: None,
        }
    }

    /// Sets the reporter: a user or a service.
    #[must_use]
    pub fn reported_by(self, name: &str) -> Self {
        Self { reported_by: name.to_owned(), ..self }
    }

    fn node(&self) -> Option<(&TenantId, &ClusterId, &NodeId)> {
        match &self.happening {
            IncidentCause::GpuFault { tenant, cluster, node } => Some((tenant, cluster, node)),
            IncidentCause::KeyLeak { .. }
            | IncidentCause::IsolationBreach { .. }
            | IncidentCause::Other { .. } => None,
        }
    }

    fn is_leak(&self) -> bool {
        matches!(self.happening, IncidentCause::KeyLeak { .. })
    }

    /// Returns the tenants of the incident.
    fn tenants(&self) -> Vec<TenantId> {
        match &self.happening {
            IncidentCause::GpuFault { tenant, .. } | IncidentCause::KeyLeak { tenant, .. } => {
                vec![tenant.clone()]
            }
            IncidentCause::IsolationBreach { tenants } | IncidentCause::Other { tenants, .. } => {
                tenants.clone()
            }
        }
    }

    /// Returns the policy rule that replaces an approval if no work is disturbed.
    fn rule(&self) -> Rule {
        let none = || Rule { name: String::new(), version: String::new() };
        self.opened.as_ref().map_or_else(none, |opened| Rule {
            name: format!("{}/incident.containment", opened.policy.name),
            version: format!("{} {}", opened.policy.version, opened.policy.digest),
        })
    }

    fn procedure(&self) -> Procedure {
        self.opened.as_ref().map(|opened| opened.procedure.clone()).unwrap_or_default()
    }

    fn seats(&self) -> Vec<Seat> {
        let usual = || vec![Seat::new("platform_ops", 1)];
        self.opened.as_ref().map_or_else(usual, |opened| opened.seats.clone())
    }
}
