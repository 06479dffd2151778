//! `tenure simulate`: replays a trace or a scenario without a server.

use crate::{
    common::{Common, Format},
    output,
};
use clap::Args;
use program::{
    exit::{Exit, Failure},
    files,
};
use simulator::{Baseline, Report, Scenario, Settings, Source, any_model, page, read, replay_all, table};
use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    sync::Mutex,
};
use strum::VariantArray as _;
use workflows::{fleet::parse_nodes, policy::PlatformPolicy};

/// Options of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Trace (CSV of openb or dlrm, or CSV or JSONL of Tenure) or scenario (YAML); `-` reads standard input.
    pub(crate) trace: PathBuf,
    /// Nodes (sn,cpu_milli,memory_mib,gpu,model) [default: as many nodes of 8 GPUs as needed].
    #[arg(long, value_name = "NODES.csv")]
    pub(crate) fleet: Option<PathBuf>,
    /// Platform policy [default: the built-in one, with borrowing for every class].
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Seed of random values in a scenario.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of replays in sequence, such as 52 weeks for a year.
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Folder for the report (JSON, text and HTML).
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

/// Reads the input, replays it and shows the report.
pub(crate) fn run(common: &Common, own: &Simulate) -> Result<Exit, Failure> {
    let scene = scene(own)?.repeated(own.repeat).map_err(|error| Failure::new(Exit::Usage, error))?;
    let policy = own.policy.as_deref().map(files::read).transpose()?;
    let named = match &policy {
        Some(text) => {
            let policy =
                PlatformPolicy::from_yaml(text).map_err(|found| bad(own.policy.as_deref(), found))?;
            format!("{}@{}", policy.reference.name, policy.reference.version)
        }
        None => "built-in, all classes may borrow".to_owned(),
    };
    let told = scene.kind == simulator::Kind::Scenario && scene.demands.len() <= Scenario::TOLD;
    let settings: Vec<Settings> = Baseline::VARIANTS
        .iter()
        .map(|baseline| Settings {
            policy: policy.clone(),
            told: told && *baseline == Baseline::Lending,
            ..Settings::of(*baseline)
        })
        .collect();
    let progress = Progress::new(settings.len());
    let outcomes = replay_all(&scene, &settings, &|place, done| progress.show(place, done));
    progress.end();
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>().map_err(Failure::other)?;
    let report = Report::of(&scene, own.seed, &named, outcomes);
    if let Some(folder) = &own.report {
        keep(folder, &report)?;
    }
    show(common.output, &report)
}

fn bad(file: Option<&Path>, found: impl std::fmt::Display) -> Failure {
    let name = file.map(|file| file.display().to_string()).unwrap_or_default();
    Failure::new(Exit::Usage, format!("{name}:\n{found}"))
}

fn scene(own: &Simulate) -> Result<Scenario, Failure> {
    let text = files::read(&own.trace)?;
    let source = read(&text, own.seed).map_err(|found| bad(Some(&own.trace), found))?;
    let fleet = match &own.fleet {
        Some(file) => Some(parse_nodes(&files::read(file)?).map_err(|found| bad(Some(file), found))?),
        None => None,
    };
    match source {
        Source::Scenario(_) if fleet.is_some() => {
            Err(Failure::new(Exit::Usage, "a scenario has its own fleet; remove --fleet"))
        }
        Source::Scenario(scene) => Ok(*scene),
        Source::Trace(trace) => {
            let model = any_model().map_err(Failure::other)?;
            Scenario::of(&trace, fleet.as_deref(), &model).map_err(|error| Failure::new(Exit::Usage, error))
        }
    }
}

fn show(format: Format, report: &Report) -> Result<Exit, Failure> {
    let violations = report.violations();
    match format {
        Format::Json | Format::Yaml => {
            output::one(format, &serde_json::to_value(report).map_err(Failure::other)?)?;
        }
        Format::Table => {
            for outcome in report.outcomes.iter().filter(|outcome| !outcome.story.is_empty()) {
                output::say(&format!("{}\n\n", outcome.story.join("\n")))?;
            }
            output::say(&table(report))?;
            for outcome in &report.outcomes {
                for violation in outcome.violations.iter().take(20) {
                    let name = outcome.measures.baseline.title();
                    output::say(&format!("{name}: {}: {}\n", violation.rule, violation.what))?;
                }
            }
            output::say(&format!("{violations} invariant violations\n"))?;
        }
    }
    Ok(if violations == 0 { Exit::Done } else { Exit::Failed })
}

/// Writes the report as `report.json`, `report.html`, `report.txt`, and the story as `events.log`.
fn keep(folder: &Path, report: &Report) -> Result<(), Failure> {
    let problem = |error: io::Error| Failure::other(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(problem)?;
    let json = serde_json::to_string_pretty(report).map_err(Failure::other)?;
    let mut files = vec![("report.json", json), ("report.html", page(report)), ("report.txt", table(report))];
    let story: Vec<&str> =
        report.outcomes.iter().flat_map(|outcome| &outcome.story).map(String::as_str).collect();
    if !story.is_empty() {
        files.push(("events.log", format!("{}\n", story.join("\n"))));
    }
    for (name, text) in files {
        fs::write(folder.join(name), text).map_err(problem)?;
    }
    output::note(&format!("the report is in {}", folder.display()));
    Ok(())
}

/// The progress of each replay, on standard error.
struct Progress {
    done: Mutex<Vec<u8>>,
    live: bool,
}

impl Progress {
    fn new(replays: usize) -> Self {
        Self { done: Mutex::new(vec![0; replays]), live: io::stderr().is_terminal() }
    }

    fn show(&self, place: usize, part: f64) {
        let mut done = self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let percent = (part.clamp(0.0, 1.0) * 100.0) as u8;
        let Some(own) = done.get_mut(place) else { return };
        // Without a terminal, writes a line for every 10 %. On a terminal, redraws one line for every change.
        let worth = if self.live { percent > *own } else { percent / 10 > *own / 10 };
        if !worth {
            return;
        }
        *own = percent;
        let shown = done
            .iter()
            .zip(Baseline::VARIANTS)
            .map(|(percent, baseline)| format!("{} {percent} %", baseline.title()));
        let line = shown.collect::<Vec<_>>().join("   ");
        let mut err = io::stderr().lock();
        let _ = if self.live { write!(err, "\r{line} ") } else { writeln!(err, "{line}") };
    }

    fn end(&self) {
        if self.live {
            let _ = writeln!(io::stderr().lock());
        }
    }
}
