//! Channels, and what became of what they were to tell.

use super::Time;
use crate::{http::time, notify};
use schemars::JsonSchema;
use serde::Serialize;
use workflows::notices::{Act, Severity, kind_of};

/// A channel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Channel {
    pub(crate) id: String,
    /// `webhook`, `slack`, `pagerduty` or `email`.
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

/// What became of one notification on one channel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Delivery {
    /// Names it within its channel.
    pub(crate) id: String,
    pub(crate) channel: String,
    /// `waiting`, `delivered`, `merged` (the same had just been told), `over` (the matter was over before its turn) or `dead`.
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
                Act::Opens => "opens",
                Act::TakesUp => "takes_up",
                Act::Closes => "closes",
                Act::Tells => "tells",
            },
            matter: delivery.matter(),
            tenant: Some(told.tenant.clone()).filter(|tenant| !tenant.is_empty()),
            text: told.text.clone(),
            at: time(told.at),
            tries: delivery.tries,
            answer: delivery.answer.clone(),
            due: (delivery.state == notify::State::Waiting).then(|| time(silent)),
            settled_at: delivery.settled_at.map(time),
        }
    }
}
