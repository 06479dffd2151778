//! Reads CSV rows by column name, and records all errors with line and column.

use std::{collections::BTreeMap, time::Duration};
use workflows::{
    fleet::delimiter_of,
    policy::{Finding, Invalid, Spot},
};

/// The number of recorded errors, after which further ones are only counted.
const MOST_FINDINGS: usize = 20;

/// The errors of a file.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
    more: usize,
}

impl Findings {
    pub(crate) fn note(&mut self, at: Option<(u64, u64)>, field: &str, problem: String, remedy: &str) {
        if self.found.len() >= MOST_FINDINGS {
            self.more += 1;
            return;
        }
        let at = at.map(|(line, column)| Spot { line, column });
        self.found.push(Finding::new(at, field, problem, remedy.into()));
    }

    /// Returns `read`, or all errors.
    pub(crate) fn or<T>(mut self, read: T) -> Result<T, Invalid> {
        if self.more > 0 {
            let problem = format!("{} more rows are wrong", self.more);
            self.found.push(Finding::new(None, "", problem, "fix the rows above first".into()));
        }
        if self.found.is_empty() { Ok(read) } else { Err(Invalid { findings: self.found }) }
    }
}

/// A CSV file with a header.
pub(crate) struct CsvTable<'a> {
    reader: csv::Reader<&'a [u8]>,
    places: BTreeMap<String, usize>,
}

impl<'a> CsvTable<'a> {
    /// Opens a table that has all `required` columns.
    ///
    /// # Errors
    ///
    /// If the header lacks a required column.
    pub(crate) fn open(text: &'a str, required: &[&str]) -> Result<Self, Invalid> {
        let mut builder = csv::ReaderBuilder::new();
        let mut reader = builder.flexible(true).delimiter(delimiter_of(text)).from_reader(text.as_bytes());
        let bad = |problem: String| {
            let remedy = format!("begin the file with a line that names the columns {}", required.join(","));
            Invalid::from(Finding::new(Some(Spot { line: 1, column: 1 }), "", problem, remedy))
        };
        let headers = reader.headers().map_err(|e| bad(format!("the header cannot be read: {e}")))?;
        let names = headers.iter().enumerate().map(|(place, name)| (name.trim().to_owned(), place));
        let places: BTreeMap<_, _> = names.collect();
        match required.iter().find(|column| !places.contains_key(**column)) {
            Some(missing) => Err(bad(format!("the header has no column {missing}"))),
            None => Ok(Self { reader, places }),
        }
    }

    /// Returns the names of the columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Calls `read` for every row. Rows that cannot be parsed are recorded as errors.
    pub(crate) fn each(mut self, findings: &mut Findings, mut read: impl FnMut(&mut Row<'_>)) {
        let mut record = csv::StringRecord::new();
        loop {
            match self.reader.read_record(&mut record) {
                Ok(false) => return,
                Ok(true) => {
                    let line = record.position().map_or(0, csv::Position::line);
                    let findings = &mut *findings;
                    read(&mut Row { record: &record, places: &self.places, line, cells: true, findings });
                }
                Err(error) => {
                    let line = error.position().map_or(0, csv::Position::line);
                    let problem = format!("the row cannot be read: {error}");
                    findings.note(Some((line, 1)), "", problem, "write it as UTF-8, separated by commas");
                    if error.is_io_error() {
                        return;
                    }
                }
            }
        }
    }
}

/// A row.
pub(crate) struct Row<'a> {
    pub(crate) record: &'a csv::StringRecord,
    pub(crate) places: &'a BTreeMap<String, usize>,
    pub(crate) line: u64,
    /// True if the row has columns, so that errors can name one.
    pub(crate) cells: bool,
    pub(crate) findings: &'a mut Findings,
}

impl Row<'_> {
    /// Returns the trimmed value of a column; empty if it is absent.
    pub(crate) fn text(&self, column: &str) -> &str {
        self.places.get(column).and_then(|place| self.record.get(*place)).unwrap_or_default().trim()
    }

    /// Records an error of a value.
    pub(crate) fn note(&mut self, column: &str, problem: String, remedy: &str) {
        let place = self.places.get(column).copied().unwrap_or(0);
        let before: usize = self.record.iter().take(place).map(|value| value.chars().count() + 1).sum();
        let at = if self.cells { u64::try_from(before + 1).unwrap_or(u64::MAX) } else { 1 };
        self.findings.note(Some((self.line, at)), column, problem, remedy);
    }

    /// Returns a required value.
    pub(crate) fn must(&mut self, column: &str) -> Option<String> {
        let text = self.text(column).to_owned();
        if text.is_empty() {
            self.note(column, "the value is missing".into(), "give one");
            return None;
        }
        Some(text)
    }

    /// Returns a whole number between `least` and `most`.
    pub(crate) fn whole(&mut self, column: &str, least: u64, most: u64) -> Option<u64> {
        let text = self.text(column).to_owned();
        // Some tools write whole numbers as `8.0`.
        let plain = text.strip_suffix(".0").unwrap_or(&text);
        let number = plain.parse().ok().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let remedy = format!("write a whole number from {least} to {most}");
            self.note(column, format!("{text:?} is not a valid number here"), &remedy);
        }
        number
    }

    /// Returns seconds since the start of the trace, rounded to milliseconds; `Some(None)` for a blank value.
    pub(crate) fn seconds(&mut self, column: &str) -> Option<Option<Duration>> {
        let text = self.text(column).to_owned();
        if text.is_empty() {
            return Some(None);
        }
        // About a century, which is longer than any trace and far below an overflow of milliseconds.
        let read = text.parse::<f64>().ok().filter(|seconds| (0.0..3.2e9).contains(seconds));
        let Some(seconds) = read else {
            let problem = format!("{text:?} is not a number of seconds");
            self.note(column, problem, "write seconds since the start of the trace, or leave it blank");
            return None;
        };
        Some(Some(Duration::from_secs_f64((seconds * 1_000.0).round() / 1_000.0)))
    }
}
