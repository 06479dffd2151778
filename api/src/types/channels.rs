//! Channels, and what became of what they were to tell.

use super::Time;
use crate::notify;
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::Serialize;
use store::Timestamp;
use workflows::notices::{MatterChange, Severity, kind_of};

/// A channel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Channel {
    pub(crate) id: String,
    /// `webhook`, `slack`, `pagerduty`, `email` or `file`.
    pub(crate) kind: &'static str,
    /// When what is not urgent waits: `from`, `to` and `zone`.
    #[schemars(with = "Option<super::Object>")]
    pub(crate) quiet: Option<serde_json::Value>,
    /// What is urgent: from this severity on.
    pub(crate) urgent: &'static str,
    /// How often a notification is tried before it is dead.
    pub(crate) attempts: u32,
    /// How long the same event of the same matter is not told again.
    #[schemars(with = "super::Span")]
    pub(crate) dedup: String,
    /// How many deliveries wait.
    pub(crate) waiting: usize,
    /// How many are dead.
    pub(crate) dead: usize,
}

/// A channel with letters that nobody took: somebody has to look at it, as at an execution that is stuck.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StuckChannel")]
pub(crate) struct Stuck {
    /// The channel.
    pub(crate) id: String,
    /// `delivery`, which is no workflow of which executions are.
    pub(crate) workflow: &'static str,
    /// Such as `channel/pager`.
    pub(crate) subject: String,
    /// `dead`.
    pub(crate) state: &'static str,
    /// `delivery_dead`.
    pub(crate) reason: &'static str,
    /// How many letters are dead.
    pub(crate) dead: u64,
    /// Since when there is any.
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// Whose turn it is, by role.
    pub(crate) owner: Vec<&'static str>,
    /// What to do.
    pub(crate) next: &'static str,
    /// What the latest of them was answered last.
    pub(crate) message: Option<String>,
}

impl Stuck {
    /// What dead letters are stuck for.
    pub(crate) const REASON: &'static str = "delivery_dead";
    /// What stands in the place of a workflow.
    pub(crate) const WORKFLOW: &'static str = "delivery";

    /// A channel as it is shown at `now`; nothing if no letter of it is dead.
    pub(crate) fn of(channel: &str, tally: &notify::DeliveryCount, now: Timestamp) -> Option<Self> {
        let since = tally.since.unwrap_or(now);
        (tally.count > 0).then(|| Self {
            id: channel.into(),
            workflow: Self::WORKFLOW,
            subject: format!("channel/{channel}"),
            state: "dead",
            reason: Self::REASON,
            dead: tally.count,
            since: format_time(since),
            age_seconds: now.since(since).as_secs(),
            owner: vec!["platform_ops"],
            next: "mend the receiver, try it with `tenure notify test`, then `tenure notify resend CHANNEL --all`, or `discard`",
            message: tally.answer.clone(),
        })
    }
}

/// What became of one notification on one channel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Delivery {
    /// Names it within its channel.
    pub(crate) id: String,
    pub(crate) channel: String,
    /// `waiting`, `delivered`, `merged` (the same had just been told), `over` (the matter was over before its turn), `dead`, `discarded`
    /// (somebody gave it up) or `resent` (it was dead, and was sent again as another delivery).
    pub(crate) state: &'static str,
    /// The notification, as receivers know it.
    pub(crate) notification: String,
    /// Such as `approval.opened`.
    pub(crate) event: String,
    /// `info`, `warning`, `error` or `critical`.
    pub(crate) severity: &'static str,
    /// `opens`, `takes_up` or `closes` a matter, or only `tells`.
    pub(crate) act: &'static str,
    /// What opens a matter and what closes it have the same.
    pub(crate) matter: String,
    pub(crate) tenant: Option<String>,
    pub(crate) text: String,
    /// When it happened.
    #[schemars(with = "Time")]
    pub(crate) at: String,
    pub(crate) tries: u32,
    /// What the last attempt was answered.
    pub(crate) answer: Option<String>,
    /// When it is sent next, if it waits; quiet hours included.
    #[schemars(with = "Option<Time>")]
    pub(crate) due: Option<String>,
    /// When it came to its end.
    #[schemars(with = "Option<Time>")]
    pub(crate) settled_at: Option<String>,
    /// The last ten attempts, the latest last.
    pub(crate) attempts: Vec<Sending>,
    /// Of what is sent again, the delivery before.
    pub(crate) replay_of: Option<String>,
    /// Who let it be tried, given up or sent again.
    pub(crate) by: Option<String>,
    /// Why.
    pub(crate) reason: Option<String>,
}

/// One attempt to send a delivery.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeliveryAttempt")]
pub(crate) struct Sending {
    /// When it began.
    #[schemars(with = "Time")]
    pub(crate) at: String,
    /// The status of the answer, if it began with one.
    pub(crate) status: Option<u16>,
    /// What was answered; `null` while it is under way, or if a crash cut it off.
    pub(crate) answer: Option<String>,
}

impl Delivery {
    /// A delivery as it is shown; `channel` says when it is silent.
    pub(crate) fn of(delivery: &notify::Delivery, channel: &notify::Channel) -> Self {
        let told = &delivery.told;
        let kind = kind_of(told);
        let silent = channel.silent(told, delivery.due).unwrap_or(delivery.due);
        let severity: Severity = kind.severity;
        Self {
            id: delivery.name(),
            channel: delivery.channel.clone(),
            state: delivery.state.into(),
            notification: told.id.clone(),
            event: told.kind.clone(),
            severity: severity.into(),
            act: match kind.act {
                MatterChange::Opens => "opens",
                MatterChange::TakesUp => "takes_up",
                MatterChange::Closes => "closes",
                MatterChange::Tells => "tells",
            },
            matter: delivery.matter(),
            tenant: Some(told.tenant.clone()).filter(|tenant| !tenant.is_empty()),
            text: told.text.clone(),
            at: format_time(told.at),
            tries: delivery.tries,
            answer: delivery.answer.clone(),
            due: (delivery.state == notify::State::Waiting).then(|| format_time(silent)),
            settled_at: delivery.settled_at.map(format_time),
            attempts: delivery
                .attempts
                .iter()
                .map(|one| Sending {
                    at: format_time(one.at),
                    status: one.status(),
                    answer: one.answer.clone(),
                })
                .collect(),
            replay_of: delivery.replay.as_ref().map(|replay| replay.of.clone()),
            by: delivery.order.as_ref().map(|order| order.by.clone()),
            reason: delivery.order.as_ref().map(|order| order.why.clone()).filter(|why| !why.is_empty()),
        }
    }
}
