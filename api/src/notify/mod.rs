//! Notifications: each event becomes a delivery for every channel of its routes. A delivery is sent until the receiver accepts it, or until it is dead after
//! the maximum number of attempts.
//!
//! The commit of an event also writes its notification, so a crash loses none. One commit creates all deliveries of a notification. An attempt is recorded
//! before it is sent, so only one of several servers sends it. After a crash it is sent again with the same id. Requests go only to configured addresses,
//! without redirects. Each channel has its own task, so no channel waits for another. Described in `docs/notifications.md`.

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

/// How long delivered notifications, and those without a channel, are kept.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// How long dead letters are kept.
const KEPT_DEAD: Duration = Duration::from_secs(30 * 86_400);
/// The number of documents read at once.
const PAGE: usize = 100;

/// The notifications of a server.
pub(crate) struct Outbox {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    channels: BTreeMap<String, Channel>,
    routes: Routes,
    texts: Templates,
    /// True if executions have traces.
    traced: bool,
    /// The keys of unreadable documents.
    unread: Mutex<BTreeSet<String>>,
    /// The number of waiting deliveries by channel; the empty name counts notifications without a channel.
    waiting: Mutex<BTreeMap<String, i64>>,
}

/// The result of a round of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// The number of failed attempts.
    pub(crate) failed: u64,
    /// The number of deliveries that became dead.
    pub(crate) dead: u64,
    /// The number of waiting deliveries.
    pub(crate) waiting: i64,
}

impl Outbox {
    /// Creates the channels and routes of the settings.
    ///
    /// # Errors
    /// The invalid setting.
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

    /// Sets whether notifications have the trace context of their execution.
    pub(crate) fn traced(self, traced: bool) -> Self {
        Self { traced, ..self }
    }

    /// Returns the channels by name.
    pub(crate) fn channels(&self) -> &BTreeMap<String, Channel> {
        &self.channels
    }

    /// Records the number of waiting deliveries of a channel, and returns the total.
    pub(crate) fn waits(&self, channel: &str, waiting: i64) -> i64 {
        let mut all = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(channel.to_owned(), waiting);
        all.values().sum()
    }

    /// Returns every document of a collection whose id begins with `prefix`. Unreadable documents, for example of another version, are left unchanged and
    /// logged once.
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
                            tracing::error!(document = %found.key, %error, "an unreadable document is left unchanged");
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

    /// Removes delivered notifications and dead letters after their retention period.
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
        // Deliveries of a channel that is no longer configured.
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

/// Returns the write of a document.
fn put_document<T: Entity>(thing: &T) -> Put {
    Put { key: store::Key::new(T::COLLECTION, thing.id()), body: serde_json::to_vec(thing).ok() }
}
