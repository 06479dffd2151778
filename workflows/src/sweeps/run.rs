//! Runs one sweep, or all sweeps that are due.

use super::report::SweepReport;
use crate::{
    platform::Platform,
    policy::{self, Sweep},
    sweeps::{
        drift, ended_contracts, ended_quotas, exhausted_capacity, failed_starts, hold_matters,
        missed_promises, old_cluster_keys, overdue_loans,
    },
};
use engine::{Engine, Error};
use std::time::Duration;
use store::{Fault, Timestamp};
use strum::VariantArray as _;

/// The prefix of sweep schedule names. Users cannot create schedules with this prefix.
pub const NAMED: &str = "sweep ";

/// The delay and the maximum number of retries of a scheduled sweep while the store does not answer.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
const MOST_AGAIN: u32 = 6;

/// Returns the schedules in force, by sweep.
///
/// # Errors
/// The errors of the store; a policy that cannot be read.
pub async fn schedules(engine: &Engine<Platform>) -> Result<Vec<(Sweep, engine::Schedule)>, Error> {
    let policy = engine.transact(false, policy::in_force).await?;
    let wrong =
        |e: engine::ScheduleError| Error::Undecided(engine::ActionError::permanent("sweep.schedule", e));
    let mut all = Vec::new();
    for sweep in Sweep::VARIANTS {
        let Some(schedule) = policy.sweeps.get(*sweep) else { continue };
        let name = format!("{NAMED}{}", <&str>::from(*sweep));
        all.push((*sweep, schedule.times(&name).map_err(wrong)?));
    }
    Ok(all)
}

/// Runs every sweep that is due. Only one of several engines runs an occurrence. After an interruption the latest occurrence runs, and the others are
/// recorded as missed.
///
/// # Errors
/// The errors of the store. A failed sweep is recorded, and the others still run.
pub async fn run_due(engine: &Engine<Platform>) -> Result<Vec<SweepReport>, Error> {
    let mut all = Vec::new();
    for (sweep, schedule) in schedules(engine).await? {
        if let Some(occurrence) = engine.claim_occurrence(&schedule).await? {
            let swept = run_until_answered(engine, sweep, occurrence.nominal).await?;
            engine.end_occurrence(&occurrence, swept.failed.as_deref()).await?;
            all.push(swept);
        }
    }
    Ok(all)
}

/// Runs the sweep of an occurrence, and retries it while the store does not answer.
async fn run_until_answered(
    engine: &Engine<Platform>,
    sweep: Sweep,
    nominal: Timestamp,
) -> Result<SweepReport, Error> {
    let mut tries = 0;
    loop {
        let (swept, error) = attempt(engine, sweep, Some(nominal), "schedule").await;
        let Some(error) = error.filter(|error| error.fault() == Fault::Unavailable) else {
            return keep(engine, swept).await;
        };
        if tries == MOST_AGAIN {
            return Err(error);
        }
        tries += 1;
        engine.clock().sleep_until(engine.clock().now().after(AGAIN_AFTER)).await;
    }
}

/// Runs one sweep now and stores its report.
///
/// # Errors
/// The errors of the store, if the report cannot be stored.
pub async fn run(
    engine: &Engine<Platform>,
    sweep: Sweep,
    nominal: Option<Timestamp>,
    by: &str,
) -> Result<SweepReport, Error> {
    keep(engine, attempt(engine, sweep, nominal, by).await.0).await
}

async fn keep(engine: &Engine<Platform>, swept: SweepReport) -> Result<SweepReport, Error> {
    engine.transact(true, |view| view.put(&swept)).await?;
    Ok(swept)
}

/// The checks of every minute: broken promises, failed starts, models that run short, and matters of holds.
async fn promises_and_capacity(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    missed_promises::sweep(engine, swept).await?;
    failed_starts::sweep(engine, swept).await?;
    exhausted_capacity::sweep(engine, swept).await?;
    hold_matters::sweep(engine, swept).await
}

/// Runs a sweep, and records a failure.
async fn attempt(
    engine: &Engine<Platform>,
    sweep: Sweep,
    nominal: Option<Timestamp>,
    by: &str,
) -> (SweepReport, Option<Error>) {
    let mut swept = SweepReport::new(sweep, engine.clock().now(), nominal, by);
    let done = match sweep {
        Sweep::Reclaim => promises_and_capacity(engine, &mut swept).await,
        Sweep::LoanExpiry => overdue_loans::sweep(engine, &mut swept).await,
        Sweep::KeyRotation => old_cluster_keys::sweep(engine, &mut swept).await,
        Sweep::QuotaExpiry => ended_quotas::sweep(engine, &mut swept).await,
        Sweep::ContractEnd => ended_contracts::sweep(engine, &mut swept).await,
        Sweep::Drift => drift::sweep(engine, &mut swept).await,
        Sweep::LineAgeing => missed_promises::wake_all(engine, &mut swept).await,
    };
    let error = done.err();
    if let Some(error) = &error {
        tracing::warn!(sweep = <&str>::from(sweep), %error, "cannot record the end of a sweep");
        swept.failed = Some(error.to_string());
    }
    (swept, error)
}
