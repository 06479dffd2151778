//! Creates the deliveries of a notification for all channels of its routes, in one commit.

use super::{
    KEPT, Outbox,
    delivery::{Delivery, LastNotified, SettledDelivery, State, WaitingDelivery},
    put_document,
};
use engine::{Entity as _, Notification};
use store::{Commit, Document, Error, Key, Put, Read, Sequence};
use workflows::notices::{MatterChange, kind_of, matter};

/// A waiting delivery with the version of its document.
type VersionedDelivery = (Sequence, Delivery);

impl Outbox {
    /// Creates the deliveries of new notifications. Returns the number of notifications that are kept without a channel.
    pub(crate) async fn share(&self) -> Result<i64, Error> {
        let mut fresh = self.all::<Notification>("").await?;
        if self.channels.is_empty() {
            return self.keep(fresh).await;
        }
        if fresh.is_empty() {
            return Ok(0);
        }
        // The opening of a matter comes before its end, even at the same time.
        fresh.sort_by_key(|(_, told)| Delivery::waiting("", told.clone(), told.at).name());
        let mut queued = self.queued().await?;
        for (found, told) in fresh {
            match self.share_one(&found, &told, &queued).await {
                Ok((gone, new)) => {
                    queued.retain(|(_, delivery)| !gone.contains(&WaitingDelivery(delivery.clone()).id()));
                    queued.extend(new);
                }
                // Another server was first, or a precondition has changed.
                Err(Error::Conflict { .. }) => queued = self.queued().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    async fn queued(&self) -> Result<Vec<VersionedDelivery>, Error> {
        let all = self.all::<WaitingDelivery>("").await?.into_iter();
        Ok(all.map(|(found, WaitingDelivery(delivery))| (found.version, delivery)).collect())
    }

    /// Without a channel, new notifications are kept for a while for readers of the store.
    async fn keep(&self, fresh: Vec<(Document, Notification)>) -> Result<i64, Error> {
        let now = self.clock.now();
        let (old, kept): (Vec<_>, Vec<_>) =
            fresh.into_iter().partition(|(_, told)| now.since(told.at) > KEPT);
        if !old.is_empty() {
            self.remove(old.into_iter().map(|(found, _)| found).collect()).await?;
        }
        Ok(i64::try_from(kept.len()).unwrap_or(i64::MAX))
    }

    /// Returns the names of deliveries that are no longer needed, and the deliveries to send.
    async fn share_one(
        &self,
        found: &Document,
        told: &Notification,
        queued: &[VersionedDelivery],
    ) -> Result<(Vec<String>, Vec<VersionedDelivery>), Error> {
        let (kind, about, now) = (kind_of(told), matter(told), self.clock.now());
        let mut commit = Commit {
            reads: vec![Read { key: found.key.clone(), version: Some(found.version) }],
            documents: vec![Put { key: found.key.clone(), body: None }],
            ..Commit::default()
        };
        let old = now.since(told.at) > KEPT;
        let shares = if old { Vec::new() } else { self.routes.channel_shares(told) };
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        if kind.act == MatterChange::Closes {
            gone = self.close(&about, queued, &mut commit).await?;
        }
        for share in shares {
            let delivery = Delivery::waiting(&share.channel, told.clone(), share.due);
            if matches!(kind.act, MatterChange::Opens | MatterChange::Tells)
                && self.just_told(&delivery, &mut commit).await?
            {
                commit.documents.push(put_document(&SettledDelivery(delivery.settled(State::Merged, now))));
            } else {
                commit.documents.push(put_document(&WaitingDelivery(delivery.clone())));
                new.push(delivery);
            }
        }
        let receipt = self.store.commit(commit).await?;
        Ok((gone, new.into_iter().map(|delivery| (receipt.sequence, delivery)).collect()))
    }

    /// Ends unsent deliveries of a closed matter, and lets its next opening be sent at once.
    async fn close(
        &self,
        about: &str,
        queued: &[VersionedDelivery],
        commit: &mut Commit,
    ) -> Result<Vec<String>, Error> {
        let now = self.clock.now();
        let mut gone = Vec::new();
        for (version, delivery) in queued {
            let Some(channel) = self.channels.get(&delivery.channel) else { continue };
            let waits = delivery.due > now || channel.silent(&delivery.told, now).is_some();
            if delivery.tries > 0 || !waits || delivery.matter() != about {
                continue;
            }
            let name = WaitingDelivery(delivery.clone()).id();
            let key = Key::new(WaitingDelivery::COLLECTION, &name);
            commit.reads.push(Read { key: key.clone(), version: Some(*version) });
            commit.documents.push(Put { key, body: None });
            commit.documents.push(put_document(&SettledDelivery(delivery.clone().settled(State::Over, now))));
            gone.push(name);
        }
        for channel in self.channels.keys() {
            let key = Key::new(LastNotified::COLLECTION, LastNotified::key(channel, about));
            if let Some(last) = self.store.document(&key).await? {
                commit.reads.push(Read { key: key.clone(), version: Some(last.version) });
                commit.documents.push(Put { key, body: None });
            }
        }
        Ok(gone)
    }

    /// Returns true if the channel has just sent the same about the matter; otherwise records that it does.
    async fn just_told(&self, delivery: &Delivery, commit: &mut Commit) -> Result<bool, Error> {
        let Some(channel) = self.channels.get(&delivery.channel) else { return Ok(false) };
        let span = channel.settings.dedup.0;
        if span.is_zero() {
            return Ok(false);
        }
        let last = LastNotified {
            channel: delivery.channel.clone(),
            matter: delivery.matter(),
            event: LastNotified::event(&delivery.told),
            at: delivery.told.at,
        };
        let key = Key::new(LastNotified::COLLECTION, last.id());
        let found = self.store.document(&key).await?;
        commit.reads.push(Read { key, version: found.as_ref().map(|found| found.version) });
        let before = found.and_then(|found| serde_json::from_slice::<LastNotified>(&found.body).ok());
        if before.is_some_and(|before| before.event == last.event && before.at.is_recent(span, last.at)) {
            return Ok(true);
        }
        commit.documents.push(put_document(&last));
        Ok(false)
    }
}
