//! Tells people what they are to be told: each notification becomes a delivery for every channel that a route leads it to, and
//! each delivery is sent until it is taken, or has been tried so often that it is put aside as dead.
//!
//! A notification is written by the commit that it tells of, so none is lost with a crash. It becomes its deliveries in one
//! commit, so each channel has it once. An attempt is on record before it is made: of several servers one makes it, and
//! what a crash cuts off is sent again, under the same id. Only the addresses of the settings are ever called, and no
//! redirect is followed. Described in `docs/notifications.md`.

mod channel;
mod delivery;
mod email;
mod look;
mod pagerduty;
mod send;
mod share;
mod slack;
#[cfg(test)]
mod tests;
mod text;
mod webhook;

pub(crate) use channel::{Channel, Sent};
pub(crate) use delivery::{Dead, Delivery, Settled, State, Waiting};
pub(crate) use look::{Leads, look};

use crate::{app::Shared, config};
use engine::{Clock, Entity};
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use store::{Commit, Document, Error, Put, Store};
use text::Texts;
use tokio::sync::watch;
use workflows::notices::{Route, Routes};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(2);
/// How often it is looked where there is no channel: for what is old.
const IDLE: Duration = Duration::from_secs(60);
/// How long what no channel takes over is kept, and what was delivered.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// How long dead letters are kept.
const KEPT_DEAD: Duration = Duration::from_secs(30 * 86_400);
/// How often what is old is forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// The longest pause after a round that failed.
const MOST_PAUSE: Duration = Duration::from_secs(30);
/// Documents looked at in one go.
const PAGE: usize = 100;

/// What tells people, without the server around it.
pub(crate) struct Outbox {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    channels: BTreeMap<String, Channel>,
    routes: Routes,
    texts: Texts,
    /// What could not be read, by its key.
    unread: Mutex<BTreeSet<String>>,
}

/// What a round came to.
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
        let closing = channels.values().filter(|channel| channel.settings.kind == config::Means::Pagerduty);
        let closing = closing.map(|channel| channel.name.clone()).collect();
        let route = |set: config::Routed| Route {
            events: set.events,
            tenants: set.tenants,
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
            texts: Texts::of(&settings.templates)?,
            unread: Mutex::default(),
        })
    }

    /// The channels, by name.
    pub(crate) fn channels(&self) -> &BTreeMap<String, Channel> {
        &self.channels
    }

    /// Shares out what is new, and sends what is due, until `stop` says so.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn round(&self, stop: &watch::Receiver<bool>) -> Result<Round, Error> {
        let kept = self.share().await?;
        let sending = self.channels.values().map(|channel| self.send_due(channel, stop));
        let mut whole = Round { waiting: kept, ..Round::default() };
        for part in futures_util::future::join_all(sending).await {
            let part = part?;
            whole.failed += part.failed;
            whole.dead += part.dead;
            whole.waiting += part.waiting;
        }
        Ok(whole)
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
    async fn forget(&self) -> Result<(), Error> {
        let now = self.clock.now();
        let ended = |delivery: &Delivery| now.since(delivery.settled_at.unwrap_or(delivery.due));
        let settled = self.all::<Settled>("").await?.into_iter();
        let settled = settled.filter(|(_, Settled(delivery))| ended(delivery) > KEPT).map(|(found, _)| found);
        let dead = self.all::<Dead>("").await?.into_iter();
        let dead = dead.filter(|(_, Dead(delivery))| ended(delivery) > KEPT_DEAD).map(|(found, _)| found);
        let last = self.all::<delivery::Last>("").await?.into_iter();
        let last = last.filter(|(_, last)| now.since(last.at) > KEPT).map(|(found, _)| found);
        // Of a channel that is not set any more.
        let waiting = self.all::<Waiting>("").await?.into_iter();
        let lost = |delivery: &Delivery| {
            !self.channels.contains_key(&delivery.channel) && now.since(delivery.told.at) > KEPT
        };
        let waiting = waiting.filter(|(_, Waiting(delivery))| lost(delivery)).map(|(found, _)| found);
        let old: Vec<Document> = settled.chain(dead).chain(last).chain(waiting).collect();
        for some in old.chunks(PAGE) {
            self.remove(some.to_vec()).await?;
        }
        Ok(())
    }
}

/// A thing as it is written.
fn put<T: Entity>(thing: &T) -> Put {
    Put { key: store::Key::new(T::COLLECTION, thing.id()), body: serde_json::to_vec(thing).ok() }
}

/// Works until `stop` says so.
pub(crate) async fn run(app: Shared, mut stop: watch::Receiver<bool>) {
    let clock = app.engine.clock().clone();
    let every = if app.outbox.channels.is_empty() { IDLE } else { EVERY };
    let (mut pause, mut forgotten) = (every, None);
    loop {
        if !app.free(&mut stop).await || *stop.borrow() {
            return;
        }
        match app.outbox.round(&stop).await {
            Ok(round) => {
                app.requests.notifications(round.waiting);
                (0..round.failed).for_each(|_| app.requests.notify_failed());
                app.requests.notify_died(round.dead);
                pause = every;
            }
            Err(error) => {
                tracing::warn!(%error, "notifications stay for another round");
                pause = (pause * 2).min(MOST_PAUSE.max(every));
            }
        }
        let now = clock.now();
        if forgotten.is_none_or(|last| now.since(last) > FORGET_EVERY) {
            match app.outbox.forget().await {
                Ok(()) => forgotten = Some(now),
                Err(error) => tracing::warn!(%error, "what is old of deliveries stays"),
            }
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = clock.sleep_until(clock.now().after(pause)) => {}
        }
    }
}
