//! Notification channels and their deliveries.

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
    /// The quiet hours of notifications that are not urgent: `from`, `to` and `zone`.
    #[schemars(with = "Option<super::Object>")]
    pub(crate) quiet: Option<serde_json::Value>,
    /// The minimum severity of urgent notifications.
    pub(crate) urgent: &'static str,
    /// The maximum number of attempts of a delivery.
    pub(crate) attempts: u32,
    /// The period in which a repeated event of the same matter is not sent again.
    #[schemars(with = "super::Span")]
    pub(crate) dedup: String,
    /// The number of waiting deliveries.
    pub(crate) waiting: usize,
    /// The number of dead deliveries.
    pub(crate) dead: usize,
}

/// A channel with dead letters, which needs an operator like a stuck execution.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StuckChannel")]
pub(crate) struct Stuck {
    /// The channel.
    pub(crate) id: String,
    /// `delivery`, which is not a workflow.
    pub(crate) workflow: &'static str,
    /// The subject, such as `channel/pager`.
    pub(crate) subject: String,
    /// `dead`.
    pub(crate) state: &'static str,
    /// `delivery_dead`.
    pub(crate) reason: &'static str,
    /// The number of dead letters.
    pub(crate) dead: u64,
    /// The time of the oldest one.
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// The roles that must act.
    pub(crate) owner: Vec<&'static str>,
    /// The next step.
    pub(crate) next: &'static str,
    /// The last answer to the latest dead letter.
    pub(crate) message: Option<String>,
}

impl Stuck {
    /// The `reason` of dead letters.
    pub(crate) const REASON: &'static str = "delivery_dead";
    /// The `workflow` of dead letters.
    pub(crate) const WORKFLOW: &'static str = "delivery";

    /// Returns a channel with dead letters at `now`; `None` without any.
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
            next: "fix the receiver, test it with `tenure notify test`, then use `tenure notify resend CHANNEL --all`, or `discard`",
            message: tally.answer.clone(),
        })
    }
}

/// A delivery: one notification on one channel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Delivery {
    /// The id within the channel.
    pub(crate) id: String,
    pub(crate) channel: String,
    /// `waiting`, `delivered`, `merged` (the same was just sent), `over` (the matter ended before), `dead`, `discarded` (an operator gave it up) or `resent`
    /// (it was dead, and was sent again as another delivery).
    pub(crate) state: &'static str,
    /// The id of the notification for receivers.
    pub(crate) notification: String,
    /// The event, such as `approval.opened`.
    pub(crate) event: String,
    /// `info`, `warning`, `error` or `critical`.
    pub(crate) severity: &'static str,
    /// `opens`, `takes_up` or `closes` a matter, or `tells` without a state.
    pub(crate) act: &'static str,
    /// The key of the matter, shared by its opening and closing events.
    pub(crate) matter: String,
    pub(crate) tenant: Option<String>,
    pub(crate) text: String,
    /// The time of the event.
    #[schemars(with = "Time")]
    pub(crate) at: String,
    pub(crate) tries: u32,
    /// The answer to the last attempt.
    pub(crate) answer: Option<String>,
    /// The next attempt of a waiting delivery, after quiet hours.
    #[schemars(with = "Option<Time>")]
    pub(crate) due: Option<String>,
    /// The end of the delivery.
    #[schemars(with = "Option<Time>")]
    pub(crate) settled_at: Option<String>,
    /// The last ten attempts, oldest first.
    pub(crate) attempts: Vec<Sending>,
    /// For a resent delivery: the original one.
    pub(crate) replay_of: Option<String>,
    /// The operator who tested, discarded or resent it.
    pub(crate) by: Option<String>,
    /// The reason.
    pub(crate) reason: Option<String>,
}

/// An attempt of a delivery.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeliveryAttempt")]
pub(crate) struct Sending {
    /// The start of the attempt.
    #[schemars(with = "Time")]
    pub(crate) at: String,
    /// The HTTP status of the answer, if any.
    pub(crate) status: Option<u16>,
    /// The answer; `null` while it is pending, or if a crash ended it.
    pub(crate) answer: Option<String>,
}

impl Delivery {
    /// Returns the delivery as shown; `channel` has the quiet hours.
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
