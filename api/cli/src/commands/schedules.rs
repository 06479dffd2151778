//! `tenure schedules`: schedules and their occurrences.

use crate::{
    client::{Body, Client, escape, filters},
    common::{Common, Format},
    dry_run::DryRun,
    execution::{
        status::print_at_rest,
        wait::{self, Until},
    },
    output::{self, Column},
    resources::{
        self,
        kinds::SCHEDULES,
        watch_list::{self, WatchArgs},
    },
};
use clap::{Args, Subcommand};
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Schedule commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// List schedules with their next times.
    List(WatchArgs),
    /// Show a schedule with its next five times.
    Show {
        /// Schedule name.
        name: String,
    },
    /// Create or replace a schedule from now on.
    Set {
        /// Schedule name.
        name: String,
        /// Document (YAML); `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
    },
    /// Delete a schedule and skip its waiting occurrences.
    Delete {
        /// Schedule name.
        name: String,
    },
    /// Pause a schedule.
    Pause {
        /// Schedule name.
        name: String,
        /// Reason, recorded with each skipped occurrence.
        #[arg(long)]
        reason: String,
    },
    /// Resume a paused schedule from now on.
    Resume {
        /// Schedule name.
        name: String,
    },
    /// Start one occurrence now, also while paused.
    Trigger(Trigger),
    /// Start missed occurrences of a time range.
    Backfill(Span),
    /// Cancel the remaining backfills of a schedule.
    CancelBackfill {
        /// Schedule name.
        name: String,
        /// Reason for the record.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Skip a waiting occurrence.
    Skip {
        /// Schedule name.
        name: String,
        /// Nominal time of the occurrence, as shown in the list.
        nominal: String,
        /// Reason for the record.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// List the occurrences of a schedule, oldest first.
    Occurrences {
        /// Schedule name.
        name: String,
        /// Filter by a field, such as `fate=missed` or `from=2026-11-01T00:00:00Z` (repeatable).
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
}

/// Options of `trigger`.
#[derive(Debug, Args)]
pub(crate) struct Trigger {
    /// Schedule name.
    name: String,
    /// Wait until the execution ends, parks, or needs an approval (exit 10).
    #[arg(long)]
    wait: bool,
    /// Wait until the execution ends or parks, also through approvals.
    #[arg(long, conflicts_with = "wait")]
    watch: bool,
    /// Longest wait, such as `30m`.
    #[arg(long, value_name = "SPAN", value_parser = wait::span)]
    timeout: Option<std::time::Duration>,
}

/// A time range, ends included.
#[derive(Debug, Args)]
pub(crate) struct Span {
    /// Schedule name.
    name: String,
    /// First nominal time, such as `2026-11-01T00:00:00Z`.
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Last nominal time; must be in the past.
    #[arg(long, value_name = "TIME")]
    to: String,
    /// Largest number of occurrences, up to 20000.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    most: u64,
    #[command(flatten)]
    dry_run: DryRun,
}

const OCCURRENCES: &[Column] = &[
    ("nominal", "/nominal"),
    ("fate", "/fate"),
    ("at", "/at"),
    ("execution", "/execution"),
    ("outcome", "/outcome"),
    ("origin", "/origin"),
    ("reason", "/reason"),
];

pub(crate) async fn run(common: &Common, command: Schedules) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let at = |name: &str| format!("/v1/schedules/{}", escape(name));
    let ask = async |name: &str, verb: &str, body: Value| {
        client.post(&format!("{}:{verb}", at(name)), Body::json(&body)).await?.value()
    };
    let item = match command {
        Schedules::List(watching) => return resources::all(common, &SCHEDULES, &watching).await,
        Schedules::Occurrences { name, filters: wanted, watching } => {
            let (path, wanted) = (format!("{}/occurrences", at(&name)), filters(&wanted)?);
            let all = async || client.all(&path, &wanted).await;
            return watch_list::show(common, &watching, OCCURRENCES, all).await;
        }
        Schedules::Delete { name } => {
            client.delete(&at(&name)).await?;
            output::done(common.output, "deleted", &name)?;
            return Ok(Exit::Done);
        }
        Schedules::Show { name } => resources::read(&client, &SCHEDULES, &name).await?,
        Schedules::Set { name, file } => {
            let body =
                Body { media: "application/yaml", text: files::read(&file)?, key: None, labels: Vec::new() };
            client.put(&at(&name), body).await?.value()?
        }
        Schedules::Pause { name, reason } => ask(&name, "pause", json!({ "reason": reason })).await?,
        Schedules::Resume { name } => ask(&name, "resume", json!({})).await?,
        Schedules::Backfill(span) => {
            let body = json!({ "from": span.from, "to": span.to, "most": span.most });
            if span.dry_run.is_wanted() {
                let path = format!("{}:backfill", at(&span.name));
                let counted = client.foresee_by_field(&path, body).await?.value()?;
                output::one(common.output, &counted)?;
                return Ok(span.dry_run.exit(counted.get("moments") != Some(&json!(0))));
            }
            ask(&span.name, "backfill", body).await?
        }
        Schedules::CancelBackfill { name, reason } => {
            ask(&name, "cancel-backfill", json!({ "reason": reason })).await?
        }
        Schedules::Trigger(own) => {
            let occurrence = ask(&own.name, "trigger", json!({})).await?;
            return triggered(common, &client, &own, occurrence).await;
        }
        Schedules::Skip { name, nominal, reason } => {
            let body = json!({ "nominal": nominal, "reason": reason });
            output::one(common.output, &ask(&name, "skip", body).await?)?;
            return Ok(Exit::Done);
        }
    };
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &item)?,
        Format::Table => output::say(&page(&item))?,
    }
    Ok(Exit::Done)
}

/// Returns true if the occurrence started no execution and will start none.
fn is_settled_without_start(occurrence: &Value) -> bool {
    let fate = occurrence.get("fate").and_then(Value::as_str).unwrap_or_default();
    let started = occurrence.get("execution").is_some_and(Value::is_string);
    !started && ["skipped", "failed", "missed"].contains(&fate)
}

/// Shows a triggered occurrence, or follows its execution.
async fn triggered(
    common: &Common,
    client: &Client,
    own: &Trigger,
    occurrence: Value,
) -> Result<Exit, Failure> {
    let until = match (own.wait, own.watch) {
        (true, _) => Until::Rest,
        (false, true) => Until::End,
        (false, false) if !is_settled_without_start(&occurrence) => {
            output::one(common.output, &occurrence)?;
            return Ok(Exit::Done);
        }
        (false, false) => Until::Rest,
    };
    let Some(id) = occurrence.get("execution").and_then(Value::as_str) else {
        output::one(common.output, &occurrence)?;
        let fate = occurrence.get("fate").and_then(Value::as_str).unwrap_or("not started");
        let why = format!(
            "the occurrence is {fate} and started no execution; see `tenure schedules occurrences {}`",
            own.name
        );
        return Err(Failure::new(Exit::Conflict, why));
    };
    output::note(&format!("execution {id}"));
    let (item, exit) = wait::wait(client, id, until, own.timeout).await?;
    print_at_rest(common, &item, exit)
}

/// Returns a schedule as text, with its next times in its own zone and in UTC.
fn page(item: &Value) -> String {
    let mut rest = item.clone();
    let firing = rest.as_object_mut().and_then(|fields| fields.remove("firing")).unwrap_or_default();
    let said = |of: &Value, name: &str| output::sanitize(of.get(name).and_then(Value::as_str).unwrap_or("-"));
    let mut text = format!("{}  {} ({})\n", said(item, "name"), said(item, "cron"), said(item, "zone"));
    if let Some(paused) = item.get("paused").filter(|paused| paused.is_object()) {
        text.push_str(&format!(
            "PAUSED since {} by {}: {}\n",
            said(paused, "at"),
            said(paused, "by"),
            said(paused, "reason")
        ));
    }
    text.push_str("next:\n");
    for one in firing.as_array().into_iter().flatten() {
        let (utc, due) = (said(one, "utc"), said(one, "due"));
        let moved = if utc == due { String::new() } else { format!("  started {due}") };
        text.push_str(&format!("  {}  {utc}{moved}\n", said(one, "local")));
    }
    text.push_str(&output::outline(&rest));
    text
}
