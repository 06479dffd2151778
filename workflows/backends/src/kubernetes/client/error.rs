//! Maps the API server's answers and transport errors to action errors.
//!
//! All failures are classified here by status and reason. The message is used only where Kubernetes gives no reason.

use engine::ActionError;
use serde_json::Value;
use std::time::Duration;
use workflows::platform::{LOOK_AGAIN, codes};

/// The longest accepted retry delay. Longer requests of a server are shortened to it.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// An error answer of the server.
#[derive(Clone, Debug, Default)]
pub(in crate::kubernetes) struct Refusal {
    pub(in crate::kubernetes) status: u16,
    pub(in crate::kubernetes) message: String,
    /// The object that the error concerns; may be empty.
    pub(in crate::kubernetes) name: String,
    pub(in crate::kubernetes) causes: Vec<Cause>,
    pub(in crate::kubernetes) retry_after: Option<Duration>,
    /// The request, for messages.
    pub(in crate::kubernetes) about: String,
    /// True if the request could change something.
    pub(in crate::kubernetes) changing: bool,
}

/// A cause in an error answer.
#[derive(Clone, Debug, Default)]
pub(in crate::kubernetes) struct Cause {
    reason: String,
    message: String,
    field: String,
}

/// The reason why a request returned no object.
#[derive(Debug)]
pub(in crate::kubernetes) enum Fault {
    /// The server answered with an error.
    Refused(Box<Refusal>),
    /// The answer is missing or invalid, or the request was not sent.
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
    /// Parses the error body. A body that is not a `Status` is quoted and shortened.
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

    /// Returns true if the object does not exist but its kind is served.
    pub(in crate::kubernetes) fn is_missing(&self) -> bool {
        self.status == 404 && !self.name.is_empty()
    }

    /// Returns true if the kind is not served.
    pub(in crate::kubernetes) fn is_unserved(&self) -> bool {
        (self.status == 404 && self.name.is_empty()) || self.status == 501
    }

    /// Returns true if the object has changed or was created since the read, so that it must be read again.
    ///
    /// Servers before 1.22 answer 422 to an apply with an outdated uid.
    pub(in crate::kubernetes) fn is_outdated(&self) -> bool {
        let replaced = self.status == 422 && self.causes.iter().any(|cause| cause.field == "metadata.uid");
        replaced || (self.status == 409 && self.managers().is_empty())
    }

    /// Returns true if a list has expired and must start again.
    pub(in crate::kubernetes) fn is_run_out(&self) -> bool {
        self.status == 410
    }

    /// Returns the message about the disruption budget that protects a pod.
    pub(in crate::kubernetes) fn budget(&self) -> Option<&str> {
        let cause = self.causes.iter().find(|cause| cause.reason == "DisruptionBudget")?;
        (self.status == 429).then_some(cause.message.as_str())
    }

    /// Returns the other managers of the fields, with the fields.
    pub(in crate::kubernetes) fn managers(&self) -> Vec<String> {
        let conflicts = self.causes.iter().filter(|cause| cause.reason == "FieldManagerConflict");
        let said = |cause: &Cause| {
            format!("{} ({})", cause.message.trim_start_matches("conflict with "), cause.field)
        };
        conflicts.map(said).collect()
    }

    /// Converts the error of an eviction. A protecting disruption budget is named; several budgets for one pod are a
    /// permanent error.
    pub(in crate::kubernetes) fn of_eviction(&self, pod: &str) -> ActionError {
        let budgets = self.causes.iter().filter(|cause| cause.reason == "DisruptionBudget");
        let budgets: Vec<&str> = budgets.map(|cause| cause.message.as_str()).collect();
        if self.status == 429 && !budgets.is_empty() {
            let said = format!("Pod {pod} is not evicted yet: {}", budgets.join("; "));
            return self.rested(ActionError::transient(codes::PROTECTED, said));
        }
        if self.status == 500 && self.message.contains("more than one PodDisruptionBudget") {
            let said = format!("Pod {pod}: {}: let only one of them select it", self.message);
            return ActionError::permanent(codes::REFUSED, said);
        }
        self.error()
    }

    /// Converts the error to an action error.
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

    /// Returns true for errors that a server also returns for a short time after its start: denied, or kind not served.
    pub(in crate::kubernetes) fn may_pass_with_the_start(&self) -> bool {
        self.is_unserved() || (self.status == 403 && !self.by_admission())
    }

    /// Admission and authorisation both answer 403. Only the message distinguishes them.
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

/// Returns the error for a request without an answer. The outcome is unknown if it was sent and could change something;
/// otherwise the error is transient.
pub(in crate::kubernetes) fn unanswered(about: &str, why: &str, changing: bool, sent: bool) -> ActionError {
    let said = format!("{about}: {why}");
    if changing && sent {
        ActionError::unknown(codes::NO_ANSWER, said)
    } else {
        ActionError::transient(codes::UNAVAILABLE, said)
    }
}

/// Returns the error for an invalid answer.
pub(in crate::kubernetes) fn unreadable(
    about: &str,
    why: impl std::fmt::Display,
    changing: bool,
) -> ActionError {
    let said = format!("{about}: the answer is not an object of the API: {why}");
    if changing {
        ActionError::unknown(codes::UNREADABLE, said)
    } else {
        ActionError::transient(codes::UNREADABLE, said)
    }
}
