//! The external world: calls make and remove objects, and may get lost, arrive late, or stay unanswered.
//!
//! It is a target as Tenure requires it: it recognises a call by its key, and of two calls for one piece of work it
//! refuses the one with the older epoch. It performs a call that must not be repeated as often as it arrives, and reports
//! the violation.

use crate::{
    dice::Dice,
    laws::Laws,
    trouble::{Trouble, Troubles},
};
use engine::{ActionError, Call, MINUTE, Probe, SECOND};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};
use store::{ExecutionId, Memory};

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Makes it; twice under one key makes one.
    Make,
    /// Removes it, if it exists.
    Unmake,
    /// Destroys it for good.
    Wreck,
    /// Pays for it: every call pays again.
    Pay,
}

#[derive(Debug, Default)]
struct State {
    /// The existing objects, and their executions.
    things: BTreeMap<String, ExecutionId>,
    /// How often each key has taken effect.
    effects: BTreeMap<String, u32>,
    /// The newest epoch of each piece of work, including its undo.
    epochs: BTreeMap<String, u64>,
}

/// The simulated external system.
pub struct World {
    state: Mutex<State>,
    dice: Dice,
    troubles: Arc<Troubles>,
    laws: Arc<Laws>,
    truth: Arc<Memory>,
    calm: std::sync::atomic::AtomicBool,
}

impl World {
    /// An empty system.
    #[must_use]
    pub fn new(seed: u64, troubles: Arc<Troubles>, laws: Arc<Laws>, truth: Arc<Memory>) -> Self {
        let (state, dice, calm) = (Mutex::default(), Dice::new(seed, "world"), false.into());
        Self { state, dice, troubles, laws, truth, calm }
    }

    /// Ends all faults.
    pub fn calm_down(&self) {
        self.calm.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the objects of `execution`.
    #[must_use]
    pub fn things_of(&self, execution: ExecutionId) -> Vec<String> {
        let state = self.state();
        state.things.iter().filter(|(_, owner)| **owner == execution).map(|(name, _)| name.clone()).collect()
    }

    fn strikes(&self, kind: Trouble, of: u64) -> bool {
        !self.calm.load(std::sync::atomic::Ordering::SeqCst) && self.troubles.strikes(kind, of)
    }

    /// Performs a call, with the delays of a network and a busy server.
    ///
    /// # Errors
    /// As the faults decide.
    pub async fn perform(self: &Arc<Self>, deed: Deed, name: &str, call: &Call) -> Result<(), ActionError> {
        self.laws.called(&self.truth, deed, name, call).await;
        tokio::time::sleep(self.dice.span(1, 400)).await;
        if self.strikes(Trouble::Transient, 60) {
            return Err(ActionError::transient("world.busy", "it is busy"));
        }
        // After its pivot an execution has no way back; a permanent failure there needs an operator.
        if self.strikes(Trouble::Permanent, 25) {
            return Err(ActionError::permanent("world.broken", "it is broken"));
        }
        if self.strikes(Trouble::RequestLost, 25) {
            std::future::pending::<()>().await;
        }
        if self.strikes(Trouble::Late, 25) {
            let (world, name, call) = (self.clone(), name.to_owned(), call.clone());
            let after = self.dice.span(1_000, 900_000);
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                // The answer is lost.
                let _ = world.take_effect(deed, &name, &call);
            });
            std::future::pending::<()>().await;
        }
        let answer = self.take_effect(deed, name, call);
        if self.strikes(Trouble::EffectLost, 40) {
            if self.dice.below(2) == 0 {
                std::future::pending::<()>().await;
            }
            return Err(ActionError::unknown("world.reset", "the connection was reset"));
        }
        tokio::time::sleep(self.dice.span(1, 200)).await;
        answer
    }

    fn take_effect(&self, deed: Deed, name: &str, call: &Call) -> Result<(), ActionError> {
        let mut state = self.state();
        let key = call.key();
        let work = key.trim_end_matches("/undo").to_owned();
        let newest = state.epochs.entry(work).or_default();
        if call.epoch.0 < *newest {
            return Err(ActionError::permanent("world.stale", "a newer holder has called"));
        }
        *newest = call.epoch.0;
        let times = state.effects.entry(key.clone()).or_default();
        *times += 1;
        match deed {
            Deed::Pay if *times > 1 => {
                self.laws.broken(format!("{key} was charged {times} times", times = *times))
            }
            Deed::Make if *times > 1 => {}
            Deed::Make => {
                let other = state.things.get(name).copied().filter(|other| *other != call.execution);
                // An execution closed by force leaves its objects, and its last call may still be under way; an execution
                // that must make them again adopts them.
                let late = other.is_some() && self.laws.was_forced(call.execution);
                if !late {
                    state.things.insert(name.to_owned(), call.execution);
                }
                if let Some(other) = other.filter(|other| !late && !self.laws.was_forced(*other)) {
                    self.laws.broken(format!("{name} was made for two: {other} and {}", call.execution));
                }
            }
            Deed::Unmake => {
                state.things.remove(name);
            }
            Deed::Wreck | Deed::Pay => {}
        }
        drop(state);
        self.laws.note(format_args!("world: {deed:?} {name} under {key}, epoch {}", call.epoch.0));
        Ok(())
    }

    /// Probes an earlier attempt.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn ask<T>(&self, call: &Call, output: T) -> Result<Probe<T>, ActionError> {
        tokio::time::sleep(self.dice.span(1, 300)).await;
        if self.strikes(Trouble::Transient, 60) {
            return Err(ActionError::pending("world.busy", 10 * SECOND));
        }
        let mut state = self.state();
        let key = call.key();
        let work = key.trim_end_matches("/undo").to_owned();
        // A probe also carries the newer epoch: calls that are still under way are refused from here on.
        let newest = state.epochs.entry(work).or_default();
        *newest = call.epoch.0.max(*newest);
        Ok(if state.effects.contains_key(&key) { Probe::Done(output) } else { Probe::NotDone })
    }
}

/// The maximum duration of a call before its caller gives up.
pub const PATIENCE: std::time::Duration = MINUTE;
