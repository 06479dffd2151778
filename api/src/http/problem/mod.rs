//! Errors of the API, as RFC 9457 problems.

pub(crate) mod code;
pub(crate) mod denial;

use crate::{state::document_pool::Crowded, types::problems::Fault};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use code::ProblemCode;
use denial::{DenialReason, Requester};
use engine::{ActionError, Class, Error, Refusal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use workflows::{
    fleet::NODE_NOT_FREE,
    ledger::{KEY_ORPHANED, KEYS_OVERLAP},
    policy::{Finding, Invalid},
};

/// Codes of action errors for missing ledger entries.
const NOT_FOUND_CODES: [&str; 4] =
    ["ledger.missing", "workspace.unknown", "workload.unknown", "schedule.unknown"];

/// Codes of commands that a schedule does not accept in its present state.
const SCHEDULE_CODES: [&str; 3] = ["schedule.already", "schedule.full", "schedule.not_waiting"];

/// A problem to be returned to the caller.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: ProblemCode,
    /// The code of an action's error, if it differs from that of the table.
    name: Option<String>,
    detail: String,
    faults: Vec<Fault>,
    more: BTreeMap<String, Value>,
    /// The authenticated caller, for a refusal.
    asker: Option<Box<Requester>>,
}

impl Problem {
    /// Creates a problem with a code of the table and a detail.
    pub(crate) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            name: None,
            detail: detail.into(),
            faults: Vec::new(),
            more: BTreeMap::new(),
            asker: None,
        }
    }

    /// Adds the faults with their positions.
    pub(crate) fn at(mut self, faults: Vec<Fault>) -> Self {
        self.faults = faults;
        self
    }

    /// Adds a member.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    /// Sets the authenticated caller.
    pub(crate) fn to(mut self, asker: Requester) -> Self {
        self.asker = Some(Box::new(asker));
        self
    }

    /// The problem of a resource that does not exist, or that the caller may not see.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        let id: String = id.chars().take(128).collect();
        Self::new(ProblemCode::NotFound, format!("there is no {what} {id}"))
    }

    /// The problem of an invalid document.
    pub(crate) fn invalid(invalid: &Invalid) -> Self {
        Self::new(ProblemCode::DocumentInvalid, invalid.to_string()).at(invalid
            .findings
            .iter()
            .map(fault_of)
            .collect())
    }

    /// The problem of an action's error outside of an execution. It keeps the code of the error; `docs/operations.md` lists them.
    pub(crate) fn of_action(error: ActionError) -> Self {
        let code = match error.class {
            Class::Permanent if error.code == "user.exists" => ProblemCode::UserExists,
            Class::Permanent if error.code == "token.exists" => ProblemCode::TokenExists,
            Class::Permanent if error.code == "idempotency.secret_shown" => ProblemCode::SecretShown,
            Class::Permanent if error.code == KEYS_OVERLAP => ProblemCode::KeysOverlap,
            Class::Permanent if error.code == KEY_ORPHANED => ProblemCode::KeyOrphaned,
            Class::Permanent if error.code == "review.own" => ProblemCode::ReviewOwn,
            Class::Permanent if error.code == "group.exists" => ProblemCode::GroupExists,
            Class::Permanent if error.code == "delegation.not_yours" => ProblemCode::DelegationForeign,
            Class::Permanent if NOT_FOUND_CODES.contains(&error.code.as_str()) => ProblemCode::Unknown,
            Class::Permanent if error.code == "workload.differs" => ProblemCode::WorkloadDiffers,
            Class::Permanent if error.code == "line.full" => ProblemCode::LineFull,
            Class::Permanent if error.code == "tenant.leaves" => ProblemCode::TenantLeaves,
            Class::Permanent if error.code == "reservation.beyond_nominal" => ProblemCode::BeyondNominal,
            Class::Permanent if error.code == "reservation.differs" => ProblemCode::ReservationDiffers,
            Class::Permanent if error.code == NODE_NOT_FREE => ProblemCode::NodeNotFree,
            Class::Permanent if error.code == "schedule.changed" => ProblemCode::ScheduleChanged,
            Class::Permanent if error.code == "request.stale_tag" => ProblemCode::StaleTag,
            Class::Permanent if error.code == "idempotency.key_reused" => ProblemCode::KeyReused,
            Class::Permanent if error.code == "idempotency.lost" => ProblemCode::KeyInUse,
            Class::Permanent if SCHEDULE_CODES.contains(&error.code.as_str()) => ProblemCode::ScheduleRefused,
            Class::Permanent => ProblemCode::DocumentInvalid,
            Class::Transient | Class::Unknown | Class::Pending { .. } => ProblemCode::StoreUnavailable,
        };
        Self { name: Some(error.code), ..Self::new(code, error.message) }
    }

    /// Returns the code in the table.
    pub(crate) fn code(&self) -> ProblemCode {
        self.code
    }

    /// Returns the authenticated caller.
    pub(super) fn asked_by(&self) -> Option<&str> {
        self.asker.as_deref().map(|asker| asker.name.as_str())
    }

    /// Returns the detail.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        let (_, status, ..) = self.code.facts();
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the reason for the audit, if the problem is a refusal.
    pub(super) fn refusal(&self) -> Option<DenialReason> {
        let (name, ..) = self.code.facts();
        let code = self.name.as_deref().unwrap_or(name).to_owned();
        let asker = self.asker.as_deref().cloned();
        let (status, why) = (self.status(), self.detail.clone());
        DenialReason::may_be(status).then_some(DenialReason { status, code, why, asker })
    }

    /// Returns the problem as JSON.
    pub(crate) fn body(&self) -> Value {
        let (code, status, title, remedy) = self.code.facts();
        let name = self.name.as_deref().unwrap_or(code);
        let mut body = json!({
            "type": address(name),
            "title": title,
            "status": status,
            "detail": self.detail,
            "code": name,
            "remedy": remedy,
        });
        if let Some(fields) = body.as_object_mut() {
            if !self.faults.is_empty() {
                fields.insert("errors".into(), json!(self.faults));
            }
            fields.extend(self.more.clone());
        }
        body
    }
}

/// Returns the URL that explains a code.
pub(super) fn address(code: &str) -> String {
    format!("/problems/{code}")
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut answer = (self.status(), self.body().to_string()).into_response();
        answer.extensions_mut().insert(self.code);
        if let Some(refused) = self.refusal() {
            answer.extensions_mut().insert(refused);
        }
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        }
        if self.code == ProblemCode::KeyInUse {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status() == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        }
        answer
    }
}

fn fault_of(finding: &Finding) -> Fault {
    Fault {
        pointer: pointer(&finding.field),
        message: format!("{}; {}", finding.problem, finding.remedy),
        line: finding.at.map(|spot| spot.line),
        column: finding.at.map(|spot| spot.column),
    }
}

/// Converts `workspaces[0].name` to `/workspaces/0/name`.
fn pointer(field: &str) -> String {
    let plain = field.replace(']', "").replace('[', ".");
    plain.split('.').filter(|part| !part.is_empty()).map(|part| format!("/{part}")).collect()
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Store(error) => error.into(),
            Error::NotFound(id) => Self::not_found("execution", &id.to_string()),
            Error::Undecided(error) => Self::of_action(error),
            Error::NoWorker { .. } => Self::new(ProblemCode::NoWorker, error.to_string()),
            Error::Unreadable { .. } => Self::new(ProblemCode::Unreadable, error.to_string()),
            Error::Destroyed { .. } => Self::new(ProblemCode::Destroyed, error.to_string()),
            Error::KeyReused { .. } => Self::new(ProblemCode::KeyReused, error.to_string()),
            Error::NeedsParent { .. } => Self::new(ProblemCode::NeedsParent, error.to_string()),
            Error::NeedsSecond { .. } => Self::new(ProblemCode::NeedsSecond, error.to_string()),
            Error::NoProposal { id } => Self::not_found("proposal", &id),
            Error::Contended(_) | Error::Crowded { .. } => {
                Self::new(ProblemCode::Contended, error.to_string())
            }
        }
    }
}

impl From<Crowded> for Problem {
    fn from(crowded: Crowded) -> Self {
        Self::new(ProblemCode::RateExceeded, crowded.to_string())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Finished => ProblemCode::Finished,
            Refusal::ForwardOnly { .. } => ProblemCode::PastPivot,
            Refusal::Stale => ProblemCode::Stale,
            Refusal::Unexpected { .. } => ProblemCode::Unexpected,
            Refusal::SignalNotAwaited { .. } => ProblemCode::SignalNotAwaited,
            Refusal::Unwinding => ProblemCode::Unwinding,
            Refusal::Already(_) => ProblemCode::Already,
            Refusal::Unrepairable { .. } => ProblemCode::RepairNotNow,
            Refusal::BadRepair { .. } => ProblemCode::RepairInvalid,
            Refusal::NotStatable { .. } => ProblemCode::RepairObservation,
            Refusal::SamePerson { .. } => ProblemCode::SamePerson,
            Refusal::OwnRequest { .. } => ProblemCode::OwnRequest,
            Refusal::NotEntitled { .. } => ProblemCode::NotEntitled,
            Refusal::Decided { .. } => ProblemCode::Decided,
            Refusal::VotedBefore { .. } => ProblemCode::VotedBefore,
            Refusal::PlanChanged { .. } => ProblemCode::PlanChanged,
            Refusal::ForRequester { .. } => ProblemCode::ForRequester,
            Refusal::NotSeparate { .. } => ProblemCode::NotSeparate,
            Refusal::NotDelegated { .. } => ProblemCode::NotDelegated,
            Refusal::ReasonMissing { .. } => ProblemCode::DecisionUnexplained,
            Refusal::NoBreakGlass { .. } => ProblemCode::NoGlass,
            Refusal::BreakGlassDestroys { .. } => ProblemCode::GlassDestroys,
            Refusal::NoVote { .. } => ProblemCode::NoVote,
            Refusal::TooLate { .. } => ProblemCode::NotWaiting,
            // Codes differ between versions; the code of the refusing server is used if this version knows it.
            Refusal::Elsewhere { code, .. } => ProblemCode::named(code).unwrap_or(ProblemCode::Unexpected),
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        let detail = error.to_string();
        match error {
            store::Error::Busy { holder, .. } => {
                Self::new(ProblemCode::Busy, detail).with("execution", holder.to_string())
            }
            store::Error::Conflict { .. } => Self::new(ProblemCode::Conflict, detail),
            store::Error::TooLarge { .. } => Self::new(ProblemCode::TooLarge, detail),
            store::Error::Invalid { .. } => Self::new(ProblemCode::Malformed, detail),
            store::Error::Full { .. } => Self::new(ProblemCode::StoreFull, detail),
            store::Error::Corrupt { .. } => Self::new(ProblemCode::Unreadable, detail),
            store::Error::Fenced { .. } | store::Error::Unavailable { .. } | store::Error::Refused { .. } => {
                Self::new(ProblemCode::StoreUnavailable, detail)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Fault;

    fn errors() -> Vec<Error> {
        let text = String::new;
        let id = store::ExecutionId::from_bytes([7; 16]);
        let task = store::TaskId { execution: id, visit: 1, slot: 0 };
        let stored = [
            store::Error::Conflict { what: text() },
            store::Error::Busy { guard: text(), holder: id },
            store::Error::Fenced { task, epoch: store::Epoch(1) },
            store::Error::TooLarge { what: text(), size: 2, limit: 1 },
            store::Error::Invalid { what: text() },
            store::Error::Full { what: text() },
            store::Error::Unavailable { why: text() },
            store::Error::Corrupt { what: text(), why: text() },
            store::Error::Refused { why: text() },
        ];
        let decided =
            [ActionError::permanent("quota.none", "no"), ActionError::transient("store.slow", "not now")];
        let own = [
            Error::NotFound(id),
            Error::NoWorker { workflow: text(), schema: 1 },
            Error::Unreadable { id, why: text() },
            Error::Destroyed { id, what: text() },
            Error::KeyReused { key: text(), execution: id },
            Error::NeedsSecond { command: "cancel" },
            Error::NoProposal { id: text() },
            Error::NeedsParent { workflow: text() },
            Error::Crowded { what: text() },
            Error::Contended(id),
            Error::Refused(Refusal::Finished),
        ];
        stored.map(Error::Store).into_iter().chain(decided.map(Error::Undecided)).chain(own).collect()
    }

    #[test]
    fn an_error_has_status_4xx_exactly_if_the_caller_must_change_the_request() {
        for error in errors() {
            let (fault, told) = (error.fault(), format!("{error:?}"));
            let answer = Problem::from(error).into_response();
            let status = answer.status();
            let agrees = match fault {
                Fault::Caller | Fault::Conflict => status.is_client_error(),
                Fault::Unavailable => [503, 507].contains(&status.as_u16()),
                Fault::Server => status == StatusCode::INTERNAL_SERVER_ERROR,
            };
            assert!(agrees, "{told} is {fault:?} and was answered with {status}");
            let says_when = answer.headers().contains_key(header::RETRY_AFTER);
            assert!(says_when || status != StatusCode::SERVICE_UNAVAILABLE, "{told}");
        }
    }

    #[test]
    fn a_field_becomes_a_json_pointer() {
        assert_eq!(pointer("workspaces[0].name"), "/workspaces/0/name");
        assert_eq!(pointer(""), "");
    }
}
