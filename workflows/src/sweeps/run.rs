//! One sweep, and all that are due.

use crate::sweeps::{drift, ended_contracts, ended_quotas, missed_promises, old_cluster_keys, overdue_loans};
use crate::{
    platform::Platform,
    policy::{self, Sweep},
};
use engine::{Engine, Entity, Error};
use serde::{Deserialize, Serialize};
use std::{fmt::Display, sync::Arc};
use store::Timestamp;
use strum::VariantArray as _;

/// The most documents read in one go.
const PAGE: usize = 500;
/// The most findings that one record keeps in words; the rest are counted.
const MOST_FOUND: usize = 200;

/// What the names of sweeps' schedules begin with; no schedule that people set has such a name.
pub const NAMED: &str = "sweep ";

/// What one sweep did and found. Kept for ever, by when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Which sweep.
    pub sweep: Sweep,
    /// When it began.
    pub at: Timestamp,
    /// For which moment of its schedule; `None` when somebody asked for it.
    pub nominal: Option<Timestamp>,
    /// Who asked: `schedule`, or a person.
    pub by: String,
    /// How many things it looked at.
    pub seen: u64,
    /// Executions that it started, by their subject.
    pub started: Vec<String>,
    /// What people should know, a sentence each.
    pub found: Vec<String>,
    /// Findings beyond those in words.
    pub more: u64,
    /// What went wrong, if it could not be ended; the next occurrence begins anew.
    pub failed: Option<String>,
}

impl Swept {
    fn new(sweep: Sweep, at: Timestamp, nominal: Option<Timestamp>, by: &str) -> Self {
        Self {
            sweep,
            at,
            nominal,
            by: by.to_owned(),
            seen: 0,
            started: Vec::new(),
            found: Vec::new(),
            more: 0,
            failed: None,
        }
    }

    /// Notes a finding.
    pub(super) fn find(&mut self, what: String) {
        tracing::info!(sweep = <&str>::from(self.sweep), finding = what, "a sweep found something");
        if self.found.len() < MOST_FOUND {
            self.found.push(what);
        } else {
            self.more += 1;
        }
    }

    /// What was done for one of many; `None` with a finding where its own documents do not allow it, so that the others
    /// are seen to. What would fail for all of them ends the sweep.
    pub(super) fn each<T>(
        &mut self,
        whose: impl Display,
        done: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(
                error @ (Error::Undecided(_)
                | Error::Refused(_)
                | Error::NotFound(_)
                | Error::Unreadable { .. }
                | Error::Destroyed { .. }
                | Error::KeyReused { .. }
                | Error::Contended(_)
                | Error::Store(store::Error::Busy { .. } | store::Error::Corrupt { .. })),
            ) => {
                tracing::warn!(sweep = <&str>::from(self.sweep), %whose, %error, "a sweep leaves one out");
                self.find(format!("{whose} is left out: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Entity for Swept {
    const COLLECTION: &'static str = "sweeps";

    fn id(&self) -> String {
        format!("{}/{:020}", <&str>::from(self.sweep), self.at.0)
    }
}

/// The schedules in force, by sweep.
///
/// # Errors
/// The store's; a policy that cannot be read.
pub async fn schedules(engine: &Engine<Platform>) -> Result<Vec<(Sweep, engine::Schedule)>, Error> {
    let policy = engine.ledger(false, policy::in_force).await?;
    let wrong =
        |e: engine::ScheduleError| Error::Undecided(engine::ActionError::permanent("sweep.schedule", e));
    let mut all = Vec::new();
    for sweep in Sweep::VARIANTS {
        let Some(schedule) = policy.sweeps.of(*sweep) else { continue };
        let name = format!("{NAMED}{}", <&str>::from(*sweep));
        all.push((*sweep, schedule.times(&name).map_err(wrong)?));
    }
    Ok(all)
}

/// Runs every sweep that is due. Of several engines one does; after a time without any, the latest occurrence is made up
/// for and the others are recorded as missed.
///
/// # Errors
/// The store's. A sweep that fails is recorded as failed, and the others run.
pub async fn run_due(engine: &Engine<Platform>) -> Result<Vec<Swept>, Error> {
    let mut all = Vec::new();
    for (sweep, schedule) in schedules(engine).await? {
        if let Some(occurrence) = engine.claim_occurrence(&schedule).await? {
            let swept = run(engine, sweep, Some(occurrence.nominal), "schedule").await?;
            engine.end_occurrence(&occurrence, swept.failed.as_deref()).await?;
            all.push(swept);
        }
    }
    Ok(all)
}

/// Runs one sweep now, and keeps what it found.
///
/// # Errors
/// The store's, when not even the record can be kept.
pub async fn run(
    engine: &Engine<Platform>,
    sweep: Sweep,
    nominal: Option<Timestamp>,
    by: &str,
) -> Result<Swept, Error> {
    let mut swept = Swept::new(sweep, engine.clock().now(), nominal, by);
    let done = match sweep {
        Sweep::Reclaim => missed_promises::sweep(engine, &mut swept).await,
        Sweep::LoanExpiry => overdue_loans::sweep(engine, &mut swept).await,
        Sweep::KeyRotation => old_cluster_keys::sweep(engine, &mut swept).await,
        Sweep::QuotaExpiry => ended_quotas::sweep(engine, &mut swept).await,
        Sweep::ContractEnd => ended_contracts::sweep(engine, &mut swept).await,
        Sweep::Drift => drift::sweep(engine, &mut swept).await,
        Sweep::LineAgeing => missed_promises::wake_all(engine, &mut swept).await,
    };
    if let Err(error) = done {
        tracing::warn!(sweep = <&str>::from(sweep), %error, "a sweep could not be ended");
        swept.failed = Some(error.to_string());
    }
    engine.ledger(true, |view| view.put(&swept)).await?;
    Ok(swept)
}

/// All documents of a kind; one that cannot be read is a finding, and the others are read.
pub(super) async fn all<T: Entity>(
    engine: &Engine<Platform>,
    swept: &mut Swept,
) -> Result<Vec<Arc<T>>, Error> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = engine.store().documents(T::COLLECTION, "", after.as_deref(), PAGE).await?;
        for document in &page.items {
            swept.seen += 1;
            match engine.parsed::<T>(document) {
                Ok(read) => all.push(read),
                Err(error) => swept.find(format!("{} cannot be read: {error}", document.key)),
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// The open execution that holds a guard, if one does.
pub(super) async fn holder(
    engine: &Engine<Platform>,
    guard: &str,
) -> Result<Option<store::ExecutionId>, Error> {
    Ok(engine.store().holder(guard).await?)
}
