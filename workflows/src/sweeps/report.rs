//! The report of a sweep, and the reads that all sweeps share.

use crate::{platform::Platform, policy::Sweep};
use engine::{Engine, Entity, Error};
use serde::{Deserialize, Serialize};
use std::{fmt::Display, sync::Arc};
use store::{CompositeKey, Timestamp};

/// The maximum number of documents in one read.
const PAGE: usize = 500;

/// The maximum number of findings with text in one report. The others are counted.
const MOST_FOUND: usize = 200;

/// The report of one sweep. Kept for 400 days, or for a week if it has no content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepReport {
    /// The sweep.
    pub sweep: Sweep,
    /// The start of the sweep.
    pub at: Timestamp,
    /// The scheduled time of its occurrence. `None` if a user started it.
    pub nominal: Option<Timestamp>,
    /// The starter: `schedule`, or a user.
    pub by: String,
    /// The number of objects that it checked.
    pub seen: u64,
    /// The subjects of the executions that it started.
    pub started: Vec<String>,
    /// The findings, one sentence each.
    pub found: Vec<String>,
    /// The number of findings without text.
    pub more: u64,
    /// The error, if it failed. The next occurrence starts from the beginning.
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

    /// Returns true if the sweep started nothing, found nothing, and was not started by a user.
    fn is_quiet(&self) -> bool {
        self.nominal.is_some() && self.started.is_empty() && self.found.is_empty() && self.failed.is_none()
    }

    /// Adds a finding.
    pub(super) fn add_finding(&mut self, what: String) {
        tracing::info!(sweep = <&str>::from(self.sweep), finding = what, "a sweep has a finding");
        if self.found.len() < MOST_FOUND {
            self.found.push(what);
        } else {
            self.more += 1;
        }
    }

    /// Returns the result for one object. If its own documents prevent it, adds a finding and returns `None`, so that the sweep continues. An error
    /// that affects all objects ends the sweep.
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
                tracing::warn!(sweep = <&str>::from(self.sweep), %whose, %error, "a sweep skips an item");
                self.add_finding(format!("{whose} is skipped: {error}"));
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

/// Returns all documents of a kind. An unreadable document becomes a finding.
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

/// Returns the open execution that holds a guard, if there is one.
pub(super) async fn holder(
    engine: &Engine<Platform>,
    guard: &str,
) -> Result<Option<store::ExecutionId>, Error> {
    Ok(engine.store().guard_holder(guard).await?)
}
