//! Tells people what they are to be told: each notification becomes a delivery for every channel that a route leads it to, and
//! each delivery is sent until it is taken, or has been tried so often that it is put aside as dead.
//!
//! A notification is written by the commit that it tells of, so none is lost with a crash. It becomes its deliveries in one
//! commit, so each channel has it once. An attempt is on record before it is made: of several servers one makes it, and
//! what a crash cuts off is sent again, under the same id. Only the addresses of the settings are ever called, and no
//! redirect is followed. Each channel has a task of its own, so that none waits for another. Described in `docs/notifications.md`.

mod channel;
mod check;
mod commands;
mod counts;
mod delivery;
mod fan_out;
mod send;
#[cfg(test)]
mod tests;
mod text;

pub use channel::signature::{SignatureError, SigningKeys};
pub(crate) use channel::{Channel, Sent};
pub use check::{Destination, check};
pub(crate) use commands::{CommandOutcome, DeliveryKeys};
pub(crate) use counts::DeliveryCount;
pub(crate) use delivery::{
    DeadDelivery, Delivery, DeliveryCommand, LastNotified, SettledDelivery, State, WaitingDelivery,
};

use crate::config;
use engine::{Clock, Entity};
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use store::{Commit, Document, Error, Put, Store};
use text::Templates;
use workflows::notices::{Route, Routes};

/// How long what no channel takes over is kept, and what was delivered.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// How long dead letters are kept.
const KEPT_DEAD: Duration = Duration::from_secs(30 * 86_400);
/// Documents looked at in one go.
const PAGE: usize = 100;

/// What tells people, without the server around it.
pub(crate) struct Outbox {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    channels: BTreeMap<String, Channel>,
    routes: Routes,
    texts: Templates,
    /// Whether executions have traces.
    traced: bool,
    /// What could not be read, by its key.
    unread: Mutex<BTreeSet<String>>,
    /// How much waits, by channel; under no name what no channel takes over.
    waiting: Mutex<BTreeMap<String, i64>>,
}

/// What a round of one channel came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// Attempts that were not taken.
    pub(crate) failed: u64,
    /// Deliveries that nobody took and that are not tried again.
    pub(crate) dead: u64,
    /// What waits.
    pub(crate) waiting: i64,
}

impl Outbox {
    /// One for the channels and routes of the settings.
    ///
    /// # Errors
    /// The setting at fault.
    pub(crate) fn of(
        settings: &config::Notify,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let made =
            settings.all().into_iter().map(|(name, set)| Ok((name.clone(), Channel::of(&name, &set)?)));
        let channels = made.collect::<Result<BTreeMap<String, Channel>, String>>()?;
        let closing =
            channels.values().filter(|channel| channel.settings.kind == config::ChannelKind::Pagerduty);
        let closing = closing.map(|channel| channel.name.clone()).collect();
        let route = |set: config::RouteSettings| Route {
            events: set.events,
            tenants: set.tenants,
            roles: set.roles,
            severity: set.severity,
            channels: set.channels,
            after: set.after.0,
        };
        let routes = Routes { routes: settings.all_routes().into_iter().map(route).collect(), closing };
        Ok(Self {
            store,
            clock,
            channels,
            routes,
            texts: Templates::of(&settings.templates)?,
            traced: false,
            unread: Mutex::default(),
            waiting: Mutex::default(),
        })
    }

    /// The same, which says in which trace what it tells of stands, if there are traces.
    pub(crate) fn traced(self, traced: bool) -> Self {
        Self { traced, ..self }
    }

    /// The channels, by name.
    pub(crate) fn channels(&self) -> &BTreeMap<String, Channel> {
        &self.channels
    }

    /// Notes how much waits on a channel; how much waits on all of them.
    pub(crate) fn waits(&self, channel: &str, waiting: i64) -> i64 {
        let mut all = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(channel.to_owned(), waiting);
        all.values().sum()
    }

    /// Every document of a collection whose name begins with `prefix`, with what it says. What cannot be read is left as it is, and said
    /// once: another version may have written it.
    async fn all<T: Entity + DeserializeOwned>(&self, prefix: &str) -> Result<Vec<(Document, T)>, Error> {
        let (mut all, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = self.store.documents(T::COLLECTION, prefix, after.as_deref(), PAGE).await?;
            for found in page.items {
                match serde_json::from_slice(&found.body) {
                    Ok(item) => all.push((found, item)),
                    Err(error) => {
                        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
                        if unread.insert(found.key.to_string()) {
                            tracing::error!(document = %found.key, %error, "it cannot be read, and is left as it is");
                        }
                    }
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    async fn remove(&self, found: Vec<Document>) -> Result<(), Error> {
        let documents = found.into_iter().map(|found| Put { key: found.key, body: None }).collect();
        self.store.commit(Commit { documents, ..Commit::default() }).await.map(|_| ())
    }

    /// Forgets what was delivered, and dead letters, once they have been kept long enough.
    pub(crate) async fn forget(&self) -> Result<(), Error> {
        let now = self.clock.now();
        let ended = |delivery: &Delivery| now.since(delivery.settled_at.unwrap_or(delivery.due));
        let settled = self.all::<SettledDelivery>("").await?.into_iter();
        let settled =
            settled.filter(|(_, SettledDelivery(delivery))| ended(delivery) > KEPT).map(|(found, _)| found);
        let dead = self.all::<DeadDelivery>("").await?.into_iter();
        let dead =
            dead.filter(|(_, DeadDelivery(delivery))| ended(delivery) > KEPT_DEAD).map(|(found, _)| found);
        let last = self.all::<delivery::LastNotified>("").await?.into_iter();
        let last = last.filter(|(_, last)| now.since(last.at) > KEPT).map(|(found, _)| found);
        // Of a channel that is not set any more.
        let waiting = self.all::<WaitingDelivery>("").await?.into_iter();
        let lost = |delivery: &Delivery| {
            !self.channels.contains_key(&delivery.channel) && now.since(delivery.told.at) > KEPT
        };
        let waiting = waiting.filter(|(_, WaitingDelivery(delivery))| lost(delivery)).map(|(found, _)| found);
        let old: Vec<Document> = settled.chain(dead).chain(last).chain(waiting).collect();
        for some in old.chunks(PAGE) {
            self.remove(some.to_vec()).await?;
        }
        Ok(())
    }
}

/// A thing as it is written.
fn put_document<T: Entity>(thing: &T) -> Put {
    Put { key: store::Key::new(T::COLLECTION, thing.id()), body: serde_json::to_vec(thing).ok() }
}
