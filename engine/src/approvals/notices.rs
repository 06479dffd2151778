//! The notifications about an approval: opened, voted, reminded, escalated, extended, closed, break-glass used.

use crate::{
    ApprovalChange, ApprovalHistoryEntry, ApprovalRecord, Notification, Seat, Vote,
    model::{approval::vote::describe_seats, definition::step::span},
};
use store::Timestamp;

/// The role that is notified of break-glass, in addition to the approvers.
const REVIEWERS: &str = "security";
impl Notification {
    /// Returns the notification for entry `number` of an approval's history. A withdrawn vote has none.
    pub(crate) fn for_history_entry(
        case: &ApprovalRecord,
        number: usize,
        happened: &ApprovalHistoryEntry,
    ) -> Option<Self> {
        let (kind, seats, text) = match &happened.what {
            ApprovalChange::Reminded => ("approval.reminder", &case.seats, waiting_text(case, happened.at)),
            ApprovalChange::Escalated { from, to } => {
                let text =
                    format!("{} have not decided; {}", describe_seats(from), waiting_text(case, happened.at));
                ("approval.escalated", to, text)
            }
            ApprovalChange::Extended { .. } => {
                let text = format!("the deadline was moved, once; {}", waiting_text(case, happened.at));
                ("approval.extended", &case.seats, text)
            }
            ApprovalChange::Voided { votes, .. } => {
                let text = plan_changed_text(case, votes.len(), happened.at);
                ("approval.plan_changed", &case.seats, text)
            }
            ApprovalChange::Withdrawn { .. } => return None,
        };
        Some(Self::about(case, &number.to_string(), kind, roles(seats), text, happened.at))
    }

    /// An approval was opened.
    pub(crate) fn opened(case: &ApprovalRecord) -> Self {
        let text = format!(
            "{}, requested by {}; `tenure approvals show {}`",
            waiting_text(case, case.opened_at),
            case.requested_by,
            case.id
        );
        Self::about(case, "opened", "approval.opened", roles(&case.seats), text, case.opened_at)
    }

    /// A person approved, and more votes are needed.
    pub(crate) fn voted(case: &ApprovalRecord, vote: &Vote) -> Self {
        let name = format!("voted.{}", vote.at.0);
        let text = format!("{} approved; {}", vote.person.name, waiting_text(case, vote.at));
        Self::about(case, &name, "approval.voted", roles(&case.seats), text, vote.at)
    }

    /// The approval was closed with `ruling`.
    pub(crate) fn closed(case: &ApprovalRecord, ruling: &str, at: Timestamp) -> Self {
        let by = case.votes.last().map(|vote| format!(" by {}", vote.person.name)).unwrap_or_default();
        let by = if matches!(ruling, "granted" | "refused") { by } else { String::new() };
        let text = format!("{}: {ruling}{by}", case.plan.title);
        Self::about(case, "closed", &format!("approval.{ruling}"), roles(&case.seats), text, at)
    }

    /// The plan changed after its approval.
    pub(crate) fn asked_again(case: &ApprovalRecord, at: Timestamp) -> Self {
        let text = format!("the plan has changed since its approval; {}", waiting_text(case, at));
        Self::about(case, "asked-again", "approval.plan_changed", roles(&case.seats), text, at)
    }

    /// Break-glass was used.
    pub(crate) fn break_glass_used(case: &ApprovalRecord, vote: &Vote) -> Self {
        let mut to = roles(&case.seats);
        if !to.iter().any(|role| role == REVIEWERS) {
            to.push(REVIEWERS.into());
        }
        let text = format!(
            "{} used break-glass: {}; reason: {}; another person must review it",
            vote.person.name, case.plan.title, vote.reason
        );
        Self::about(case, "glass", "approval.glass_broken", to, text, vote.at)
    }

    fn about(
        case: &ApprovalRecord,
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

/// Returns the roles and groups of `seats`, each once.
fn roles(seats: &[Seat]) -> Vec<String> {
    let mut roles: Vec<String> = Vec::new();
    for role in seats.iter().flat_map(|seat| &seat.any_of) {
        if !roles.contains(role) {
            roles.push(role.clone());
        }
    }
    roles
}

fn waiting_text(case: &ApprovalRecord, at: Timestamp) -> String {
    let left = case.deadline.map(|deadline| format!(", {} left", span(Some(deadline.since(at)))));
    let left = left.unwrap_or_default();
    format!("{} waits for {}{left}", case.plan.title, describe_seats(&case.seats))
}

fn plan_changed_text(case: &ApprovalRecord, votes: usize, at: Timestamp) -> String {
    let void = match votes {
        0 => "no votes were cast".into(),
        1 => "one vote is void".into(),
        more => format!("{more} votes are void"),
    };
    format!("the plan has changed, and {void}; {}", waiting_text(case, at))
}
