//! Records every attempt of a run, and injects the faults of its script.

use super::{
    scenario::Fault,
    script::{Point, Script},
};
use crate::{Call, FaultInjector, InjectedFault};
use serde_json::Value;
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// A recorded attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedCall {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) undo: bool,
    pub(crate) key: String,
}

/// Records every attempt, and injects the faults of the script.
#[derive(Default)]
pub(super) struct ScriptedFaults {
    faults: Vec<(Point, Fault, Option<String>)>,
    /// The attempt with the fault. If it is delivered again after a crash, the fault is injected again.
    repeats: bool,
    pub(super) deeds: Mutex<Vec<RecordedCall>>,
    pending_repeats: Mutex<Vec<(String, Fault, Option<String>)>>,
    pub(super) first_faulted: Mutex<Option<String>>,
    disabled: AtomicBool,
}

impl ScriptedFaults {
    pub(super) fn new(script: &Script) -> Self {
        Self { faults: script.faults.clone(), repeats: script.crash_point.is_some(), ..Self::default() }
    }

    pub(super) fn lift(&self) {
        self.disabled.store(true, Ordering::SeqCst);
    }
}

impl FaultInjector for ScriptedFaults {
    fn inject(&self, name: &str, arguments: &Value, call: &Call) -> InjectedFault {
        let mut deeds = lock_unpoisoned(&self.deeds);
        let nth = deeds.iter().filter(|deed| deed.undo == call.undo).count();
        let key = call.key();
        deeds.push(RecordedCall {
            name: name.into(),
            state: call.state.clone(),
            undo: call.undo,
            key: key.clone(),
        });
        if self.disabled.load(Ordering::SeqCst) {
            return InjectedFault::NoFault;
        }
        if let Some((_, fault, code)) =
            lock_unpoisoned(&self.pending_repeats).iter().find(|(bent, _, _)| *bent == key)
        {
            return fault.to_injected(code.as_deref());
        }
        let point = Point { nth, undo: call.undo };
        let Some((_, fault, code)) = self.faults.iter().find(|(at, _, _)| *at == point) else {
            return InjectedFault::NoFault;
        };
        let (state, slot, attempt) = (&call.state, call.slot, call.attempt);
        lock_unpoisoned(&self.first_faulted)
            .get_or_insert(format!("{name} {arguments} in {state} {slot} {attempt}"));
        if *fault == Fault::FailsForever || self.repeats {
            lock_unpoisoned(&self.pending_repeats).push((key, *fault, code.clone()));
        }
        fault.to_injected(code.as_deref())
    }
}

pub(super) fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
