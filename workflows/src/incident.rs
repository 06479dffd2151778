//! Incident response: contain first, find out, mend with as little harm as possible, and have somebody look at it.
//!
//! What containment does can be taken back, and takes back only its own: a node that somebody else keeps out of service stays
//! out. Evidence is kept from destruction by a hold. What would disturb work that runs asks people. The page is
//! `docs/workflows/incident_response.md`.

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

            // A node: nothing new on it, in the books and in its cluster; then a look that disturbs nobody.
            RestingNode => act_each(self.rests())
                .undo_each(|rest| ServeNode { tenant: rest.tenant.clone(), node: rest.node.clone() })
                .record(Self::contained)
                .then(Cordoning),
            Cordoning => act_each(self.cordonings())
                .undo_each(|cordon| uncordon(cordon, None))
                .record(|me: &mut Self, by: String| me.cordons.push(by))
                .then(NotingCordon),
            NotingCordon => act_each(self.notes()).nothing_to_undo().then(Inspecting),
            // What could not be found out does not serve: to turn back would put the node into service.
            Inspecting => act_each(self.inspections())
                .nothing_to_undo()
                .or_else(Judging)
                .record(Self::inspected)
                .within(30 * MINUTE)
                .then(Judging),
            Judging => when(self.fit, "nothing speaks against the node", Uncordoning)
                .or_when(self.running.is_empty(), "nobody runs on it", Clearing)
                .waived_by(self.rule())
                .otherwise("who runs on it has to move", AwaitingRemedy),
            AwaitingRemedy => approval(self.seats())
                .within(HOUR)
                .with_procedure(self.procedure())
                .granted(Evicting)
                .refused(AwaitingReview)
                .expired(AwaitingReview),

            // Who runs there ends, and is another's or elsewhere only once nothing of it is left.
            Evicting => act_each(self.evictions()).forward_only().within(10 * MINUTE).then(AwaitingGone),
            AwaitingGone => act_each(self.absences())
                .nothing_to_undo()
                .retry(RetryPolicy::patient())
                .within(HOUR)
                .then(Clearing),
            Clearing => act_each(self.clearances()).forward_only().then(ChoosingRemedy),

            // What the driver asks for; a reset that does not help is followed by a reboot, and both by a thorough test.
            ChoosingRemedy => when(self.asks_for_reset(), "its driver asks for a reset", ResettingGpus)
                .or_when(self.recovery == Recovery::Reboot, "its driver asks for a reboot", Rebooting)
                .otherwise("its driver asks for nothing", Examining),
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
            JudgingAgain => {
                when(self.fit, "the node is fit again", Uncordoning).otherwise("it is not", KeepingApart)
            }
            KeepingApart => act_each(self.quarantines())
                .forward_only()
                .record(|me: &mut Self, (): ()| me.settled = Some("the node is kept apart".into()))
                .then(AwaitingReview),
            Uncordoning => act_each(self.uncordons()).nothing_to_undo().then(RestoringNode),
            RestoringNode => act_each(self.serves())
                .nothing_to_undo()
                .record(|me: &mut Self, (): ()| me.settled = Some("the node serves again".into()))
                .then(AwaitingReview),

            // A key: it opens nothing from this commit on, and no other key is touched.
            RevokingKey => act_each(self.revocations())
                .forward_only()
                .record(|me: &mut Self, (): ()| me.settled = Some(me.closed()))
                .then(ReissuingKey),
            ReissuingKey => act_each(self.issues()).forward_only().then(AwaitingReview),

            // Tenants: nothing new runs, and nothing of theirs is destroyed, until people say that it is over. A freeze or a
            // hold that fails parks the incident (`PROTECTS`), and people are told of the holds that were read.
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
                .record(|me: &mut Self, (): ()| me.settled = Some("they are admitted again".into()))
                .then(AwaitingReview),

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
            IncidentCause::GpuFault { node, .. } => format!("incident of node {node}"),
            IncidentCause::KeyLeak { cluster, .. } => format!("incident of the key of {cluster}"),
            IncidentCause::IsolationBreach { tenants } => format!("isolation of {}", joined(tenants)),
            IncidentCause::Other { tenants, what } => format!("{what} of {}", joined(tenants)),
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
    /// A response that begins.
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

    /// The same, reported by this person or service.
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

    /// Whom it concerns.
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

    /// The rule that stands for people where nobody is disturbed.
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
