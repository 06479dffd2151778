//! Sends the due deliveries of a channel in order of time. Each attempt is recorded before it is sent.

use super::{
    Channel, Outbox, Round, Sent,
    channel::PATIENCE,
    delivery::{DeadDelivery, Delivery, SettledDelivery, State, WaitingDelivery},
    put_document,
};
use engine::{Entity as _, Notification};
use std::{collections::BTreeSet, time::Duration};
use store::{Commit, CompositeKey, Error, Key, Put, Read, Sequence, Timestamp};
use tokio::sync::watch;

/// How long an attempt belongs to one server.
const CLAIMED: Duration = PATIENCE.saturating_mul(6);

impl Outbox {
    /// Sends the due deliveries of `channel`, one after the other. A failed delivery delays only those of the same matter; an unreachable receiver ends the
    /// round.
    pub(crate) async fn send_due(
        &self,
        channel: &Channel,
        stop: &watch::Receiver<bool>,
    ) -> Result<Round, Error> {
        let mut round = Round::default();
        let mut kept_back = BTreeSet::new();
        let mut reached = true;
        let prefix = CompositeKey::of(&[&channel.name]).prefix();
        for (found, WaitingDelivery(delivery)) in self.all::<WaitingDelivery>(&prefix).await? {
            let (now, about) = (self.clock.now(), delivery.matter());
            let is_due = delivery.due <= now && channel.silent(&delivery.told, now).is_none();
            if delivery.due <= now || delivery.tries > 0 {
                round.waiting += 1;
            }
            if !is_due || kept_back.contains(&about) || !reached || *stop.borrow() {
                if delivery.tries > 0 {
                    kept_back.insert(about);
                }
                continue;
            }
            let Some((claim, delivery)) = self.claim(found.version, delivery).await? else {
                kept_back.insert(about);
                continue;
            };
            let sent = channel.send(&delivery.told, (&self.texts, self.trace_of(&delivery.told)), now).await;
            reached = !matches!(sent, Sent::Unreached(_));
            if matches!(sent, Sent::Taken(_)) {
                round.waiting -= 1;
            } else {
                round.failed += 1;
                kept_back.insert(about);
            }
            round.dead += u64::from(self.settle(channel, claim, delivery, sent).await?);
        }
        Ok(round)
    }

    /// Returns the trace of the notification's execution, if any. The id of an approval begins with that of its execution.
    fn trace_of(&self, told: &Notification) -> Option<String> {
        let is_of_one = told.kind.starts_with("execution.") || told.kind.starts_with("approval.");
        let id = told.about.split('.').next().filter(|_| self.traced && is_of_one)?;
        parent(id.parse().ok()?)
    }

    /// Records an attempt. Returns `None` if another server was first.
    async fn claim(
        &self,
        version: Sequence,
        delivery: Delivery,
    ) -> Result<Option<(Sequence, Delivery)>, Error> {
        let now = self.clock.now();
        let claimed = Delivery { due: now.after(CLAIMED), ..delivery.tried(now) };
        let next = put_document(&WaitingDelivery(claimed.clone()));
        let reads = vec![Read { key: next.key.clone(), version: Some(version) }];
        match self.store.commit(Commit { reads, documents: vec![next], ..Commit::default() }).await {
            Ok(receipt) => Ok(Some((receipt.sequence, claimed))),
            Err(Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Records the result of an attempt. Returns true if the delivery is now dead.
    async fn settle(
        &self,
        channel: &Channel,
        claim: Sequence,
        delivery: Delivery,
        sent: Sent,
    ) -> Result<bool, Error> {
        let now = self.clock.now();
        let mut dead = false;
        let key = Key::new(WaitingDelivery::COLLECTION, WaitingDelivery(delivery.clone()).id());
        let gone = Put { key: key.clone(), body: None };
        let (name, id, tries) = (&channel.name, &delivery.told.id, delivery.tries);
        let documents = match sent {
            Sent::Taken(answer) => {
                tracing::debug!(channel = name, id, "told");
                vec![
                    gone,
                    put_document(&SettledDelivery(delivery.answered(answer).settled(State::Delivered, now))),
                ]
            }
            Sent::Refused(why, _) | Sent::Unreached(why) if tries >= channel.settings.attempts => {
                tracing::error!(
                    channel = name,
                    id,
                    tries,
                    why,
                    "a notification is dead after its last attempt"
                );
                dead = true;
                vec![gone, put_document(&DeadDelivery(delivery.answered(why).settled(State::Dead, now)))]
            }
            Sent::Refused(why, asked) => {
                tracing::warn!(channel = name, id, tries, why, "a notification was refused; trying again");
                vec![put_document(&WaitingDelivery(again(channel, delivery, (why, asked), now)))]
            }
            Sent::Unreached(why) => {
                tracing::warn!(
                    channel = name,
                    id,
                    tries,
                    why,
                    "a notification receiver did not answer; trying again"
                );
                vec![put_document(&WaitingDelivery(again(channel, delivery, (why, None), now)))]
            }
        };
        let reads = vec![Read { key, version: Some(claim) }];
        match self.store.commit(Commit { reads, documents, ..Commit::default() }).await {
            Ok(_) => Ok(dead),
            // Another server has claimed the delivery, and records the result.
            Err(Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends a test notification now. Records and returns the result.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn test(&self, channel: &Channel, by: &str, name: &str) -> Result<Delivery, Error> {
        let now = self.clock.now();
        let told = Notification {
            id: format!("{}.test.{name}", channel.name),
            kind: "channel.test".into(),
            reason: None,
            about: channel.name.clone(),
            tenant: String::new(),
            to: Vec::new(),
            text: format!("{by} tests the channel {}; no action is needed", channel.name),
            at: now,
        };
        let tried = Delivery::waiting(&channel.name, told, now).tried(now);
        let ended = match channel.send(&tried.told, (&self.texts, None), now).await {
            Sent::Taken(answer) => tried.answered(answer).settled(State::Delivered, now),
            Sent::Refused(why, _) | Sent::Unreached(why) => tried.answered(why).settled(State::Dead, now),
        };
        let documents = vec![put_document(&SettledDelivery(ended.clone()))];
        self.store.commit(Commit { documents, ..Commit::default() }).await?;
        Ok(ended)
    }
}

#[cfg(feature = "otlp")]
fn parent(id: store::ExecutionId) -> Option<String> {
    Some(crate::telemetry::traces::parent(id))
}

/// Without the feature there are no traces.
#[cfg(not(feature = "otlp"))]
fn parent(_: store::ExecutionId) -> Option<String> {
    None
}

/// Returns the delivery with a delay before its next attempt.
fn again(
    channel: &Channel,
    delivery: Delivery,
    (why, asked): (String, Option<Duration>),
    now: Timestamp,
) -> Delivery {
    let seed =
        delivery.told.id.bytes().fold(u64::from(delivery.tries), |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
    let pause = channel.pause(delivery.tries, asked, seed).unwrap_or_default();
    Delivery { due: now.after(pause), ..delivery.answered(why) }
}
