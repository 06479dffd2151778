//! A schedule as people define it.

use crate::{DAY, Entity, Fold, Gap, SECOND, ScheduleError, Times};
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use store::{CompositeKey, Timestamp};

/// The most occurrences of one schedule that may wait.
pub const MAX_BUFFERED: u32 = 100;
/// The longest name.
const MAX_NAME_LENGTH: usize = 63;
/// The most excluded days and spans.
const MAX_EXCLUDED: usize = 366;
/// Occurrences looked at to see that none is moved past the next.
const SAMPLED: usize = 60;

/// When something recurs, what is started then, and what if it cannot be at once. A change holds from the moment at which
/// it is committed: what was due before goes by what was said before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Names it: lower-case letters, digits, `-` and `_`, at most 63.
    pub name: String,
    /// Counts what was said under this name, deletions included. 0 for what is built in.
    #[serde(default)]
    pub version: u32,
    /// Minute, hour, day of month, month, day of week, as in crontab(5); or six fields with seconds before them.
    pub cron: String,
    /// The time zone, as the IANA database names it.
    pub zone: String,
    /// What becomes of a time that clocks skip; required where clocks change.
    pub skipped_hour: Option<Gap>,
    /// Which of a time that clocks show twice is meant; required where clocks change.
    pub repeated_hour: Option<Fold>,
    /// What to do while an earlier run has not ended.
    pub overlap: Overlap,
    /// How many may wait under [`Overlap::BufferAll`]: 1 to 100.
    pub buffer: u32,
    /// What to do about occurrences that were due while nobody looked.
    pub catch_up: CatchUp,
    /// How late an occurrence may be made up for; however late if absent.
    pub window: Option<Duration>,
    /// Each occurrence is moved later by up to this much, always by the same for the same moment; shorter than the time to
    /// the next.
    pub jitter: Duration,
    /// Days on which nothing is started.
    pub exclude: Vec<Exclusion>,
    /// Whether a run that fails pauses the schedule. One that a person cancelled or terminated does not.
    pub pause_on_failure: bool,
    /// What is started.
    pub target: Target,
    /// What it is for, in people's words.
    #[serde(default)]
    pub note: String,
    /// Who said so last: in whose name it starts things, so that they never decide on them.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

/// What to do when an occurrence is due while an earlier run is open: at work, paused or parked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Overlap {
    /// Leave the occurrence out.
    Skip,
    /// Let one wait; later ones are merged into it.
    BufferOne,
    /// Let up to [`Schedule::buffer`] wait, and start them one after the other.
    BufferAll,
    /// Turn the earlier run back, and start when it has ended.
    CancelOther,
    /// Close the earlier run by force, and start when it has ended.
    TerminateOther,
    /// Start beside it.
    Allow,
}

/// What to do about occurrences that are more than a minute late, since no engine ran.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CatchUp {
    /// Nothing: they are missed.
    None,
    /// Make up for the latest; the others are missed.
    Latest,
    /// Make up for each, oldest first.
    All,
}

/// Days on which nothing is started, in the schedule's zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// The first day.
    pub from: NaiveDate,
    /// The last day; `from` itself if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NaiveDate>,
    /// Why, for the record.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What a schedule starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// An execution.
    Start {
        /// Of this workflow.
        workflow: String,
        /// Of this, as the [`Starter`](super::Starter) reads it.
        data: Value,
    },
    /// Something that the program does itself, such as a sweep; it says so when it is done, and is never still at work.
    BuiltIn,
}

/// When a schedule fires next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The moment that the expression names.
    pub nominal: Timestamp,
    /// When it is started: with its jitter.
    pub due: Timestamp,
}

impl Entity for Schedule {
    const COLLECTION: &'static str = "schedule-definitions";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.name.clone()
    }
}

/// A definition that was in force once: what was due then goes by it.
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
    /// A schedule with every policy as it is unless said otherwise: an occurrence is skipped while an earlier run is open, and
    /// the latest of those missed is made up for.
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

    /// One that the program sees to itself. Where clocks change, a time of day in a skipped hour is made up for and one in a repeated
    /// hour is taken once.
    #[must_use]
    pub fn built_in(name: &str, cron: &str, zone: &str) -> Self {
        Self {
            skipped_hour: Some(Gap::Shift),
            repeated_hour: Some(Fold::First),
            overlap: Overlap::Allow,
            ..Self::new(name, cron, zone, Target::BuiltIn)
        }
    }

    /// When it recurs.
    ///
    /// # Errors
    /// [`ScheduleError`], naming what is wrong with expression or zone.
    pub fn times(&self) -> Result<Times, ScheduleError> {
        Times::new(&self.name, &self.cron, &self.zone, self.skipped_hour.zip(self.repeated_hour))
    }

    /// The same, if all that was said can be done.
    ///
    /// # Errors
    /// [`ScheduleError`], naming the field at fault and what to write.
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
            return wrong("window", "nothing is made up for, so leave it out, or set catch_up".into());
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
            return wrong("cron", "it names no moment that is still to come".into());
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

    /// When the occurrence of `nominal` is started: moved by as much of the jitter as its name and moment come to.
    #[must_use]
    pub fn due(&self, nominal: Timestamp) -> Timestamp {
        let bound = u64::try_from(self.jitter.as_millis()).unwrap_or(u64::MAX);
        let digest: [u8; 32] = Sha256::digest(format!("{}/{}", self.name, nominal.0)).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        let drawn = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        nominal.after(Duration::from_millis(drawn % bound.saturating_add(1)))
    }

    /// Why nothing is started on the day of `nominal`, if so.
    pub(crate) fn excluded(&self, times: &Times, nominal: Timestamp) -> Option<&Exclusion> {
        let day = times.day(nominal)?;
        self.exclude.iter().find(|days| days.from <= day && day <= days.to.unwrap_or(days.from))
    }

    /// The first occurrence after `after` that falls on no excluded day.
    pub(crate) fn next_eligible(&self, times: &Times, after: Timestamp) -> Option<Timestamp> {
        let mut next = times.next_after(after)?;
        while let Some(days) = self.excluded(times, next) {
            let end = times.end_of(days.to.unwrap_or(days.from))?;
            next = times.next_after(Timestamp(end.0.saturating_sub(1)).max(next))?;
        }
        Some(next)
    }

    /// The next `count` times that it fires after `after`, if it is not paused then.
    ///
    /// # Errors
    /// As [`Schedule::times`].
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Result<Vec<Firing>, ScheduleError> {
        let times = self.times()?;
        let first = self.next_eligible(&times, after);
        let all = std::iter::successors(first, |last| self.next_eligible(&times, *last));
        Ok(all.take(count).map(|nominal| Firing { nominal, due: self.due(nominal) }).collect())
    }

    /// What its moments follow from, so that a change of what is built in is seen.
    pub(crate) fn spec(&self) -> String {
        let dst = (self.skipped_hour, self.repeated_hour);
        format!("{} {} {dst:?}", self.cron, self.zone)
    }
}
