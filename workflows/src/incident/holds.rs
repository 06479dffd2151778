//! The holds that an incident places on its tenants, and their texts.
//!
//! Invariant: a sentence about holds is based on holds that were read as in force, never on orders.

use super::{IncidentCause, IncidentResponse, resources::joined};
use crate::{
    destruction::{Hold, HoldError, HoldKind, HoldRefused, HoldScope, Holds, PlaceHold, holds_of},
    foreign_text::is_unsafe,
    tenancy::TenantId,
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// The detector's name if none was given.
const NAMELESS: &str = "an unnamed detector";

/// Places the hold of an incident on one whole tenant. Places none if the destruction has begun, because a hold is then too late. Safe to decide
/// again: there is one hold for each incident. It has no undo: another person must release it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PlaceIncidentHold {
    pub(super) tenant: TenantId,
    pub(super) happening: IncidentCause,
    pub(super) detector: String,
    pub(super) evidence: String,
    #[serde(default)]
    pub(super) reported_by: String,
}

impl LedgerAction for PlaceIncidentHold {
    const NAME: &'static str = "PlaceIncidentHold";
    const PROTECTS: bool = true;
    type Output = Option<Hold>;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Option<Hold>, Undecided> {
        let id = hold_id(call.execution);
        if let Some(placed) = holds_of(view, &self.tenant)?.open.into_iter().find(|hold| hold.id == id) {
            return Ok(Some(placed));
        }
        let by = [&self.reported_by, &self.detector].into_iter().find(|name| !name.trim().is_empty());
        let order = PlaceHold {
            tenant: self.tenant.clone(),
            id,
            kind: HoldKind::Incident,
            scope: HoldScope::Tenant,
            reason: self.reason(call.execution),
            placed_by: clipped(by.map_or(NAMELESS, String::as_str), Hold::LONGEST_PERSON),
            placed_from: None,
            review_at: None,
        };
        match order.place(view)? {
            Ok(placed) => Ok(Some(placed)),
            Err(HoldRefused { error: HoldError::PastPivot { .. }, .. }) => Ok(None),
            Err(refused) => Err(refused.into()),
        }
    }
}

impl PlaceIncidentHold {
    /// Returns the reason of the hold. It is never empty, even without evidence.
    fn reason(&self, execution: ExecutionId) -> String {
        let kind = match &self.happening {
            IncidentCause::GpuFault { .. } => "gpu_fault",
            IncidentCause::KeyLeak { .. } => "key_leak",
            IncidentCause::IsolationBreach { .. } => "isolation_breach",
            IncidentCause::Other { what, .. } => what.as_str(),
        };
        let or = |text: &str, otherwise: &str| {
            if text.trim().is_empty() { otherwise.to_owned() } else { text.trim().to_owned() }
        };
        let (seen_by, evidence) = (or(&self.detector, NAMELESS), or(&self.evidence, "no evidence was given"));
        let reason = format!("incident {execution}: {kind}, seen by {seen_by}: {evidence}");
        clipped(&reason, Holds::LONGEST_REASON)
    }
}

/// Returns the text without unsafe terminal characters, in at most `longest` bytes.
fn clipped(text: &str, longest: usize) -> String {
    let plain: String = text.trim().chars().map(|c| if is_unsafe(c) { ' ' } else { c }).collect();
    let end = plain.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= longest).last();
    plain.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}

/// Returns the name of the hold. Each incident has its own hold.
fn hold_id(execution: ExecutionId) -> String {
    format!("incident-{execution}")
}

/// The protection of one tenant's data in an incident, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentHold {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The incident's hold, if it is in force.
    pub hold: Option<String>,
    /// The execution that has begun to destroy the tenant's data, if there is one.
    pub destroyed_by: Option<ExecutionId>,
}

/// Reads the holds of the incident that are in force. Changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReadIncidentHolds {
    pub(super) tenants: Vec<TenantId>,
}

impl LedgerAction for ReadIncidentHolds {
    const NAME: &'static str = "ReadIncidentHolds";
    const PROTECTS: bool = true;
    type Output = Vec<IncidentHold>;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Vec<IncidentHold>, Undecided> {
        view.prefetch::<Holds>(self.tenants.iter().map(ToString::to_string))?;
        let id = hold_id(call.execution);
        let mut read = Vec::new();
        for tenant in &self.tenants {
            let holds = holds_of(view, tenant)?;
            let hold = holds.covering(&HoldScope::Tenant).find(|hold| hold.id == id);
            read.push(IncidentHold {
                tenant: tenant.clone(),
                hold: hold.map(|hold| hold.id.clone()),
                destroyed_by: holds.pivot_over(&HoldScope::Tenant).map(|pivot| pivot.run),
            });
        }
        Ok(read)
    }
}

impl IncidentResponse {
    pub(super) fn hold_orders(&self) -> Vec<PlaceIncidentHold> {
        let order = |tenant: TenantId| PlaceIncidentHold {
            tenant,
            happening: self.happening.clone(),
            detector: self.detector.clone(),
            evidence: self.evidence.clone(),
            reported_by: self.reported_by.clone(),
        };
        self.tenants().into_iter().map(order).collect()
    }

    /// Returns a sentence about the containment of tenants. It promises protection of data only for holds that were read.
    pub(super) fn contains_tenants(&self) -> String {
        let tenants = self.tenants();
        if tenants.is_empty() {
            return "no tenant is named: nothing is frozen, and nothing is held".to_owned();
        }
        let frozen = format!("nothing new is admitted for {}", joined(&tenants));
        let Some(holds) = &self.holds else {
            // An incident of an earlier version: approvers voted on this exact text.
            if self.reported_by.is_empty() {
                return format!("{frozen}, and nothing of theirs is destroyed");
            }
            return format!(
                "{frozen}; a hold on everything of theirs is ordered, and is named here once it is in force"
            );
        };
        let kept = holds.iter().map(IncidentHold::sentence);
        std::iter::once(frozen).chain(kept).collect::<Vec<_>>().join("; ")
    }
}

impl IncidentHold {
    fn sentence(&self) -> String {
        let Self { tenant, hold, destroyed_by } = self;
        match (hold, destroyed_by) {
            (Some(hold), None) => {
                format!("nothing of {tenant} is destroyed while hold {tenant}/{hold} is in force")
            }
            (Some(hold), Some(run)) => format!(
                "hold {tenant}/{hold} is in force, but execution {run} had begun to destroy what is {tenant}'s"
            ),
            (None, Some(run)) => format!(
                "no hold of this incident is in force on {tenant}, and none can keep it: execution {run} has begun to destroy what is theirs"
            ),
            (None, None) => {
                format!("no hold of this incident is in force on {tenant}: what is theirs can be destroyed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(evidence: &str, what: &str) -> PlaceIncidentHold {
        let tenant: TenantId = "dd".parse().unwrap();
        let happening = IncidentCause::Other { tenants: vec![tenant.clone()], what: what.into() };
        let (detector, reported_by) = (String::new(), String::new());
        PlaceIncidentHold { tenant, happening, detector, evidence: evidence.into(), reported_by }
    }

    #[test]
    fn the_reason_of_an_incident_hold_always_fits() {
        let run = ExecutionId::from_bytes([7; 16]);
        let long = "ä".repeat(2_000);
        for (evidence, what) in [
            ("", "leak"),
            ("  \n", ""),
            (long.as_str(), "leak"),
            ("a\u{1b}[2Jb", "x"),
            ("seen", long.as_str()),
        ] {
            let reason = order(evidence, what).reason(run);
            assert!(reason.starts_with(&format!("incident {run}")), "{reason}");
            assert!(reason.len() <= Holds::LONGEST_REASON && !reason.contains(is_unsafe), "{reason}");
        }
        assert!(
            order("", "leak")
                .reason(run)
                .ends_with("leak, seen by an unnamed detector: no evidence was given")
        );
        assert!(hold_id(run).len() <= Hold::LONGEST_ID);
    }

    #[test]
    fn only_holds_that_were_read_are_notified() {
        let tenants = vec!["dd".parse().unwrap()];
        let response =
            IncidentResponse::new(IncidentCause::IsolationBreach { tenants }, "dcgm".into(), String::new());
        let said = |hold: Option<&str>, run: Option<ExecutionId>| {
            let read = IncidentHold {
                tenant: "dd".parse().unwrap(),
                hold: hold.map(ToOwned::to_owned),
                destroyed_by: run,
            };
            IncidentResponse { holds: Some(vec![read]), ..response.clone() }.contains_tenants()
        };

        // The plan of an earlier version keeps its digest. Other plans mention only holds that were read.
        assert_eq!(
            response.contains_tenants(),
            "nothing new is admitted for dd, and nothing of theirs is destroyed"
        );
        let reported = response.clone().reported_by("rita");
        assert!(!reported.contains_tenants().contains("is destroyed"));
        assert!(said(Some("h"), None).contains("nothing of dd is destroyed while hold dd/h is in force"));
        assert!(said(None, None).contains("what is theirs can be destroyed"));
        let run = ExecutionId::from_bytes([7; 16]);
        assert!(said(None, Some(run)).contains("has begun to destroy"));
    }
}
