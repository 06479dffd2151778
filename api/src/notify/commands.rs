//! What people do about a delivery: try it now, give it up, or send it again.
//!
//! Decided on documents as they stand, so that whoever asks for it is on record in the commit that does it, as with every other
//! change of documents ([`Engine::transact`](engine::Engine::transact)). What is being sent at this moment is left alone: nobody
//! could say whether it was taken.

use super::{
    Outbox, PAGE,
    delivery::{DeadDelivery, Delivery, DeliveryCommand, SettledDelivery, State, WaitingDelivery},
};
use engine::{Entity as _, Undecided, View};
use store::{CompositeKey, Error};

/// The longest name of a delivery that is looked for, in bytes.
const LONGEST: usize = 512;

/// Where a delivery lies, by its channel and its name.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryKeys {
    /// Where it lies while it waits, and when it is dead.
    open: String,
    /// Where it lies once it has come to its end.
    settled: Option<String>,
}

/// What became of an order.
#[derive(Clone, Debug)]
pub(crate) enum CommandOutcome {
    /// It is done; this is the delivery, or the new one.
    This(Box<Delivery>),
    /// There is none of that name that it could be done to.
    Nothing,
    /// An attempt is being made.
    UnderWay,
}

impl From<Delivery> for CommandOutcome {
    fn from(delivery: Delivery) -> Self {
        Self::This(Box::new(delivery))
    }
}

impl Outbox {
    /// Where the delivery `name` of `channel` lies. None if nothing could be called so.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn place(&self, channel: &str, name: &str) -> Result<Option<DeliveryKeys>, Error> {
        if name.len() > LONGEST || name.contains(char::is_control) {
            return Ok(None);
        }
        // What has ended lies by when it did, which its name does not say.
        let (prefix, wanted, mut after) =
            (CompositeKey::of(&[&channel]).prefix(), format!(".{name}"), None::<String>);
        loop {
            let found = self
                .store
                .documents(SettledDelivery::COLLECTION, &prefix, after.as_deref(), PAGE * 10)
                .await?;
            let settled =
                found.items.into_iter().map(|found| found.key.id).find(|id| is_named(id, &prefix, &wanted));
            after = found.next;
            if settled.is_some() || after.is_none() {
                return Ok(Some(DeliveryKeys {
                    open: CompositeKey::of(&[&channel]).tail(name).into(),
                    settled,
                }));
            }
        }
    }
}

/// Whether a document of what has ended, with the moment in front, is of this name.
fn is_named(id: &str, prefix: &str, wanted: &str) -> bool {
    let name = id.strip_prefix(prefix).unwrap_or_default();
    name.get(13..) == Some(wanted)
}

impl DeliveryKeys {
    /// The delivery, however it stands.
    ///
    /// # Errors
    /// As [`View::get`].
    pub(crate) fn find(&self, view: &mut View) -> Result<Option<Delivery>, Undecided> {
        if let Some(WaitingDelivery(delivery)) = view.get(&self.open)? {
            return Ok(Some(delivery));
        }
        if let Some(DeadDelivery(delivery)) = view.get(&self.open)? {
            return Ok(Some(delivery));
        }
        self.ended(view)
    }

    fn ended(&self, view: &mut View) -> Result<Option<Delivery>, Undecided> {
        let Some(settled) = &self.settled else { return Ok(None) };
        Ok(view.get::<SettledDelivery>(settled)?.map(|SettledDelivery(delivery)| delivery))
    }

    /// Lets one that waits be sent now. Quiet hours are kept.
    ///
    /// # Errors
    /// As [`View::get`].
    pub(crate) fn retry(&self, view: &mut View, order: DeliveryCommand) -> Result<CommandOutcome, Undecided> {
        let Some(WaitingDelivery(delivery)) = view.get(&self.open)? else {
            return Ok(CommandOutcome::Nothing);
        };
        if delivery.is_under_way(view.now()) {
            return Ok(CommandOutcome::UnderWay);
        }
        let now = Delivery { due: view.now(), order: Some(order), ..delivery };
        view.put(&WaitingDelivery(now.clone()))?;
        Ok(now.into())
    }

    /// Gives up one that waits or is dead.
    ///
    /// # Errors
    /// As [`View::get`].
    pub(crate) fn discard(
        &self,
        view: &mut View,
        order: DeliveryCommand,
    ) -> Result<CommandOutcome, Undecided> {
        let waiting = view.get::<WaitingDelivery>(&self.open)?.map(|WaitingDelivery(delivery)| delivery);
        let dead = view.get::<DeadDelivery>(&self.open)?.map(|DeadDelivery(delivery)| delivery);
        let is_dead = waiting.is_none();
        let Some(delivery) = waiting.or(dead) else { return Ok(CommandOutcome::Nothing) };
        if !is_dead && delivery.is_under_way(view.now()) {
            return Ok(CommandOutcome::UnderWay);
        }
        let gone = Delivery { order: Some(order), ..delivery.settled(State::Discarded, view.now()) };
        view.put(&SettledDelivery(gone.clone()))?;
        if is_dead {
            view.delete::<DeadDelivery>(&self.open)?;
        } else {
            view.delete::<WaitingDelivery>(&self.open)?;
        }
        Ok(gone.into())
    }

    /// Sends one that is dead or has ended again, as a new delivery of the same notification.
    ///
    /// # Errors
    /// As [`View::get`].
    pub(crate) fn resend(
        &self,
        view: &mut View,
        order: DeliveryCommand,
    ) -> Result<CommandOutcome, Undecided> {
        let now = view.now();
        let dead = view.get::<DeadDelivery>(&self.open)?.map(|DeadDelivery(delivery)| delivery);
        let is_dead = dead.is_some();
        let Some(before) = dead.map_or_else(|| self.ended(view), |dead| Ok(Some(dead)))? else {
            return Ok(CommandOutcome::Nothing);
        };
        // Its place has been taken: whoever asks twice sends once.
        if before.state == State::Resent {
            return Ok(CommandOutcome::Nothing);
        }
        let again = before.replayed(now, order.clone());
        view.put(&WaitingDelivery(again.clone()))?;
        if is_dead {
            let ended = Delivery { order: Some(order), ..before.settled(State::Resent, now) };
            view.put(&SettledDelivery(ended))?;
            view.delete::<DeadDelivery>(&self.open)?;
        }
        Ok(again.into())
    }
}
