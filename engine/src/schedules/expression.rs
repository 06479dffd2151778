//! Cron expressions as sets of wall-clock times, by the rules of Vixie cron and cronie.
//!
//! The fields are read here, because the `cron` crate has other rules for days, ranges and the number of Sunday; the crate then searches the
//! times. [`Times`](super::Times) maps the wall-clock times to instants. Invariant: no time zone, no clock.

use chrono::NaiveDateTime;
use std::str::FromStr as _;

/// One field of an expression: its name, its allowed values, and its form.
struct Kind {
    name: &'static str,
    takes: &'static str,
    least: u32,
    most: u32,
    /// The highest number that may be written: 7 is another name for Sunday.
    highest: u32,
    names: &'static [(&'static str, u32)],
    /// True if a range may wrap around, as in `FRI-MON`.
    cyclic: bool,
    /// True if `?` is allowed for `*`.
    any: bool,
}

const MONTHS: [(&str, u32); 23] = [
    ("jan", 1),
    ("january", 1),
    ("feb", 2),
    ("february", 2),
    ("mar", 3),
    ("march", 3),
    ("apr", 4),
    ("april", 4),
    ("may", 5),
    ("jun", 6),
    ("june", 6),
    ("jul", 7),
    ("july", 7),
    ("aug", 8),
    ("august", 8),
    ("sep", 9),
    ("september", 9),
    ("oct", 10),
    ("october", 10),
    ("nov", 11),
    ("november", 11),
    ("dec", 12),
    ("december", 12),
];

const WEEKDAYS: [(&str, u32); 16] = [
    ("sun", 0),
    ("sunday", 0),
    ("mon", 1),
    ("monday", 1),
    ("tue", 2),
    ("tues", 2),
    ("tuesday", 2),
    ("wed", 3),
    ("wednesday", 3),
    ("thu", 4),
    ("thurs", 4),
    ("thursday", 4),
    ("fri", 5),
    ("friday", 5),
    ("sat", 6),
    ("saturday", 6),
];

const fn kind(name: &'static str, takes: &'static str, least: u32, most: u32) -> Kind {
    Kind { name, takes, least, most, highest: most, names: &[], cyclic: true, any: false }
}

const KINDS: [Kind; 7] = [
    kind("second", "0 to 59", 0, 59),
    kind("minute", "0 to 59", 0, 59),
    kind("hour", "0 to 23", 0, 23),
    Kind { any: true, ..kind("day of the month", "1 to 31", 1, 31) },
    Kind { names: &MONTHS, ..kind("month", "1 to 12, or JAN to DEC", 1, 12) },
    Kind { names: &WEEKDAYS, any: true, highest: 7, ..kind("weekday", "0 to 7, or SUN to SAT", 0, 6) },
    Kind { cyclic: false, ..kind("year", "1970 to 2100", 1970, 2100) },
];

/// The values of one field, as bits counted from the least.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    least: u32,
    bits: [u64; 3],
    /// True if the field begins with `*` or `?`: by the rule of cron, it does not restrict the days.
    starred: bool,
    /// True if the field names every value.
    full: bool,
}

impl Field {
    fn has(&self, value: u32) -> bool {
        let Some(place) = value.checked_sub(self.least) else { return false };
        let word = usize::try_from(place / 64).ok().and_then(|at| self.bits.get(at));
        word.is_some_and(|word| (word >> (place % 64)) & 1 == 1)
    }

    fn set(&mut self, value: u32) {
        let place = value.saturating_sub(self.least);
        if let Some(word) = usize::try_from(place / 64).ok().and_then(|at| self.bits.get_mut(at)) {
            *word |= 1 << (place % 64);
        }
    }

    /// Writes the field as the `cron` crate reads it: `*`, or a list of values, each `shift` higher.
    fn list(&self, most: u32, shift: u32) -> String {
        if self.full {
            return "*".into();
        }
        let values = (self.least..=most).filter(|value| self.has(*value));
        values.map(|value| (value + shift).to_string()).collect::<Vec<_>>().join(",")
    }

    /// Returns true if the field does not restrict its unit: it begins with `*`, or names all values.
    fn is_open(&self) -> bool {
        self.starred || self.full
    }
}

/// A cron expression.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    /// The expression matches a time of any of these. There are two if both the day of the month and the weekday are
    /// restricted.
    any_of: Vec<cron::Schedule>,
    is_interval: bool,
    is_every_hour: bool,
}

impl Expression {
    /// Parses five fields, six with seconds in front, seven with a year at the end, or a name such as `@daily`.
    ///
    /// # Errors
    /// Returns the error of the first invalid field.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            "@yearly" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let parts: Vec<&str> = text.split_whitespace().collect();
        let (second, five, year) = match parts.as_slice() {
            five if five.len() == 5 => ("0", five, "*"),
            [second, five @ ..] if five.len() == 5 => (*second, five, "*"),
            [second, five @ .., year] if five.len() == 5 => (*second, five, *year),
            other => return Err(format!("it has {} fields; use 5, 6 or 7", other.len())),
        };
        let [minute, hour, day, month, weekday] = five else {
            return Err("use 5, 6 or 7 fields".into());
        };
        let [seconds, minutes, hours, days, months, weekdays, years] = &KINDS;
        let (minute, hour) = (minutes.field(minute)?, hours.field(hour)?);
        let (day, weekday) = (days.field(day)?, weekdays.field(weekday)?);
        let clock = [seconds.list(second)?, minute.list(59, 0), hour.list(23, 0)].join(" ");
        let (month, year) = (months.list(month)?, years.list(year)?);
        // The crate counts weekdays from 1.
        let (day_list, weekday_list) = (day.list(31, 0), weekday.list(6, 1));
        let either = [(day_list.as_str(), "*"), ("*", weekday_list.as_str())];
        let both = [(day_list.as_str(), weekday_list.as_str())];
        let pairs = if day.starred || weekday.starred { both.as_slice() } else { either.as_slice() };
        let schedule = |(day, weekday): &(&str, &str)| {
            let text = format!("{clock} {day} {month} {weekday} {year}");
            cron::Schedule::from_str(&text).map_err(|error| error.to_string())
        };
        Ok(Self {
            any_of: pairs.iter().map(schedule).collect::<Result<_, _>>()?,
            is_interval: minute.is_open() || hour.is_open(),
            is_every_hour: hour.full,
        })
    }

    /// Returns true if the expression is an interval and not a time of day: its minute or its hour is open.
    pub(super) fn is_interval(&self) -> bool {
        self.is_interval
    }

    /// Returns true if the expression names every hour of a day.
    pub(super) fn is_every_hour(&self) -> bool {
        self.is_every_hour
    }

    /// Returns the first wall-clock time after `after`, or `None` without one.
    pub(super) fn next_after(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        let after = after.and_utc();
        self.any_of.iter().filter_map(|schedule| schedule.after(&after).next()).min().map(|at| at.naive_utc())
    }
}

impl Kind {
    /// Parses a field and writes it in the syntax of the `cron` crate.
    fn list(&self, text: &str) -> Result<String, String> {
        Ok(self.field(text)?.list(self.most, 0))
    }

    fn field(&self, text: &str) -> Result<Field, String> {
        let wrong = || {
            format!(
                "{} {text:?} is not valid: it takes {}, `*`, lists, ranges and steps",
                self.name, self.takes
            )
        };
        let starred = text.starts_with('*') || (self.any && text.starts_with('?'));
        let mut field = Field { least: self.least, bits: [0; 3], starred, full: false };
        for part in text.split(',') {
            self.part(part, &mut field).ok_or_else(wrong)?;
        }
        field.full = (self.least..=self.most).all(|value| field.has(value));
        Ok(field)
    }

    /// Parses one part of a list: `*`, a value, a range, or one of these with a step.
    fn part(&self, part: &str, field: &mut Field) -> Option<()> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || (self.any && range == "?") => (self.least, self.most),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            None => {
                let from = self.value(range)?;
                // With a step, the range extends from the value to the end.
                match step {
                    Some(_) if from > self.most => (self.least, self.most),
                    Some(_) => (from, self.most),
                    None => (from, from),
                }
            }
        };
        let cycle = self.most - self.least + 1;
        let to = match (from > to, self.cyclic) {
            (false, _) => to,
            (true, true) => to + cycle,
            (true, false) => return None,
        };
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        for value in (from..=to).step_by(step) {
            field.set((value - self.least) % cycle + self.least);
        }
        Some(())
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named =
            self.names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value);
        let number = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
        named.or_else(number).filter(|value| (self.least..=self.highest).contains(value))
    }
}
