//! Notifications about an execution that an operator has to see: parked, no longer parked, overdue, ended late.
//!
//! Called when an event is turned into a commit.

use crate::{
    ActionError, Execution, Notification, Phase, Workflow, model::documents::notification::OPERATORS,
};
use store::Record;

impl Notification {
    /// What an operator is told at once: that an execution was parked by this event or is so no longer, broke its promise, or
    /// is over after it did.
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

    /// That an execution waits for an operator.
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
                "{} {} waits for an operator in {}: {reason}{first}; `tenure executions show {id}`",
                record.workflow, record.subject, record.state
            ),
            at: record.updated_at,
        }
    }

    /// That an execution waits for no operator any more.
    pub(crate) fn unparked(record: &Record, visit: u32) -> Self {
        let text = format!("{} {} goes on; it is in {}", record.workflow, record.subject, record.state);
        Self::for_record(
            record,
            &format!("unparked.{visit}.{}", record.updated_at.0),
            "execution.unparked",
            text,
        )
    }

    /// That an execution is over, later than was promised.
    pub(crate) fn ended_late(record: &Record) -> Self {
        let text = format!("{} {} is over, later than promised", record.workflow, record.subject);
        Self::for_record(record, "ended_late", "execution.ended_late", text)
    }

    /// That an execution is not over though it was promised to be.
    pub(crate) fn overdue(record: &Record) -> Self {
        let text = format!(
            "{} {} was promised to be over by now, and is in {}; `tenure executions show {}`",
            record.workflow, record.subject, record.state, record.id
        );
        Self::for_record(record, &format!("overdue.{}", record.updated_at.0), "execution.overdue", text)
    }
}
