//! Runs several replays of a scenario in parallel, one per core.

use crate::{
    replay::{
        outcome::{Outcome, ReplayError, Settings},
        replay,
    },
    scenario::Scenario,
};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Replays `scene` once for each of `settings` and returns the results in the same order. Calls `progress` with the
/// index and the completed share.
pub fn replay_all(
    scene: &Scenario,
    settings: &[Settings],
    progress: &(dyn Fn(usize, f64) + Sync),
) -> Vec<Result<Outcome, ReplayError>> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(settings.len());
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let place = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(own) = settings.get(place)
                {
                    let outcome = alone(scene, own, &|part| progress(place, part));
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((place, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs one replay on this thread.
fn alone(
    scene: &Scenario,
    settings: &Settings,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Outcome, ReplayError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| ReplayError::World(error.to_string()))?;
    runtime.block_on(replay(scene, settings, &mut |part| progress(part)))
}
