//! What looks after things by the clock, and when.

use crate::policy::parsing::reader::Fields;
use engine::ScheduleError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::VariantArray as _;

/// When each sweep runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepSchedules {
    /// By sweep; complete.
    pub schedules: BTreeMap<Sweep, Schedule>,
}

/// When one sweep runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Minute, hour, day of month, month, day of week, as in crontab; or six fields with seconds before them.
    pub cron: String,
    /// The time zone, as `Europe/Berlin`.
    pub zone: String,
}

/// What is looked after.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Sweep {
    /// Unmet reservations, and GPUs too long in transit.
    Reclaim,
    /// Loans past their time.
    LoanExpiry,
    /// Quotas that were larger for a while.
    QuotaExpiry,
    /// Contracts that end.
    ContractEnd,
    /// Keys that are due for rotation.
    KeyRotation,
    /// What the platform has against what the ledger says.
    Drift,
    /// Lines that grow old.
    LineAgeing,
}

impl Schedule {
    /// The schedule as the engine keeps it. Where clocks change, a skipped hour is made up for and a repeated one is taken
    /// once: every sweep is safe to run late, and none needs to run twice.
    ///
    /// # Errors
    /// When expression or zone cannot be understood; never for a policy that was read.
    pub fn times(&self, name: &str) -> Result<engine::Schedule, ScheduleError> {
        let schedule = engine::Schedule::built_in(name, &self.cron, &self.zone);
        schedule.times()?;
        Ok(schedule)
    }
}

impl SweepSchedules {
    /// When `sweep` runs; `None` never happens for a policy that was read.
    #[must_use]
    pub fn get(&self, sweep: Sweep) -> Option<&Schedule> {
        self.schedules.get(&sweep)
    }

    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let known: Vec<&str> = Sweep::VARIANTS.iter().map(|sweep| (*sweep).into()).collect();
        let fields = top.layer("sweeps", &known)?;
        let mut schedules = BTreeMap::new();
        for sweep in Sweep::VARIANTS {
            let one = fields.layer((*sweep).into(), &["cron", "zone"]);
            schedules.insert(*sweep, one.and_then(|one| schedule(&one))?);
        }
        Some(Self { schedules })
    }
}

fn schedule(fields: &Fields<'_>) -> Option<Schedule> {
    let text = |name| fields.required(name).and_then(|item| fields.reader().text(item)).map(str::to_owned);
    let (cron, zone) = (text("cron"), text("zone"));
    let read = Schedule { cron: cron?, zone: zone? };
    match read.times("sweeps") {
        Ok(_) => return Some(read),
        Err(error @ ScheduleError::Zone { .. }) => wrong(fields, "zone", &error),
        Err(error) => wrong(fields, "cron", &error),
    }
    None
}

fn wrong(fields: &Fields<'_>, name: &str, error: &ScheduleError) {
    let said = error.to_string();
    let (problem, remedy) = said.split_once("; ").unwrap_or((&said, "see the manual, page policy"));
    if let Some(item) = fields.optional(name) {
        fields.reader().note(item, problem.into(), remedy);
    }
}
