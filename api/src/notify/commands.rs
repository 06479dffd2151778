//! Commands of operators to a delivery: send now, discard, or resend.
//!
//! Decisions on documents, committed with the operator's name ([`Engine::transact`](engine::Engine::transact)). A delivery whose attempt is running is not
//! changed, because its outcome is unknown.

use super::{
    Outbox, PAGE,
    delivery::{DeadDelivery, Delivery, DeliveryCommand, SettledDelivery, State, WaitingDelivery},
};
use engine::{Entity as _, Undecided, View};
use store::{CompositeKey, Error};

/// The maximum length of the name of a delivery, in bytes.
const LONGEST: usize = 512;

/// The document keys of a delivery.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryKeys {
    /// The key while it waits or is dead.
    open: String,
    /// The key after its end.
    settled: Option<String>,
}

/// The outcome of a command.
#[derive(Clone, Debug)]
pub(crate) enum CommandOutcome {
    /// Done; the delivery, or the new one.
    This(Box<Delivery>),
    /// No delivery with this name allows the command.
    Nothing,
    /// An attempt is running.
    UnderWay,
}

impl From<Delivery> for CommandOutcome {
    fn from(delivery: Delivery) -> Self {
        Self::This(Box::new(delivery))
    }
}

impl Outbox {
    /// Returns the keys of the delivery `name` of `channel`; `None` if the name is invalid.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn place(&self, channel: &str, name: &str) -> Result<Option<DeliveryKeys>, Error> {
        if name.len() > LONGEST || name.contains(char::is_control) {
            return Ok(None);
        }
        // The keys of settled deliveries begin with the time of their end, which the name does not have.
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

/// Returns true if the key of a settled delivery, which begins with a time, has this name.
fn is_named(id: &str, prefix: &str, wanted: &str) -> bool {
    let name = id.strip_prefix(prefix).unwrap_or_default();
    name.get(13..) == Some(wanted)
}

impl DeliveryKeys {
    /// Returns the delivery in any state.
    ///
    /// # Errors
    /// See [`View::get`].
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

    /// Sends a waiting delivery now, except in quiet hours.
    ///
    /// # Errors
    /// See [`View::get`].
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

    /// Discards a waiting or dead delivery.
    ///
    /// # Errors
    /// See [`View::get`].
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

    /// Sends a dead or settled delivery again, as a new delivery of the same notification.
    ///
    /// # Errors
    /// See [`View::get`].
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
        // It was already resent: a repeated command has no second effect.
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
