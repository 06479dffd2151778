//! Notifications for operators about an execution: parked, no longer parked, overdue, ended late.
//!
//! Called when an event becomes a commit.
//!
//! Called when an event is turned into a commit.

use crate::{
    ActionError, Execution, Notification, Phase, Workflow, model::documents::notification::OPERATORS,
};
use store::Record;

impl Notification {
    /// Returns the notifications for this event: the execution was parked or unparked, became overdue, or ended late.
    pub(crate) fn alarms<W: Workflow>(
        record: &Record,
        execution: &Execution<W>,
        (was_parked, was_missed, was_finished): (bool, bool, bool),
    ) -> Vec<Self> {
        let mut notifications = Vec::new();
        match &execution.phase {
            Phase::Parked { reason, errors, .. } if !was_parked => {
                notifications.push(Self::parked(record, execution.visit, reason.into(), errors));
            }
            Phase::Forward | Phase::Compensating(_) | Phase::Finished { .. } if was_parked => {
                notifications.push(Self::unparked(record, execution.visit));
            }
            Phase::Forward | Phase::Compensating(_) | Phase::Parked { .. } | Phase::Finished { .. } => {}
        }
        match (&execution.phase, was_missed) {
            (Phase::Finished { .. }, true) if !was_finished => notifications.push(Self::ended_late(record)),
            (Phase::Forward | Phase::Compensating(_) | Phase::Parked { .. }, false)
                if execution.promise_missed =>
            {
                notifications.push(Self::overdue(record));
            }
            (Phase::Forward | Phase::Compensating(_) | Phase::Parked { .. } | Phase::Finished { .. }, _) => {}
        }
        notifications
    }

    /// The execution is parked.
    pub(crate) fn parked(record: &Record, visit: u32, reason: &str, errors: &[ActionError]) -> Self {
        let first = errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        let id = record.id;
        Self {
            id: format!("{id}.parked.{visit}"),
            kind: "execution.parked".into(),
            reason: Some(reason.into()),
            about: id.to_string(),
            tenant: record.tenant.clone(),
            to: vec![OPERATORS.into()],
            text: format!(
                "{} {} needs an operator in {}: {reason}{first}; `tenure executions show {id}`",
                record.workflow, record.subject, record.state
            ),
            at: record.updated_at,
        }
    }

    /// The execution is no longer parked.
    pub(crate) fn unparked(record: &Record, visit: u32) -> Self {
        let text = format!("{} {} continues; it is in {}", record.workflow, record.subject, record.state);
        Self::for_record(
            record,
            &format!("unparked.{visit}.{}", record.updated_at.0),
            "execution.unparked",
            text,
        )
    }

    /// The execution ended after its promised end.
    pub(crate) fn ended_late(record: &Record) -> Self {
        let text = format!("{} {} ended later than promised", record.workflow, record.subject);
        Self::for_record(record, "ended_late", "execution.ended_late", text)
    }

    /// The execution is still open after its promised end.
    pub(crate) fn overdue(record: &Record) -> Self {
        let text = format!(
            "{} {} has passed its promised end and is in {}; `tenure executions show {}`",
            record.workflow, record.subject, record.state, record.id
        );
        Self::for_record(record, &format!("overdue.{}", record.updated_at.0), "execution.overdue", text)
    }
}
