//! The external system: held halls and payments.

use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

#[derive(Debug, Default)]
pub struct Town {
    pub held: Mutex<BTreeSet<String>>,
    /// Payments in euros, by idempotency key.
    pub paid: Mutex<BTreeMap<String, u32>>,
}

/// Safe to run twice: holding a held hall changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoldHall {
    pub hall: String,
}
impl Action for HoldHall {
    const NAME: &'static str = "HoldHall";
    type Platform = Town;
    type Output = ();
    async fn run(&self, town: &Town, _: &Call) -> Result<(), ActionError> {
        locked(&town.held)?.insert(self.hall.clone());
        Ok(())
    }
}

/// Undoes [`HoldHall`]. Tolerates a hall that is not held.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleaseHall {
    pub hall: String,
}
impl Action for ReleaseHall {
    const NAME: &'static str = "ReleaseHall";
    type Platform = Town;
    type Output = ();
    async fn run(&self, town: &Town, _: &Call) -> Result<(), ActionError> {
        locked(&town.held)?.remove(&self.hall);
        Ok(())
    }
}

/// Safe to run twice: the bank takes one payment per key. `probe` runs before a repetition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PayDeposit {
    pub hall: String,
    pub euros: u32,
}
impl Action for PayDeposit {
    const NAME: &'static str = "PayDeposit";
    type Platform = Town;
    type Output = String;
    const REPEAT: Repeat = Repeat::AfterProbe;

    async fn run(&self, town: &Town, call: &Call) -> Result<String, ActionError> {
        locked(&town.paid)?.insert(call.key(), self.euros);
        Ok(format!("receipt for {}", call.key()))
    }

    async fn probe(&self, town: &Town, call: &Call) -> Result<Probe<String>, ActionError> {
        let paid = locked(&town.paid)?.contains_key(&call.key());
        Ok(if paid { Probe::Done(format!("receipt for {}", call.key())) } else { Probe::NotDone })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> Result<std::sync::MutexGuard<'_, T>, ActionError> {
    mutex.lock().map_err(|_| ActionError::transient("town.poisoned", "a writer panicked"))
}
