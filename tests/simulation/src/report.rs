//! Runs many seeds in parallel, adds up their results, and minimises the first failure and prints how to repeat it.

use crate::{Case, Verdict, disk, play, shrink, trouble::Trouble};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

/// The sum of many seeds.
#[derive(Debug, Default)]
pub struct Sum {
    /// The number of seeds.
    pub seeds: u64,
    /// The number of events.
    pub events: u64,
    /// The number of faults.
    pub troubles: u64,
    /// Executions by their end.
    pub ends: BTreeMap<String, u64>,
    /// The number of survived power cuts.
    pub cuts: u64,
    /// The first failing seed, reduced, as text.
    pub failed: Option<String>,
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ends: Vec<_> = self.ends.iter().map(|(end, many)| format!("{many} {end}")).collect();
        write!(
            f,
            "{} seeds: {} events, {} troubles, {} power cuts; executions ended {}",
            self.seeds,
            self.events,
            self.troubles,
            self.cuts,
            ends.join(", ")
        )
    }
}

/// One seed in this number includes a power cut: opening a store takes longer than a simulated day.
const CUT_EVERY: u64 = 10;

/// Runs `count` seeds from `first` on, on every processor, until one fails; `also` runs further checks of a seed and returns
/// their failures.
///
/// # Panics
/// If a simulation panics.
#[must_use]
pub fn play_many(first: u64, count: u64, also: impl Fn(u64) -> Vec<String> + Sync) -> Sum {
    let (next, stop, sum) = (AtomicU64::new(first), AtomicBool::new(false), Mutex::new(Sum::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let (mut verdict, cut) = one(seed);
                    if verdict.broken.is_empty() {
                        verdict.broken = also(seed);
                    }
                    let failed = !verdict.broken.is_empty();
                    let mut sum = sum.lock().unwrap();
                    sum.seeds += 1;
                    sum.events += verdict.events;
                    sum.troubles += verdict.troubles;
                    sum.cuts += u64::from(cut);
                    for (end, many) in &verdict.ends {
                        *sum.ends.entry(end.clone()).or_default() += many;
                    }
                    if failed && !stop.swap(true, Ordering::Relaxed) {
                        sum.failed = Some(tell(verdict));
                    }
                }
            });
        }
    });
    sum.into_inner().unwrap()
}

fn one(seed: u64) -> (Verdict, bool) {
    let mut verdict = play(&Case::of(seed));
    let cut = seed.is_multiple_of(CUT_EVERY);
    if cut && verdict.broken.is_empty() {
        verdict.broken = disk::cut_power(seed);
    }
    (verdict, cut)
}

/// Formats a failing case, reduced, with the command that repeats it.
#[must_use]
pub fn tell(verdict: Verdict) -> String {
    let (seed, lines) = (verdict.case.seed, verdict.history.len());
    let first = verdict.broken.first().cloned().unwrap_or_default();
    let small = if play(&verdict.case).broken.is_empty() { verdict } else { shrink(verdict) };
    let mut text = format!("seed {seed} breaks a law: {first}\n");
    let _ = writeln!(
        text,
        "made smaller, from {lines} events to {}: {}",
        small.history.len(),
        small.broken.join("; ")
    );
    // Prints the events before the failure; the command prints all.
    let at = small.history.iter().position(|line| line.contains("BROKEN")).unwrap_or(small.history.len());
    for line in small.history.iter().skip(at.saturating_sub(60)).take(62) {
        let _ = writeln!(text, "  {line}");
    }
    let _ = write!(text, "play it again: {}", command(&small.case));
    text
}

/// Returns the command that repeats a case.
#[must_use]
pub fn command(case: &Case) -> String {
    let mut command = format!("cargo run -p simulation --bin seeds -- --seed {}", case.seed);
    for kind in &case.without {
        let name: &str = kind.into();
        let _ = write!(command, " --without {name}");
    }
    if case.upto != u64::MAX {
        let _ = write!(command, " --upto {}", case.upto);
    }
    if case.executions != usize::MAX {
        let _ = write!(command, " --executions {}", case.executions);
    }
    command
}

/// The arguments of the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This case, with its whole history.
    One(Case),
    /// This number of seeds from the first on.
    Many(u64, u64),
}

/// Reads a command line.
///
/// # Errors
/// A sentence that names the argument and the valid ones.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Wanted, String> {
    let mut arguments = arguments.into_iter();
    let (mut one, mut first, mut count) = (None::<Case>, 1, 1_000);
    let (mut without, mut upto, mut executions) = (BTreeSet::new(), u64::MAX, usize::MAX);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name}: {value:?} is not a number"));
        match name.as_str() {
            "--seed" => one = Some(Case::of(number()?)),
            "--first" => first = number()?,
            "--seeds" => count = number()?,
            "--upto" => upto = number()?,
            "--executions" => executions = usize::try_from(number()?).unwrap_or(usize::MAX),
            "--without" => {
                let known: Vec<&str> =
                    <Trouble as strum::VariantArray>::VARIANTS.iter().map(Into::into).collect();
                let kind =
                    value.parse().map_err(|_| format!("--without {value}: one of {}", known.join(", ")))?;
                without.insert(kind);
            }
            _ => {
                return Err(format!(
                    "{name} is not known: --seeds N, --first N, or --seed N with --without KIND, --upto N, --executions N"
                ));
            }
        }
    }
    Ok(one.map_or(Wanted::Many(first, count), |case| Wanted::One(Case { without, upto, executions, ..case })))
}
