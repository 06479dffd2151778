//! What people are to be told: documents that whoever delivers them reads, and removes or marks once delivered.

use crate::{
    ActionError, ApprovalCase, Happening, Seat, Vote, What, approval::wanted, machine::collection, step::span,
};
use serde::{Deserialize, Serialize};
use store::{Key, Put, Record, Timestamp};

/// Something to be told, written by the commit that it tells of, so once and never without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Follows from what it tells of, so that telling twice is telling once.
    pub id: String,
    /// What happened: `approval.reminder`, `approval.escalated`, `approval.extended`, `approval.plan_changed`,
    /// `approval.glass_broken`, `execution.parked` or `execution.overdue`.
    pub kind: String,
    /// What it is about: the id of the approval or the execution.
    pub about: String,
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
            about: id.to_string(),
            to: vec![OPERATES.into()],
            text: format!(
                "{} {} waits for an operator in {}: {reason}{first}; `tenure executions show {id}`",
                record.workflow, record.subject, record.state
            ),
            at: record.updated_at,
        }
    }

    /// That an execution is not over though it was promised to be.
    pub(crate) fn overdue(record: &Record) -> Self {
        let id = record.id;
        Self {
            id: format!("{id}.overdue.{}", record.updated_at.0),
            kind: "execution.overdue".into(),
            about: id.to_string(),
            to: vec![OPERATES.into()],
            text: format!(
                "{} {} was promised to be over by now, and is in {}; `tenure executions show {id}`",
                record.workflow, record.subject, record.state
            ),
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
        Self { id: format!("{}.{name}", case.id), kind: kind.into(), about: case.id.clone(), to, text, at }
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
