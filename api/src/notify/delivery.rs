//! A delivery: one notification on its way through one channel, as it is kept.

use engine::{Entity, Notification};
use serde::{Deserialize, Serialize};
use store::{CompositeKey, Timestamp};
use workflows::notices::{MatterChange, kind_of, matter};

/// One notification for one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivery {
    /// The channel.
    pub(crate) channel: String,
    /// What is told.
    pub(crate) told: Notification,
    /// How it stands.
    pub(crate) state: State,
    /// How often it was sent, the attempt under way included.
    pub(crate) tries: u32,
    /// When it is sent next.
    pub(crate) due: Timestamp,
    /// What the last attempt was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    /// When it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) settled_at: Option<Timestamp>,
    /// The last attempts, the one under way included; the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attempts: Vec<Attempt>,
    /// Of what is sent again: which delivery before, and since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replay: Option<ReplayedFrom>,
    /// Who gave it up, or let it be sent again, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<DeliveryCommand>,
}

/// One attempt to send a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// When it began.
    pub(crate) at: Timestamp,
    /// What it came to; nothing while it is under way, or if a crash cut it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
}

impl Attempt {
    /// The number that the answer begins with, as those of HTTP and SMTP do.
    pub(crate) fn status(&self) -> Option<u16> {
        let first = self.answer.as_deref()?.split(' ').next()?;
        first.parse().ok().filter(|status| (100..600).contains(status))
    }
}

/// What a delivery that is sent again goes back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayedFrom {
    /// The delivery before.
    pub(crate) of: String,
    /// When somebody asked for it.
    pub(crate) at: Timestamp,
}

/// What somebody wanted done with a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryCommand {
    /// Who.
    pub(crate) by: String,
    /// Why; empty if that was not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
}

/// How many attempts are kept.
const ATTEMPTS: usize = 10;

/// How a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum State {
    /// It is to be sent.
    Waiting,
    /// It was taken.
    Delivered,
    /// The same had just been told.
    Merged,
    /// The matter was over before it was its turn.
    Over,
    /// It was not taken, however often it was sent.
    Dead,
    /// Somebody gave it up.
    Discarded,
    /// It was dead, and is sent again as another delivery.
    Resent,
}

impl Delivery {
    /// One that waits until `due`.
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

    /// The same notification on its way again, asked for at `now`: a delivery of its own, from the first attempt on.
    pub(crate) fn replayed(&self, now: Timestamp, order: DeliveryCommand) -> Self {
        let replay = Some(ReplayedFrom { of: self.name(), at: now });
        Self { replay, order: Some(order), ..Self::waiting(&self.channel, self.told.clone(), now) }
    }

    /// It, with one more attempt that begins at `at`.
    pub(crate) fn tried(mut self, at: Timestamp) -> Self {
        self.tries = self.tries.saturating_add(1);
        self.attempts.push(Attempt { at, answer: None });
        let more = self.attempts.len().saturating_sub(ATTEMPTS);
        self.attempts.drain(..more);
        self
    }

    /// It, with what the last attempt came to.
    pub(crate) fn answered(mut self, answer: String) -> Self {
        if let Some(last) = self.attempts.last_mut() {
            last.answer = Some(answer.clone());
        }
        self.answer = Some(answer);
        self
    }

    /// Whether an attempt is being made at `now`, as far as is on record.
    pub(crate) fn is_under_way(&self, now: Timestamp) -> bool {
        self.due > now && self.attempts.last().is_some_and(|last| last.answer.is_none())
    }

    /// What it is called within its channel: in the order of time, and of one moment what opens a matter before what closes it. What is
    /// sent again has the moment at which somebody asked for that behind it.
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

    /// Where it stands among all that is told: what comes later sorts behind.
    pub(crate) fn sequence(told: &Notification) -> String {
        let name = Self::waiting("", told.clone(), told.at).name();
        name.split('.').take(2).collect::<Vec<_>>().join(".")
    }

    /// The matter that it is about.
    pub(crate) fn matter(&self) -> String {
        matter(&self.told)
    }

    /// It, come to its end.
    pub(crate) fn settled(self, state: State, at: Timestamp) -> Self {
        Self { state, settled_at: Some(at), ..self }
    }
}

/// A delivery that is to be sent, in the order of sending.
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

/// A delivery that has come to a good end, the latest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SettledDelivery(pub(crate) Delivery);

/// Past the last moment that a name has room for.
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

/// A delivery that nobody took.
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

/// What a channel told of a matter last, so that the same is not told again at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastNotified {
    /// The channel.
    pub(crate) channel: String,
    /// The matter.
    pub(crate) matter: String,
    /// The event, and its reason.
    pub(crate) event: String,
    /// When it happened.
    pub(crate) at: Timestamp,
}

impl LastNotified {
    /// What tells the same from something else.
    pub(crate) fn event(told: &Notification) -> String {
        format!("{}/{}", told.kind, told.reason.as_deref().unwrap_or_default())
    }

    /// Where it lies.
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
