//! A delivery: one notification on one channel, as it is stored.

use engine::{Entity, Notification};
use serde::{Deserialize, Serialize};
use store::{CompositeKey, Timestamp};
use workflows::notices::{MatterChange, kind_of, matter};

/// One notification for one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivery {
    /// The channel.
    pub(crate) channel: String,
    /// The notification.
    pub(crate) told: Notification,
    /// The state.
    pub(crate) state: State,
    /// The number of attempts, including a running one.
    pub(crate) tries: u32,
    /// The time of the next attempt.
    pub(crate) due: Timestamp,
    /// The answer to the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    /// The end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) settled_at: Option<Timestamp>,
    /// The last attempts, including a running one; oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attempts: Vec<Attempt>,
    /// For a resent delivery: the original one and the time of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replay: Option<ReplayedFrom>,
    /// The operator who discarded or resent it, and the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<DeliveryCommand>,
}

/// An attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// The start.
    pub(crate) at: Timestamp,
    /// The result; `None` while it is running, or after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
}

impl Attempt {
    /// Returns the number at the start of the answer, as in HTTP and SMTP.
    pub(crate) fn status(&self) -> Option<u16> {
        let first = self.answer.as_deref()?.split(' ').next()?;
        first.parse().ok().filter(|status| (100..600).contains(status))
    }
}

/// The original of a resent delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayedFrom {
    /// The original delivery.
    pub(crate) of: String,
    /// The time of the command.
    pub(crate) at: Timestamp,
}

/// A command of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryCommand {
    /// The operator.
    pub(crate) by: String,
    /// The reason; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
}

/// The number of stored attempts.
const ATTEMPTS: usize = 10;

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum State {
    /// The delivery waits for its next attempt.
    Waiting,
    /// Accepted by the receiver.
    Delivered,
    /// The same notification was just sent, so this one is skipped.
    Merged,
    /// The matter ended before the delivery was sent.
    Over,
    /// All attempts failed.
    Dead,
    /// Discarded by an operator.
    Discarded,
    /// Dead, and sent again as another delivery.
    Resent,
}

impl Delivery {
    /// Creates a delivery that waits until `due`.
    pub(crate) fn waiting(channel: &str, told: Notification, due: Timestamp) -> Self {
        Self {
            channel: channel.into(),
            told,
            state: State::Waiting,
            tries: 0,
            due,
            answer: None,
            settled_at: None,
            attempts: Vec::new(),
            replay: None,
            order: None,
        }
    }

    /// Creates a new delivery of the same notification, requested at `now`.
    pub(crate) fn replayed(&self, now: Timestamp, order: DeliveryCommand) -> Self {
        let replay = Some(ReplayedFrom { of: self.name(), at: now });
        Self { replay, order: Some(order), ..Self::waiting(&self.channel, self.told.clone(), now) }
    }

    /// Adds an attempt that starts at `at`.
    pub(crate) fn tried(mut self, at: Timestamp) -> Self {
        self.tries = self.tries.saturating_add(1);
        self.attempts.push(Attempt { at, answer: None });
        let more = self.attempts.len().saturating_sub(ATTEMPTS);
        self.attempts.drain(..more);
        self
    }

    /// Adds the result of the last attempt.
    pub(crate) fn answered(mut self, answer: String) -> Self {
        if let Some(last) = self.attempts.last_mut() {
            last.answer = Some(answer.clone());
        }
        self.answer = Some(answer);
        self
    }

    /// Returns true if an attempt is running at `now`, according to the record.
    pub(crate) fn is_under_way(&self, now: Timestamp) -> bool {
        self.due > now && self.attempts.last().is_some_and(|last| last.answer.is_none())
    }

    /// Returns the name within the channel. Names sort by time, and at the same time the opening of a matter before its end. A resent delivery has the time of
    /// its command appended.
    pub(crate) fn name(&self) -> String {
        let rank = match kind_of(&self.told).act {
            MatterChange::Opens => 0,
            MatterChange::TakesUp => 1,
            MatterChange::Tells => 2,
            MatterChange::Closes => 3,
        };
        let again = self.replay.as_ref().map(|replay| format!(".again.{}", replay.at.0)).unwrap_or_default();
        format!("{:013}.{rank}.{}{again}", self.told.at.0, self.told.id)
    }

    /// Returns the sequence key of a notification, which sorts by time.
    pub(crate) fn sequence(told: &Notification) -> String {
        let name = Self::waiting("", told.clone(), told.at).name();
        name.split('.').take(2).collect::<Vec<_>>().join(".")
    }

    /// Returns the key of the matter.
    pub(crate) fn matter(&self) -> String {
        matter(&self.told)
    }

    /// Ends the delivery.
    pub(crate) fn settled(self, state: State, at: Timestamp) -> Self {
        Self { state, settled_at: Some(at), ..self }
    }
}

/// A delivery to be sent, sorted by the time of sending.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct WaitingDelivery(pub(crate) Delivery);

impl Entity for WaitingDelivery {
    const COLLECTION: &'static str = "deliveries";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        CompositeKey::of(&[&self.0.channel]).tail(self.0.name()).into()
    }
}

/// A settled delivery, latest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SettledDelivery(pub(crate) Delivery);

/// Later than any time that fits into a name.
const END_OF_TIME: u64 = 9_999_999_999_999;

impl Entity for SettledDelivery {
    const COLLECTION: &'static str = "deliveries-settled";
    const RETENTION: engine::Retention<Self> = engine::Retention::Until(|sent| {
        Some(sent.0.settled_at.unwrap_or(sent.0.due).after(engine::DAY * 90))
    });

    fn id(&self) -> String {
        let at = self.0.settled_at.unwrap_or(self.0.due).0;
        CompositeKey::of(&[&self.0.channel])
            .tail(format_args!("{:013}.{}", END_OF_TIME.saturating_sub(at), self.0.name()))
            .into()
    }
}

/// A dead delivery.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct DeadDelivery(pub(crate) Delivery);

impl Entity for DeadDelivery {
    const COLLECTION: &'static str = "dead-letters";
    const RETENTION: engine::Retention<Self> =
        engine::Retention::Until(|dead| Some(dead.0.told.at.after(engine::DAY * 400)));

    fn id(&self) -> String {
        CompositeKey::of(&[&self.0.channel]).tail(self.0.name()).into()
    }
}

/// The last notification that a channel sent about a matter, to suppress repetitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastNotified {
    /// The channel.
    pub(crate) channel: String,
    /// The matter.
    pub(crate) matter: String,
    /// The event, with its reason.
    pub(crate) event: String,
    /// The time of the event.
    pub(crate) at: Timestamp,
}

impl LastNotified {
    /// Returns the event with its reason, which identifies a repetition.
    pub(crate) fn event(told: &Notification) -> String {
        format!("{}/{}", told.kind, told.reason.as_deref().unwrap_or_default())
    }

    /// Returns the document key.
    pub(crate) fn key(channel: &str, matter: &str) -> String {
        CompositeKey::of(&[&channel]).tail(matter).into()
    }
}

impl Entity for LastNotified {
    const COLLECTION: &'static str = "last-told";
    const RETENTION: engine::Retention<Self> =
        engine::Retention::Until(|last| Some(last.at.after(engine::DAY * 400)));

    fn id(&self) -> String {
        Self::key(&self.channel, &self.matter)
    }
}
