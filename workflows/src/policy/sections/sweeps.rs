//! The schedules of sweeps.

use crate::policy::parsing::reader::Fields;
use engine::ScheduleError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::VariantArray as _;

/// The schedule of each sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepSchedules {
    /// By sweep; complete.
    pub schedules: BTreeMap<Sweep, Schedule>,
}

/// The schedule of one sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Minute, hour, day of month, month and day of week, as in crontab; or six fields with seconds first.
    pub cron: String,
    /// The time zone, such as `Europe/Berlin`.
    pub zone: String,
}

/// The sweeps.
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
    /// Unmet reservations, and GPUs in transit for too long.
    Reclaim,
    /// Overdue loans.
    LoanExpiry,
    /// Temporary quota increases.
    QuotaExpiry,
    /// Ending contracts.
    ContractEnd,
    /// Keys that are due for rotation.
    KeyRotation,
    /// Differences between the platform and the ledger.
    Drift,
    /// Aging of queues.
    LineAgeing,
}

impl Schedule {
    /// Returns the engine's schedule. At a clock change a skipped hour is made up for and a repeated hour runs once: every sweep is safe to run late, and none
    /// needs to run twice.
    ///
    /// # Errors
    /// If expression or zone is invalid; never for a policy that was read.
    pub fn times(&self, name: &str) -> Result<engine::Schedule, ScheduleError> {
        let schedule = engine::Schedule::built_in(name, &self.cron, &self.zone);
        schedule.times()?;
        Ok(schedule)
    }
}

impl SweepSchedules {
    /// Returns the schedule of `sweep`; never `None` for a policy that was read.
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
