//! Answers that are not what was asked for, as RFC 9457 problems.

pub(crate) mod code;
pub(crate) mod denial;

use crate::{state::document_pool::Crowded, types::problems::Fault};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use code::Code;
use denial::{Asker, Refused};
use engine::{ActionError, Class, Error, Refusal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use workflows::{
    ledger::{KEY_ORPHANED, KEYS_OVERLAP},
    policy::{Finding, Invalid},
};

/// Codes of actions that say that the books have no such thing.
const UNKNOWN: [&str; 4] = ["ledger.missing", "workspace.unknown", "workload.unknown", "schedule.unknown"];

/// Codes of what a schedule does not take as it stands.
const SCHEDULE: [&str; 3] = ["schedule.already", "schedule.full", "schedule.not_waiting"];

/// A problem on its way to the caller.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: Code,
    /// What it is called, if not by its code: an action's error has a name of its own.
    name: Option<String>,
    detail: String,
    faults: Vec<Fault>,
    more: BTreeMap<String, Value>,
    /// Who asked, where it is known when the answer is no.
    asker: Option<Box<Asker>>,
}

impl Problem {
    /// A problem of the table, in this case for this reason.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            name: None,
            detail: detail.into(),
            faults: Vec::new(),
            more: BTreeMap::new(),
            asker: None,
        }
    }

    /// The same, naming the places.
    pub(crate) fn at(mut self, faults: Vec<Fault>) -> Self {
        self.faults = faults;
        self
    }

    /// The same, with one more member.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    /// The same, of somebody who has proved to be this.
    pub(crate) fn to(mut self, asker: Asker) -> Self {
        self.asker = Some(Box::new(asker));
        self
    }

    /// There is no such thing, or none that the caller may see.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        let id: String = id.chars().take(128).collect();
        Self::new(Code::NotFound, format!("there is no {what} {id}"))
    }

    /// What is wrong with a document that was sent.
    pub(crate) fn invalid(invalid: &Invalid) -> Self {
        Self::new(Code::DocumentInvalid, invalid.to_string()).at(invalid
            .findings
            .iter()
            .map(fault_of)
            .collect())
    }

    /// An action's error, told outside of any execution. Its code is its own; `docs/operations.md` lists them.
    pub(crate) fn of_action(error: ActionError) -> Self {
        let code = match error.class {
            Class::Permanent if error.code == "user.exists" => Code::UserExists,
            Class::Permanent if error.code == "token.exists" => Code::TokenExists,
            Class::Permanent if error.code == "idempotency.secret_shown" => Code::SecretShown,
            Class::Permanent if error.code == KEYS_OVERLAP => Code::KeysOverlap,
            Class::Permanent if error.code == KEY_ORPHANED => Code::KeyOrphaned,
            Class::Permanent if error.code == "review.own" => Code::ReviewOwn,
            Class::Permanent if error.code == "group.exists" => Code::GroupExists,
            Class::Permanent if error.code == "delegation.not_yours" => Code::DelegationForeign,
            Class::Permanent if UNKNOWN.contains(&error.code.as_str()) => Code::Unknown,
            Class::Permanent if error.code == "workload.differs" => Code::WorkloadDiffers,
            Class::Permanent if error.code == "line.full" => Code::LineFull,
            Class::Permanent if error.code == "tenant.leaves" => Code::TenantLeaves,
            Class::Permanent if error.code == "reservation.beyond_nominal" => Code::BeyondNominal,
            Class::Permanent if error.code == "reservation.differs" => Code::ReservationDiffers,
            Class::Permanent if error.code == "schedule.changed" => Code::ScheduleChanged,
            Class::Permanent if error.code == "request.stale_tag" => Code::StaleTag,
            Class::Permanent if error.code == "idempotency.key_reused" => Code::KeyReused,
            Class::Permanent if error.code == "idempotency.lost" => Code::KeyInUse,
            Class::Permanent if SCHEDULE.contains(&error.code.as_str()) => Code::ScheduleRefused,
            Class::Permanent => Code::DocumentInvalid,
            Class::Transient | Class::Unknown | Class::Pending { .. } => Code::StoreUnavailable,
        };
        Self { name: Some(error.code), ..Self::new(code, error.message) }
    }

    /// Which problem of the table it is.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Who asked, where it was proved.
    pub(super) fn asked_by(&self) -> Option<&str> {
        self.asker.as_deref().map(|asker| asker.name.as_str())
    }

    /// What is wrong in this case.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The status it is answered with.
    pub(crate) fn status(&self) -> StatusCode {
        let (_, status, ..) = self.code.facts();
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What is to be told of it if it is a refusal.
    pub(super) fn refusal(&self) -> Option<Refused> {
        let (name, ..) = self.code.facts();
        let code = self.name.as_deref().unwrap_or(name).to_owned();
        let asker = self.asker.as_deref().cloned();
        let (status, why) = (self.status(), self.detail.clone());
        Refused::may_be(status).then_some(Refused { status, code, why, asker })
    }

    /// The problem as JSON.
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

/// The type of the problem of this code: where it is explained.
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
        if self.code == Code::KeyInUse {
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

/// `workspaces[0].name` as `/workspaces/0/name`.
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
            Error::NoWorker { .. } => Self::new(Code::NoWorker, error.to_string()),
            Error::Unreadable { .. } => Self::new(Code::Unreadable, error.to_string()),
            Error::Destroyed { .. } => Self::new(Code::Destroyed, error.to_string()),
            Error::KeyReused { .. } => Self::new(Code::KeyReused, error.to_string()),
            Error::NeedsParent { .. } => Self::new(Code::NeedsParent, error.to_string()),
            Error::NeedsSecond { .. } => Self::new(Code::NeedsSecond, error.to_string()),
            Error::NoProposal { id } => Self::not_found("proposal", &id),
            Error::Contended(_) | Error::Crowded { .. } => Self::new(Code::Contended, error.to_string()),
        }
    }
}

impl From<Crowded> for Problem {
    fn from(crowded: Crowded) -> Self {
        Self::new(Code::RateExceeded, crowded.to_string())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Finished => Code::Finished,
            Refusal::ForwardOnly { .. } => Code::PastPivot,
            Refusal::Stale => Code::Stale,
            Refusal::Unexpected { .. } => Code::Unexpected,
            Refusal::Unwinding => Code::Unwinding,
            Refusal::Already(_) => Code::Already,
            Refusal::Unrepairable { .. } => Code::RepairNotNow,
            Refusal::BadRepair { .. } => Code::RepairInvalid,
            Refusal::SamePerson { .. } => Code::SamePerson,
            Refusal::OwnRequest { .. } => Code::OwnRequest,
            Refusal::NotEntitled { .. } => Code::NotEntitled,
            Refusal::Decided { .. } => Code::Decided,
            Refusal::VotedBefore { .. } => Code::VotedBefore,
            Refusal::PlanChanged { .. } => Code::PlanChanged,
            Refusal::ForRequester { .. } => Code::ForRequester,
            Refusal::NotSeparate { .. } => Code::NotSeparate,
            Refusal::NotDelegated { .. } => Code::NotDelegated,
            Refusal::ReasonMissing { .. } => Code::DecisionUnexplained,
            Refusal::NoBreakGlass { .. } => Code::NoGlass,
            Refusal::BreakGlassDestroys { .. } => Code::GlassDestroys,
            Refusal::NoVote { .. } => Code::NoVote,
            Refusal::TooLate { .. } => Code::NotWaiting,
            // Versions may differ in their codes; that of the one that refused is kept where this one has it.
            Refusal::Elsewhere { code, .. } => Code::named(code).unwrap_or(Code::Unexpected),
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        let detail = error.to_string();
        match error {
            store::Error::Busy { holder, .. } => {
                Self::new(Code::Busy, detail).with("execution", holder.to_string())
            }
            store::Error::Conflict { .. } => Self::new(Code::Conflict, detail),
            store::Error::TooLarge { .. } => Self::new(Code::TooLarge, detail),
            store::Error::Invalid { .. } => Self::new(Code::Malformed, detail),
            store::Error::Full { .. } => Self::new(Code::StoreFull, detail),
            store::Error::Corrupt { .. } => Self::new(Code::Unreadable, detail),
            store::Error::Fenced { .. } | store::Error::Unavailable { .. } | store::Error::Refused { .. } => {
                Self::new(Code::StoreUnavailable, detail)
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
    fn an_error_is_answered_with_4xx_exactly_if_the_caller_has_to_change_something() {
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
    fn a_field_is_pointed_at() {
        assert_eq!(pointer("workspaces[0].name"), "/workspaces/0/name");
        assert_eq!(pointer(""), "");
    }
}
