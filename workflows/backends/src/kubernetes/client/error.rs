//! What an answer of the API server, or the lack of one, means for an action.
//!
//! The class of a failure is chosen here and nowhere else: by status and reason, never by whether a message looks bad.

use engine::ActionError;
use serde_json::Value;
use std::time::Duration;
use workflows::platform::{LOOK_AGAIN, codes};

/// The longest that a server is left alone at its own request: what asks for more is looked at again after this.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// An answer that is no success, in the server's words.
#[derive(Clone, Debug, Default)]
pub(in crate::kubernetes) struct Refusal {
    pub(in crate::kubernetes) status: u16,
    pub(in crate::kubernetes) message: String,
    /// The object that the refusal speaks of; empty when it speaks of none.
    pub(in crate::kubernetes) name: String,
    pub(in crate::kubernetes) causes: Vec<Cause>,
    pub(in crate::kubernetes) retry_after: Option<Duration>,
    /// What was asked, for people.
    pub(in crate::kubernetes) about: String,
    /// Whether the request could change something.
    pub(in crate::kubernetes) changing: bool,
}

/// One of the causes of a refusal.
#[derive(Clone, Debug, Default)]
pub(in crate::kubernetes) struct Cause {
    reason: String,
    message: String,
    field: String,
}

/// Why a request has no object for an answer.
#[derive(Debug)]
pub(in crate::kubernetes) enum Fault {
    /// The server answered, with a refusal.
    Refused(Box<Refusal>),
    /// There is no answer that could be understood, or it was never sent.
    Lost(ActionError),
}

impl From<Fault> for ActionError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(refusal) => refusal.error(),
            Fault::Lost(error) => error,
        }
    }
}

impl From<ActionError> for Fault {
    fn from(error: ActionError) -> Self {
        Self::Lost(error)
    }
}

impl Refusal {
    /// The refusal in an answer's body. A body that is no `Status` is quoted, shortened.
    pub(in crate::kubernetes) fn read(
        status: u16,
        header: Option<&str>,
        body: &[u8],
        about: String,
        changing: bool,
    ) -> Self {
        let parsed: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let text =
            |of: &Value, field: &str| of.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let details = parsed.get("details").cloned().unwrap_or(Value::Null);
        let causes = details.get("causes").and_then(Value::as_array).into_iter().flatten();
        let cause = |of: &Value| Cause {
            reason: text(of, "reason"),
            message: text(of, "message"),
            field: text(of, "field"),
        };
        let message = match text(&parsed, "message") {
            said if said.is_empty() => String::from_utf8_lossy(body).chars().take(200).collect(),
            said => said,
        };
        let asked = details.get("retryAfterSeconds").and_then(Value::as_u64);
        let seconds = header.and_then(|text| text.trim().parse().ok()).or(asked);
        Self {
            status,
            message,
            name: text(&details, "name"),
            causes: causes.map(cause).collect(),
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_REST)),
            about,
            changing,
        }
    }

    /// The object is not there, though its kind is served.
    pub(in crate::kubernetes) fn is_missing(&self) -> bool {
        self.status == 404 && !self.name.is_empty()
    }

    /// The kind is not served.
    pub(in crate::kubernetes) fn is_unserved(&self) -> bool {
        (self.status == 404 && self.name.is_empty()) || self.status == 501
    }

    /// The object is not as it was read, or came to be meanwhile: read again.
    ///
    /// Servers before 1.22 call an apply with an outdated identity invalid.
    pub(in crate::kubernetes) fn is_outdated(&self) -> bool {
        let replaced = self.status == 422 && self.causes.iter().any(|cause| cause.field == "metadata.uid");
        replaced || (self.status == 409 && self.managers().is_empty())
    }

    /// The place where a list broke off is not remembered any more: it has to be begun again.
    pub(in crate::kubernetes) fn is_run_out(&self) -> bool {
        self.status == 410
    }

    /// The disruption budget that keeps a pod, in the server's words.
    pub(in crate::kubernetes) fn budget(&self) -> Option<&str> {
        let cause = self.causes.iter().find(|cause| cause.reason == "DisruptionBudget")?;
        (self.status == 429).then_some(cause.message.as_str())
    }

    /// The other managers of the fields that were to be set, with the fields.
    pub(in crate::kubernetes) fn managers(&self) -> Vec<String> {
        let conflicts = self.causes.iter().filter(|cause| cause.reason == "FieldManagerConflict");
        let said = |cause: &Cause| {
            format!("{} ({})", cause.message.trim_start_matches("conflict with "), cause.field)
        };
        conflicts.map(said).collect()
    }

    /// What an action is told of an eviction that was refused: a disruption budget says not now, with its name, or nothing can be
    /// said since there are several.
    pub(in crate::kubernetes) fn of_eviction(&self, pod: &str) -> ActionError {
        let budgets = self.causes.iter().filter(|cause| cause.reason == "DisruptionBudget");
        let budgets: Vec<&str> = budgets.map(|cause| cause.message.as_str()).collect();
        if self.status == 429 && !budgets.is_empty() {
            let said = format!("Pod {pod} stays for now: {}", budgets.join("; "));
            return self.rested(ActionError::transient(codes::PROTECTED, said));
        }
        if self.status == 500 && self.message.contains("more than one PodDisruptionBudget") {
            let said = format!("Pod {pod}: {}: let one of them select it", self.message);
            return ActionError::permanent(codes::REFUSED, said);
        }
        self.error()
    }

    /// What an action is told.
    pub(in crate::kubernetes) fn error(&self) -> ActionError {
        let said = format!("{}: {} {}", self.about, self.status, self.message);
        match self.status {
            401 => ActionError::permanent(codes::DENIED, said),
            403 if self.causes.iter().any(|cause| cause.reason == "NamespaceTerminating") => {
                ActionError { message: said, ..ActionError::pending(codes::TERMINATING, LOOK_AGAIN) }
            }
            403 if self.by_admission() => ActionError::permanent(codes::REFUSED, said),
            403 => ActionError::permanent(codes::DENIED, said),
            404 if self.is_missing() => ActionError::permanent(codes::OBJECT_MISSING, said),
            404 | 501 => ActionError::permanent(codes::UNSUPPORTED, said),
            409 => ActionError::transient(codes::OBJECT_CHANGED, said),
            429 | 503 => self.rested(ActionError::transient(codes::UNAVAILABLE, said)),
            408 | 500..=599 if self.changing => self.rested(ActionError::unknown(codes::NO_ANSWER, said)),
            408 | 500..=599 => self.rested(ActionError::transient(codes::UNAVAILABLE, said)),
            _ => ActionError::permanent(codes::REFUSED, said),
        }
    }

    /// What a server says of everything for a moment after its start: that it may not be, or that there is no such kind.
    pub(in crate::kubernetes) fn may_pass_with_the_start(&self) -> bool {
        self.is_unserved() || (self.status == 403 && !self.by_admission())
    }

    /// Admission refuses with 403 as authorisation does; only the message tells which.
    fn by_admission(&self) -> bool {
        let of_admission =
            ["exceeded quota", "admission webhook", "ValidatingAdmissionPolicy", "violates PodSecurity"];
        of_admission.iter().any(|mark| self.message.contains(mark))
    }

    fn rested(&self, error: ActionError) -> ActionError {
        match self.retry_after {
            Some(span) => error.retry_after(span),
            None => error,
        }
    }
}

/// A request that had no answer: harmless before it was sent and where it could change nothing, else nobody knows.
pub(in crate::kubernetes) fn unanswered(about: &str, why: &str, changing: bool, sent: bool) -> ActionError {
    let said = format!("{about}: {why}");
    if changing && sent {
        ActionError::unknown(codes::NO_ANSWER, said)
    } else {
        ActionError::transient(codes::UNAVAILABLE, said)
    }
}

/// An answer that cannot be read.
pub(in crate::kubernetes) fn unreadable(
    about: &str,
    why: impl std::fmt::Display,
    changing: bool,
) -> ActionError {
    let said = format!("{about}: the answer is no object of the API: {why}");
    if changing {
        ActionError::unknown(codes::UNREADABLE, said)
    } else {
        ActionError::transient(codes::UNREADABLE, said)
    }
}
