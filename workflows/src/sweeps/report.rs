//! What one sweep did and found, and the reading that all sweeps share.

use crate::{platform::Platform, policy::Sweep};
use engine::{Engine, Entity, Error};
use serde::{Deserialize, Serialize};
use std::{fmt::Display, sync::Arc};
use store::{CompositeKey, Timestamp};

/// The most documents read in one go.
const PAGE: usize = 500;

/// The most findings that one record keeps in words; the rest are counted.
const MOST_FOUND: usize = 200;

/// What one sweep did and found, by when it began. Kept for 400 days, or for a week if there is nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepReport {
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

impl SweepReport {
    pub(super) fn new(sweep: Sweep, at: Timestamp, nominal: Option<Timestamp>, by: &str) -> Self {
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

    /// Returns true if the sweep did nothing, found nothing, and was not asked for by a person.
    fn is_quiet(&self) -> bool {
        self.nominal.is_some() && self.started.is_empty() && self.found.is_empty() && self.failed.is_none()
    }

    /// Notes a finding.
    pub(super) fn add_finding(&mut self, what: String) {
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
                | Error::Crowded { .. }
                | Error::Store(store::Error::Busy { .. } | store::Error::Corrupt { .. })),
            ) => {
                tracing::warn!(sweep = <&str>::from(self.sweep), %whose, %error, "a sweep leaves one out");
                self.add_finding(format!("{whose} is left out: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Entity for SweepReport {
    const COLLECTION: &'static str = "sweeps";
    const RETENTION: engine::Retention<Self> = engine::Retention::Until(|swept| {
        Some(swept.at.after(if swept.is_quiet() { engine::DAY * 7 } else { engine::DAY * 400 }))
    });

    fn id(&self) -> String {
        CompositeKey::of(&[&<&str>::from(self.sweep), &format_args!("{:020}", self.at.0)]).into()
    }
}

/// All documents of a kind; one that cannot be read is a finding, and the others are read.
pub(super) async fn all<T: Entity>(
    engine: &Engine<Platform>,
    swept: &mut SweepReport,
) -> Result<Vec<Arc<T>>, Error> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = engine.store().documents(T::COLLECTION, "", after.as_deref(), PAGE).await?;
        for document in &page.items {
            swept.seen += 1;
            match engine.parse_document::<T>(document) {
                Ok(read) => all.push(read),
                Err(error) => swept.add_finding(format!("{} cannot be read: {error}", document.key)),
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
    Ok(engine.store().guard_holder(guard).await?)
}
