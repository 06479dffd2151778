//! The kinds of notifications, with their severity and their effect on the matter.

use engine::Notification;
use serde::{Deserialize, Serialize};

/// The severity of an event.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Severity {
    /// Information only.
    Info,
    /// An action is requested.
    Warning,
    /// Work is blocked until an operator acts.
    Error,
    /// A promise is broken, or an irreversible operation is affected.
    Critical,
}

/// The effect of an event on its matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatterChange {
    /// The matter is open.
    Opens,
    /// An operator has taken up the matter. It is still open.
    TakesUp,
    /// The matter is closed.
    Closes,
    /// The event has no matter that could be closed.
    Tells,
}

/// A kind of event with a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeKind {
    /// The name of the kind, as in [`Notification::kind`].
    pub name: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// The effect on the matter.
    pub act: MatterChange,
    /// The condition for the notification.
    pub when: &'static str,
}

const fn kind(name: &'static str, severity: Severity, act: MatterChange, when: &'static str) -> NoticeKind {
    NoticeKind { name, severity, act, when }
}

/// All kinds of events with a notification.
pub const KINDS: &[NoticeKind] = &[
    kind("approval.opened", Severity::Warning, MatterChange::Opens, "people are asked"),
    kind(
        "approval.reminder",
        Severity::Warning,
        MatterChange::Opens,
        "people have not decided, and it expires before long",
    ),
    kind(
        "approval.escalated",
        Severity::Error,
        MatterChange::Opens,
        "others are asked, since those who were have not decided",
    ),
    kind("approval.extended", Severity::Warning, MatterChange::Opens, "the deadline was moved, once"),
    kind(
        "approval.plan_changed",
        Severity::Warning,
        MatterChange::Opens,
        "the plan is another one, and people are asked again",
    ),
    kind("approval.voted", Severity::Info, MatterChange::TakesUp, "somebody agreed, and more are needed"),
    kind("approval.granted", Severity::Info, MatterChange::Closes, "enough people agreed"),
    kind("approval.refused", Severity::Info, MatterChange::Closes, "somebody said no"),
    kind(
        "approval.expired",
        Severity::Warning,
        MatterChange::Closes,
        "the deadline passed before people decided",
    ),
    kind("approval.withdrawn", Severity::Info, MatterChange::Closes, "there is nothing to decide any more"),
    kind(
        "approval.glass_broken",
        Severity::Critical,
        MatterChange::Tells,
        "somebody decided alone, and is to be reviewed",
    ),
    kind(
        "execution.parked",
        Severity::Error,
        MatterChange::Opens,
        "an execution waits for an operator; the reason says why",
    ),
    kind("execution.unparked", Severity::Info, MatterChange::Closes, "it goes on, or was ended"),
    kind(
        "execution.overdue",
        Severity::Critical,
        MatterChange::Opens,
        "an execution is not over though it was promised to be",
    ),
    kind("execution.ended_late", Severity::Info, MatterChange::Closes, "it is over"),
    kind(
        "schedule.failed",
        Severity::Error,
        MatterChange::Tells,
        "a sweep, or what else is built in, could not be done",
    ),
    kind(
        "hold.review_due",
        Severity::Warning,
        MatterChange::Tells,
        "the day has come on which a hold is to be looked at again",
    ),
    kind(
        "offboarding.held",
        Severity::Warning,
        MatterChange::Tells,
        "an offboarding waits until no hold is in force on its tenant",
    ),
    kind(
        "offboarding.unclassified",
        Severity::Warning,
        MatterChange::Tells,
        "an offboarding waits for a classification, or for a right that the verifier lacks",
    ),
    kind("certificate.issued", Severity::Info, MatterChange::Tells, "a certificate of destruction is signed"),
    kind(
        "certificate.withdrawn",
        Severity::Error,
        MatterChange::Tells,
        "a certificate of destruction is withdrawn",
    ),
    kind(
        "closed_tenant.found",
        Severity::Error,
        MatterChange::Tells,
        "something of a closed tenant is there that its certificates do not account for",
    ),
    kind(
        "closed_tenant.unanswered",
        Severity::Warning,
        MatterChange::Tells,
        "a source has not said for a day whether anything of a closed tenant is there",
    ),
    kind(
        "workload.fits_no_node",
        Severity::Warning,
        MatterChange::Tells,
        "a workload waits for a larger node than any that its tenant has",
    ),
    kind(
        "gpus.not_barred",
        Severity::Error,
        MatterChange::Tells,
        "GPUs were not cleaned after an eviction, and the books do not have them, so they are not barred",
    ),
    kind(
        "workload.not_in_cluster",
        Severity::Warning,
        MatterChange::Tells,
        "a reclaim gave a workload its GPUs, and its cluster does not know the workload",
    ),
    kind(
        "workload.not_started",
        Severity::Error,
        MatterChange::Tells,
        "several starts of an admitted workload have failed; it is tried again",
    ),
    kind(
        "workload.on_resting_node",
        Severity::Warning,
        MatterChange::Tells,
        "a workload was seen on a node that takes no new work, or on a barred GPU",
    ),
    kind("channel.test", Severity::Info, MatterChange::Tells, "somebody tries a channel"),
];

/// A kind that is not in the table, from a later version. It is still delivered.
const STRANGE: NoticeKind = kind("", Severity::Warning, MatterChange::Tells, "");

/// The state in which an offboarding waits for the approval of the destruction.
const DESTROYS: &str = "AwaitingDestruction";

/// Returns the kind of a notification. For some kinds, the reason raises the severity.
#[must_use]
pub fn kind_of(told: &Notification) -> NoticeKind {
    let kind = KINDS.iter().copied().find(|kind| kind.name == told.kind).unwrap_or(STRANGE);
    let severity = match (kind.name, told.reason.as_deref()) {
        ("approval.opened" | "approval.reminder", Some(DESTROYS)) => Severity::Error,
        ("execution.parked", Some("past_pivot_failure" | "protection_failed")) => Severity::Critical,
        (_, _) => kind.severity,
    };
    NoticeKind { severity, ..kind }
}

/// Returns the name of the notification's matter. It is the same for the events that open, take up and close it.
#[must_use]
pub fn matter(told: &Notification) -> String {
    let about = &told.about;
    match told.kind.as_str() {
        "execution.parked" | "execution.unparked" => format!("execution/{about}"),
        "execution.overdue" | "execution.ended_late" => format!("execution/{about}/promise"),
        "approval.glass_broken" => format!("approval/{about}/glass"),
        kind if kind.starts_with("approval.") => format!("approval/{about}"),
        kind => format!("{}/{about}", kind.split('.').next().unwrap_or(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Timestamp;

    pub(crate) fn example_notification(kind: &str, about: &str) -> Notification {
        Notification {
            id: format!("{about}.{kind}"),
            kind: kind.into(),
            reason: None,
            about: about.into(),
            tenant: "acme".into(),
            to: Vec::new(),
            text: String::new(),
            at: Timestamp(0),
        }
    }

    #[test]
    fn an_event_that_closes_a_matter_refers_to_the_event_that_opened_it() {
        for (opens, closes) in [
            ("approval.opened", "approval.granted"),
            ("approval.escalated", "approval.expired"),
            ("execution.parked", "execution.unparked"),
            ("execution.overdue", "execution.ended_late"),
        ] {
            assert_eq!(matter(&example_notification(opens, "x")), matter(&example_notification(closes, "x")));
            assert_eq!(kind_of(&example_notification(opens, "x")).act, MatterChange::Opens);
            assert_eq!(kind_of(&example_notification(closes, "x")).act, MatterChange::Closes);
        }
        assert_ne!(
            matter(&example_notification("execution.parked", "x")),
            matter(&example_notification("execution.overdue", "x"))
        );
    }

    #[test]
    fn an_approval_of_destruction_is_more_severe_than_others() {
        let plain = example_notification("approval.opened", "x");
        let destroys = Notification { reason: Some(DESTROYS.into()), ..plain.clone() };
        assert!(kind_of(&destroys).severity > kind_of(&plain).severity);
    }
}
