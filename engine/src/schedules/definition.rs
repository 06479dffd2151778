//! The definition of a schedule.

use crate::{DAY, Entity, Fold, Gap, SECOND, ScheduleError, Times};
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use store::{CompositeKey, Timestamp};

/// The most waiting occurrences of one schedule.
pub const MAX_BUFFERED: u32 = 100;
/// The longest name, in characters.
const MAX_NAME_LENGTH: usize = 63;
/// The most excluded days and spans.
const MAX_EXCLUDED: usize = 366;
/// The occurrences that are checked to make sure that jitter never moves one past the next.
const SAMPLED: usize = 60;

/// Defines the times of a schedule and its target. A change applies from the moment of its commit: occurrences
/// that were due before follow the old version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The name: lower-case letters, digits, `-` and `_`, at most 63.
    pub name: String,
    /// Counts the versions under this name, deletions included. 0 for built-in schedules.
    #[serde(default)]
    pub version: u32,
    /// Minute, hour, day of month, month, day of week, as in crontab(5); or six fields with seconds before them.
    pub cron: String,
    /// The time zone, by its IANA name.
    pub zone: String,
    /// How to handle a time that a clock change skips; required in zones with clock changes.
    pub skipped_hour: Option<Gap>,
    /// How to handle a time that a clock change repeats; required in zones with clock changes.
    pub repeated_hour: Option<Fold>,
    /// The policy while an earlier run is open.
    pub overlap: Overlap,
    /// How many may wait under [`Overlap::BufferAll`]: 1 to 100.
    pub buffer: u32,
    /// The policy for occurrences that were due while no engine ran.
    pub catch_up: CatchUp,
    /// How late an occurrence may still be started; no limit if absent.
    pub window: Option<Duration>,
    /// The most by which each occurrence is delayed; always the same for the same moment. Shorter than the time to
    /// the next.
    pub jitter: Duration,
    /// Days without starts.
    pub exclude: Vec<Exclusion>,
    /// True if a failed run pauses the schedule. A cancelled or terminated run does not.
    pub pause_on_failure: bool,
    /// The target.
    pub target: Target,
    /// A description.
    #[serde(default)]
    pub note: String,
    /// The person who set it last. Its executions are requested in this name, so this person cannot approve them.
    pub set_by: String,
    /// When it was set.
    pub set_at: Timestamp,
}

/// The policies for an occurrence that is due while an earlier run is open: working, paused or parked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Overlap {
    /// Skip the occurrence.
    Skip,
    /// Let one wait, and merge later ones into it.
    BufferOne,
    /// Let up to [`Schedule::buffer`] wait, and start them one after the other.
    BufferAll,
    /// Cancel the earlier run, and start when it has ended.
    CancelOther,
    /// Terminate the earlier run, and start when it has ended.
    TerminateOther,
    /// Start in parallel.
    Allow,
}

/// The policies for occurrences that are more than a minute late, because no engine ran.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CatchUp {
    /// Nothing: they are missed.
    None,
    /// Start the latest; the others are missed.
    Latest,
    /// Start each, oldest first.
    All,
}

/// Days without starts, in the schedule's zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// The first day.
    pub from: NaiveDate,
    /// The last day; `from` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NaiveDate>,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The target of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// An execution.
    Start {
        /// The workflow.
        workflow: String,
        /// The input, as the [`Starter`](super::Starter) reads it.
        data: Value,
    },
    /// Work that the program does itself, such as a sweep. It reports its end, and is never open.
    BuiltIn,
}

/// The next time that a schedule fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The moment of the expression.
    pub nominal: Timestamp,
    /// The start, with jitter.
    pub due: Timestamp,
}

impl Entity for Schedule {
    const COLLECTION: &'static str = "schedule-definitions";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.name.clone()
    }
}

/// An earlier version of a definition, for occurrences that were due under it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Version(pub(crate) Schedule);

impl Version {
    pub(crate) fn key(name: &str, version: u32) -> String {
        CompositeKey::of(&[&name, &format_args!("{version:08}")]).into()
    }
}

impl Entity for Version {
    const COLLECTION: &'static str = "schedule-versions";
    const RETENTION: crate::Retention<Self> = crate::Retention::Forever;

    fn id(&self) -> String {
        Self::key(&self.0.name, self.0.version)
    }
}

impl Schedule {
    /// Creates a schedule with the default policies: an occurrence is skipped while an earlier run is open, and the
    /// latest missed one is started.
    #[must_use]
    pub fn new(name: &str, cron: &str, zone: &str, target: Target) -> Self {
        Self {
            name: name.into(),
            version: 0,
            cron: cron.into(),
            zone: zone.into(),
            skipped_hour: None,
            repeated_hour: None,
            overlap: Overlap::Skip,
            buffer: 10,
            catch_up: CatchUp::Latest,
            window: None,
            jitter: Duration::ZERO,
            exclude: Vec::new(),
            pause_on_failure: false,
            target,
            note: String::new(),
            set_by: String::new(),
            set_at: Timestamp(0),
        }
    }

    /// Creates a built-in schedule. A time in a skipped hour is moved behind it, and a time in a repeated hour is
    /// used once.
    #[must_use]
    pub fn built_in(name: &str, cron: &str, zone: &str) -> Self {
        Self {
            skipped_hour: Some(Gap::Shift),
            repeated_hour: Some(Fold::First),
            overlap: Overlap::Allow,
            ..Self::new(name, cron, zone, Target::BuiltIn)
        }
    }

    /// Returns its times.
    ///
    /// # Errors
    /// Returns a [`ScheduleError`] for an invalid expression or zone.
    pub fn times(&self) -> Result<Times, ScheduleError> {
        Times::new(&self.name, &self.cron, &self.zone, self.skipped_hour.zip(self.repeated_hour))
    }

    /// Checks the schedule, and returns its times.
    ///
    /// # Errors
    /// Returns a [`ScheduleError`] with the invalid field and the remedy.
    pub fn validate(&self) -> Result<Times, ScheduleError> {
        let wrong = |field: &'static str, why: String| {
            Err(ScheduleError::Field { name: self.name.chars().take(80).collect(), field, why })
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if self.name.is_empty() || self.name.len() > MAX_NAME_LENGTH || !self.name.chars().all(plain) {
            let why = format!("use 1 to {MAX_NAME_LENGTH} of a-z, 0-9, - and _");
            return wrong("name", why);
        }
        let times = self.times()?;
        if self.buffer == 0 || self.buffer > MAX_BUFFERED {
            return wrong("buffer", format!("use 1 to {MAX_BUFFERED}"));
        }
        if self.catch_up == CatchUp::None && self.window.is_some() {
            return wrong("window", "it has no effect without catch_up; remove it or set catch_up".into());
        }
        if self.exclude.len() > MAX_EXCLUDED {
            return wrong("exclude", format!("name at most {MAX_EXCLUDED} days and spans"));
        }
        if let Some(days) = self.exclude.iter().find(|days| days.to.is_some_and(|to| to < days.from)) {
            return wrong("exclude", format!("the span from {} ends before it begins", days.from));
        }
        let mut moments = vec![self.set_at];
        while let Some(next) = moments.last().and_then(|at| times.next_after(*at)) {
            moments.push(next);
            if moments.len() > SAMPLED {
                break;
            }
        }
        moments.remove(0);
        if moments.is_empty() {
            return wrong("cron", "it has no future moment".into());
        }
        let shortest = moments.windows(2).filter_map(|two| match two {
            [one, next] => Some(next.since(*one)),
            _ => None,
        });
        let shortest = shortest.min().unwrap_or(DAY);
        if self.jitter >= shortest.min(DAY) && !self.jitter.is_zero() {
            let longest = shortest.min(DAY).saturating_sub(SECOND).as_secs();
            return wrong(
                "jitter",
                format!("an occurrence may not be moved past the next: use at most {longest}s"),
            );
        }
        Ok(times)
    }

    /// Returns when the occurrence of `nominal` starts. The jitter is derived from the name and the moment.
    #[must_use]
    pub fn due(&self, nominal: Timestamp) -> Timestamp {
        let bound = u64::try_from(self.jitter.as_millis()).unwrap_or(u64::MAX);
        let digest: [u8; 32] = Sha256::digest(format!("{}/{}", self.name, nominal.0)).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        let drawn = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        nominal.after(Duration::from_millis(drawn % bound.saturating_add(1)))
    }

    /// Returns why the day of `nominal` is excluded, if it is.
    pub(crate) fn excluded(&self, times: &Times, nominal: Timestamp) -> Option<&Exclusion> {
        let day = times.day(nominal)?;
        self.exclude.iter().find(|days| days.from <= day && day <= days.to.unwrap_or(days.from))
    }

    /// Returns the first occurrence after `after` that is not excluded.
    pub(crate) fn next_eligible(&self, times: &Times, after: Timestamp) -> Option<Timestamp> {
        let mut next = times.next_after(after)?;
        while let Some(days) = self.excluded(times, next) {
            let end = times.end_of(days.to.unwrap_or(days.from))?;
            next = times.next_after(Timestamp(end.0.saturating_sub(1)).max(next))?;
        }
        Some(next)
    }

    /// Returns the next `count` firings after `after`, if it is not paused then.
    ///
    /// # Errors
    /// Same as [`Schedule::times`].
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Result<Vec<Firing>, ScheduleError> {
        let times = self.times()?;
        let first = self.next_eligible(&times, after);
        let all = std::iter::successors(first, |last| self.next_eligible(&times, *last));
        Ok(all.take(count).map(|nominal| Firing { nominal, due: self.due(nominal) }).collect())
    }

    /// Returns the definition of its moments, to detect a change of a built-in schedule.
    pub(crate) fn spec(&self) -> String {
        let dst = (self.skipped_hour, self.repeated_hour);
        format!("{} {} {dst:?}", self.cron, self.zone)
    }
}
