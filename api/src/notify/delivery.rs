//! A delivery: one notification on its way through one channel, as it is kept.

use engine::{Entity, Notification};
use serde::{Deserialize, Serialize};
use store::Timestamp;
use workflows::notices::{Act, kind_of, matter};

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
}

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
        }
    }

    /// What it is called within its channel: in the order of time, and of one moment what opens a matter before what closes it.
    pub(crate) fn name(&self) -> String {
        let rank = match kind_of(&self.told).act {
            Act::Opens => 0,
            Act::TakesUp => 1,
            Act::Tells => 2,
            Act::Closes => 3,
        };
        format!("{:013}.{rank}.{}", self.told.at.0, self.told.id)
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
pub(crate) struct Waiting(pub(crate) Delivery);

impl Entity for Waiting {
    const COLLECTION: &'static str = "deliveries";

    fn id(&self) -> String {
        format!("{}/{}", self.0.channel, self.0.name())
    }
}

/// A delivery that has come to a good end, the latest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Settled(pub(crate) Delivery);

/// Past the last moment that a name has room for.
const END_OF_TIME: u64 = 9_999_999_999_999;

impl Entity for Settled {
    const COLLECTION: &'static str = "deliveries-settled";

    fn id(&self) -> String {
        let at = self.0.settled_at.unwrap_or(self.0.due).0;
        format!("{}/{:013}.{}", self.0.channel, END_OF_TIME.saturating_sub(at), self.0.name())
    }
}

/// A delivery that nobody took.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Dead(pub(crate) Delivery);

impl Entity for Dead {
    const COLLECTION: &'static str = "dead-letters";

    fn id(&self) -> String {
        format!("{}/{}", self.0.channel, self.0.name())
    }
}

/// What a channel told of a matter last, so that the same is not told again at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Last {
    /// The channel.
    pub(crate) channel: String,
    /// The matter.
    pub(crate) matter: String,
    /// The event, and its reason.
    pub(crate) event: String,
    /// When it happened.
    pub(crate) at: Timestamp,
}

impl Last {
    /// What tells the same from something else.
    pub(crate) fn event(told: &Notification) -> String {
        format!("{}/{}", told.kind, told.reason.as_deref().unwrap_or_default())
    }

    /// Where it lies.
    pub(crate) fn key(channel: &str, matter: &str) -> String {
        format!("{channel}/{matter}")
    }
}

impl Entity for Last {
    const COLLECTION: &'static str = "last-told";

    fn id(&self) -> String {
        Self::key(&self.channel, &self.matter)
    }
}
