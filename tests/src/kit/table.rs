//! The results of every case on every subject.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fmt, fs, io,
    path::PathBuf,
};

/// The folder of the recorded results of every subject.
const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/kit");

/// The result of one case on one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The promise was kept.
    Held,
    /// The case cannot apply, with the reason.
    Excused(String),
    /// The promise was broken, with the violation.
    Broken(String),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => write!(f, "held"),
            Self::Excused(why) => write!(f, "excused: {why}"),
            Self::Broken(what) => write!(f, "BROKEN: {what}"),
        }
    }
}

/// Subjects and cases, with a cell for each run pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    cells: BTreeMap<(&'static str, &'static str), Cell>,
}

impl Table {
    pub(super) fn put(&mut self, subject: &'static str, case: &'static str, cell: Cell) {
        self.cells.insert((subject, case), cell);
    }

    /// Returns this table with the cells of another.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.cells.extend(other.cells);
        self
    }

    /// Returns the cell of a case, if it was run on the subject.
    #[must_use]
    pub fn cell(&self, subject: &str, case: &str) -> Option<&Cell> {
        self.cells.iter().find(|((s, c), _)| *s == subject && *c == case).map(|(_, cell)| cell)
    }

    /// Returns the broken promises, one line each.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let broken = self.cells.iter().filter(|(_, cell)| matches!(cell, Cell::Broken(_)));
        broken.map(|((subject, case), cell)| format!("{subject} {case}: {cell}")).collect()
    }

    /// Returns the excused cases of a subject, with the reasons.
    #[must_use]
    pub fn excused(&self, subject: &str) -> BTreeMap<&'static str, String> {
        let of = self.cells.iter().filter(|((s, _), _)| *s == subject);
        of.filter_map(|((_, case), cell)| match cell {
            Cell::Excused(why) => Some((*case, why.clone())),
            Cell::Held | Cell::Broken(_) => None,
        })
        .collect()
    }

    /// Compares each subject's results with the recorded ones, from which the documentation's table is made, so that a new excuse is
    /// found. `BLESS=1` writes the record.
    ///
    /// # Errors
    /// The subjects with other results, and these results.
    pub fn on_record(&self) -> Result<(), String> {
        let subjects: BTreeSet<_> = self.cells.keys().map(|(subject, _)| *subject).collect();
        let mut differ = Vec::new();
        for subject in subjects {
            let of = self.cells.iter().filter(|((s, _), _)| *s == subject);
            let lines = of.map(|((_, case), cell)| format!("{case} {cell}\n"));
            let row = format!("{subject}\n{}", lines.collect::<String>());
            let file = record(subject);
            if env::var_os("BLESS").is_some() {
                fs::write(&file, &row).map_err(|error| format!("{}: {error}", file.display()))?;
            } else if fs::read_to_string(&file).unwrap_or_default() != row {
                differ.push(format!("{} is not what it came to: run with BLESS=1", file.display()));
            }
        }
        if differ.is_empty() { Ok(()) } else { Err(format!("{}\n{self}", differ.join("\n"))) }
    }

    /// Returns pairs that were not run although both the subject and the case occur.
    #[must_use]
    pub fn blank(&self) -> Vec<String> {
        let subjects: BTreeSet<_> = self.cells.keys().map(|(subject, _)| *subject).collect();
        let cases: BTreeSet<_> = self.cells.keys().map(|(_, case)| *case).collect();
        let pairs = subjects.iter().flat_map(|subject| cases.iter().map(move |case| (*subject, *case)));
        pairs.filter(|pair| !self.cells.contains_key(pair)).map(|(s, c)| format!("{s} {c}")).collect()
    }
}

fn record(subject: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name = subject.chars().map(plain).collect::<String>();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    PathBuf::from(RECORDS).join(format!("{}.txt", words.join("-")))
}

/// The record: by subject and case, the text of the cell.
///
/// # Errors
/// If a record cannot be read.
pub fn records() -> io::Result<BTreeMap<String, BTreeMap<String, String>>> {
    let mut all = BTreeMap::new();
    for file in fs::read_dir(RECORDS)? {
        let text = fs::read_to_string(file?.path())?;
        let (subject, lines) = text.split_once('\n').unwrap_or_default();
        let cells = lines.lines().filter_map(|line| line.split_once(' '));
        let cells = cells.map(|(case, cell)| (case.to_owned(), cell.to_owned())).collect();
        all.insert(subject.to_owned(), cells);
    }
    Ok(all)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.cells.keys().map(|(_, case)| case.len()).max().unwrap_or(0);
        let subjects: BTreeSet<_> = self.cells.keys().map(|(subject, _)| *subject).collect();
        for subject in subjects {
            let of = |wanted: fn(&Cell) -> bool| {
                self.cells.iter().filter(|((s, _), cell)| *s == subject && wanted(cell)).count()
            };
            let held = of(|cell| matches!(cell, Cell::Held));
            let excused = of(|cell| matches!(cell, Cell::Excused(_)));
            let broken = of(|cell| matches!(cell, Cell::Broken(_)));
            writeln!(f, "{subject}: {held} held, {excused} excused, {broken} broken")?;
            for ((_, case), cell) in self.cells.iter().filter(|((s, _), _)| *s == subject) {
                writeln!(f, "  {case:width$}  {cell}")?;
            }
        }
        Ok(())
    }
}
