//! What people are to be told: documents that whoever delivers them reads, and removes or marks once delivered.

use crate::{
    ActionError, ApprovalCase, Entity, Execution, Happening, Phase, Seat, Vote, What, Workflow,
    model::{approval::ballot::wanted, step::span},
    runtime::erased_workflow::collection,
};
use serde::{Deserialize, Serialize};
use store::{Key, Put, Record, Timestamp};

/// Something to be told, written by the commit that it tells of, so once and never without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Follows from what it tells of, so that telling twice is telling once.
    pub id: String,
    /// What happened, such as `approval.opened` or `execution.parked`; `docs/notifications.md` lists them all.
    pub kind: String,
    /// Of an execution that is parked its reason, of an approval the state that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it is about: the id of the approval or the execution, or another name.
    pub about: String,
    /// Whose it is; empty for what is nobody's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The roles and groups that should know.
    pub to: Vec<String>,
    /// One or two sentences.
    pub text: String,
    /// When it happened.
    pub at: Timestamp,
}

/// Who should know when somebody has decided alone, beside those who were asked.
const WATCHES: &str = "security";
/// Who looks after executions.
const OPERATES: &str = "platform_ops";

impl Entity for Notification {
    const COLLECTION: &'static str = collection::NOTIFICATIONS;

    fn id(&self) -> String {
        self.id.clone()
    }
}

impl Notification {
    /// What is told of entry `number` of an approval's history; of a vote that was taken back, nothing.
    pub(crate) fn of(case: &ApprovalCase, number: usize, happened: &Happening) -> Option<Self> {
        let (kind, seats, text) = match &happened.what {
            What::Reminded => ("approval.reminder", &case.seats, waits(case, happened.at)),
            What::Escalated { from, to } => {
                let text = format!("{} have not decided; {}", wanted(from), waits(case, happened.at));
                ("approval.escalated", to, text)
            }
            What::Extended { .. } => {
                let text = format!("the deadline was moved, once; {}", waits(case, happened.at));
                ("approval.extended", &case.seats, text)
            }
            What::Voided { votes, .. } => {
                let text = changed(case, votes.len(), happened.at);
                ("approval.plan_changed", &case.seats, text)
            }
            What::Withdrawn { .. } => return None,
        };
        Some(Self::about(case, &number.to_string(), kind, roles(seats), text, happened.at))
    }

    /// That people are asked.
    pub(crate) fn opened(case: &ApprovalCase) -> Self {
        let text = format!(
            "{}, asked for by {}; `tenure approvals show {}`",
            waits(case, case.opened_at),
            case.requested_by,
            case.id
        );
        Self::about(case, "opened", "approval.opened", roles(&case.seats), text, case.opened_at)
    }

    /// That some have agreed, and more are needed.
    pub(crate) fn voted(case: &ApprovalCase, vote: &Vote) -> Self {
        let name = format!("voted.{}", vote.at.0);
        let text = format!("{} agreed; {}", vote.person.name, waits(case, vote.at));
        Self::about(case, &name, "approval.voted", roles(&case.seats), text, vote.at)
    }

    /// That nobody is asked any more: `ruling` says how it ended.
    pub(crate) fn closed(case: &ApprovalCase, ruling: &str, at: Timestamp) -> Self {
        let by = case.votes.last().map(|vote| format!(" by {}", vote.person.name)).unwrap_or_default();
        let by = if matches!(ruling, "granted" | "refused") { by } else { String::new() };
        let text = format!("{}: {ruling}{by}", case.plan.title);
        Self::about(case, "closed", &format!("approval.{ruling}"), roles(&case.seats), text, at)
    }

    /// That the plan has changed since people agreed to it.
    pub(crate) fn asked_again(case: &ApprovalCase, at: Timestamp) -> Self {
        let text = format!("the plan has changed since it was agreed to; {}", waits(case, at));
        Self::about(case, "asked-again", "approval.plan_changed", roles(&case.seats), text, at)
    }

    /// That somebody has decided alone.
    pub(crate) fn glass_broken(case: &ApprovalCase, vote: &Vote) -> Self {
        let mut to = roles(&case.seats);
        if !to.iter().any(|role| role == WATCHES) {
            to.push(WATCHES.into());
        }
        let text = format!(
            "{} broke the glass and let this pass alone: {}; reason: {}; somebody else has to review it",
            vote.person.name, case.plan.title, vote.reason
        );
        Self::about(case, "glass", "approval.glass_broken", to, text, vote.at)
    }

    /// What an operator is told at once: that an execution was parked by this event or is so no longer, broke its promise, or
    /// is over after it did.
    pub(crate) fn alarms<W: Workflow>(
        record: &Record,
        execution: &Execution<W>,
        (was_parked, was_broken, was_finished): (bool, bool, bool),
    ) -> Vec<Self> {
        let mut told = Vec::new();
        match &execution.phase {
            Phase::Parked { reason, errors, .. } if !was_parked => {
                told.push(Self::parked(record, execution.visit, reason.into(), errors));
            }
            Phase::Forward | Phase::Compensating(_) | Phase::Finished { .. } if was_parked => {
                told.push(Self::unparked(record, execution.visit));
            }
            Phase::Forward | Phase::Compensating(_) | Phase::Parked { .. } | Phase::Finished { .. } => {}
        }
        match (&execution.phase, was_broken) {
            (Phase::Finished { .. }, true) if !was_finished => told.push(Self::ended_late(record)),
            (Phase::Forward | Phase::Compensating(_) | Phase::Parked { .. }, false) if execution.broken => {
                told.push(Self::overdue(record));
            }
            (Phase::Forward | Phase::Compensating(_) | Phase::Parked { .. } | Phase::Finished { .. }, _) => {}
        }
        told
    }

    /// It as a document.
    pub(crate) fn put(&self) -> Put {
        let body = serde_json::to_vec(self).unwrap_or_default();
        Put { key: Key::new(collection::NOTIFICATIONS, &self.id), body: Some(body) }
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
            to: vec![OPERATES.into()],
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
        Self::on(record, &format!("unparked.{visit}.{}", record.updated_at.0), "execution.unparked", text)
    }

    /// That an execution is over, later than was promised.
    pub(crate) fn ended_late(record: &Record) -> Self {
        let text = format!("{} {} is over, later than promised", record.workflow, record.subject);
        Self::on(record, "ended_late", "execution.ended_late", text)
    }

    /// That what is built in could not be done at its moment.
    pub(crate) fn schedule_failed(schedule: &str, nominal: Timestamp, why: &str, at: Timestamp) -> Self {
        Self {
            id: format!("{schedule}.failed.{}", nominal.0),
            kind: "schedule.failed".into(),
            reason: None,
            about: schedule.into(),
            tenant: String::new(),
            to: vec![OPERATES.into()],
            text: format!("{schedule} failed: {why}; `tenure schedules occurrences {schedule}`"),
            at,
        }
    }

    /// That an execution is not over though it was promised to be.
    pub(crate) fn overdue(record: &Record) -> Self {
        let text = format!(
            "{} {} was promised to be over by now, and is in {}; `tenure executions show {}`",
            record.workflow, record.subject, record.state, record.id
        );
        Self::on(record, &format!("overdue.{}", record.updated_at.0), "execution.overdue", text)
    }

    fn on(record: &Record, name: &str, kind: &str, text: String) -> Self {
        Self {
            id: format!("{}.{name}", record.id),
            kind: kind.into(),
            reason: None,
            about: record.id.to_string(),
            tenant: record.tenant.clone(),
            to: vec![OPERATES.into()],
            text,
            at: record.updated_at,
        }
    }

    fn about(
        case: &ApprovalCase,
        name: &str,
        kind: &str,
        to: Vec<String>,
        text: String,
        at: Timestamp,
    ) -> Self {
        Self {
            id: format!("{}.{name}", case.id),
            kind: kind.into(),
            reason: Some(case.state.clone()),
            about: case.id.clone(),
            tenant: case.tenant.clone(),
            to,
            text,
            at,
        }
    }
}

/// The roles and groups of `seats`, each once.
fn roles(seats: &[Seat]) -> Vec<String> {
    let mut roles: Vec<String> = Vec::new();
    for role in seats.iter().flat_map(|seat| &seat.any_of) {
        if !roles.contains(role) {
            roles.push(role.clone());
        }
    }
    roles
}

fn waits(case: &ApprovalCase, at: Timestamp) -> String {
    let left = case.deadline.map(|deadline| format!(", {} left", span(Some(deadline.since(at)))));
    let left = left.unwrap_or_default();
    format!("{} waits for {}{left}", case.plan.title, wanted(&case.seats))
}

fn changed(case: &ApprovalCase, votes: usize, at: Timestamp) -> String {
    let void = match votes {
        0 => "nobody had voted".into(),
        1 => "one vote is void".into(),
        more => format!("{more} votes are void"),
    };
    format!("the plan has changed, and {void}; {}", waits(case, at))
}
