//! The number of waiting and dead deliveries of each channel, and since when: for lists and metrics.

use super::{
    Channel, Outbox,
    delivery::{DeadDelivery, Delivery, WaitingDelivery},
};
use engine::Entity;
use serde::de::DeserializeOwned;
use store::{CompositeKey, Error, Timestamp};

/// The maximum count per channel; this many are an alarm anyway.
const MOST: u64 = 10_000;
/// The number of documents read at once.
const PAGE: usize = 1_000;

/// The deliveries of a channel in one state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryCount {
    /// The number.
    pub(crate) count: u64,
    /// The time of the oldest one.
    pub(crate) since: Option<Timestamp>,
    /// The last answer to the latest one.
    pub(crate) answer: Option<String>,
}

impl From<WaitingDelivery> for Delivery {
    fn from(WaitingDelivery(delivery): WaitingDelivery) -> Self {
        delivery
    }
}

impl From<DeadDelivery> for Delivery {
    fn from(DeadDelivery(delivery): DeadDelivery) -> Self {
        delivery
    }
}

impl Outbox {
    /// Counts the waiting deliveries of each channel, including zero.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn waiting(&self) -> Result<Vec<(&Channel, DeliveryCount)>, Error> {
        self.tallies::<WaitingDelivery>().await
    }

    /// Counts the dead deliveries of each channel, including zero.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn dead(&self) -> Result<Vec<(&Channel, DeliveryCount)>, Error> {
        self.tallies::<DeadDelivery>().await
    }

    async fn tallies<T: Entity + DeserializeOwned + Into<Delivery>>(
        &self,
    ) -> Result<Vec<(&Channel, DeliveryCount)>, Error> {
        let mut all = Vec::new();
        for (name, channel) in &self.channels {
            let (mut tally, mut latest, mut after) = (DeliveryCount::default(), Timestamp(0), None::<String>);
            loop {
                let prefix = CompositeKey::of(&[&name]).prefix();
                let page = self.store.documents(T::COLLECTION, &prefix, after.as_deref(), PAGE).await?;
                for found in &page.items {
                    tally.count = tally.count.saturating_add(1);
                    // Unreadable documents count too.
                    let Ok(read) = serde_json::from_slice::<T>(&found.body) else { continue };
                    let delivery: Delivery = read.into();
                    let since = delivery.settled_at.unwrap_or(delivery.told.at);
                    tally.since = tally.since.into_iter().chain([since]).min();
                    if since >= latest {
                        latest = since;
                        tally.answer = delivery.answer;
                    }
                }
                after = page.next;
                if after.is_none() || tally.count >= MOST {
                    break;
                }
            }
            all.push((channel, tally));
        }
        Ok(all)
    }
}
