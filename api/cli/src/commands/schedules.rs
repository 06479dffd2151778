//! `tenure schedules`: what is started when, and what became of every occurrence.

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

/// What is done about schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// List them all, with when each is next due.
    List(WatchArgs),
    /// Show one, with its next five moments, what runs and what waits.
    Show {
        /// Its name.
        name: String,
    },
    /// Set one by a document; holds from now on, and never for the past.
    Set {
        /// Its name.
        name: String,
        /// The document (YAML); `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
    },
    /// Delete one; what waits is skipped, what runs goes on, its history stays.
    Delete {
        /// Its name.
        name: String,
    },
    /// Start nothing by the clock until it is resumed.
    Pause {
        /// Its name.
        name: String,
        /// Why: stands with every occurrence that is left out.
        #[arg(long)]
        reason: String,
    },
    /// Let a paused one go on from now.
    Resume {
        /// Its name.
        name: String,
    },
    /// Start one occurrence now, also while it is paused.
    Trigger(Trigger),
    /// Make up for every occurrence of a span that was not started, oldest first.
    Backfill(Span),
    /// Give up the rest of a schedule's backfills.
    CancelBackfill {
        /// The schedule's name.
        name: String,
        /// Why, for the record.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Leave out an occurrence that waits; it never starts.
    Skip {
        /// The schedule's name.
        name: String,
        /// The occurrence's moment, as the list shows it.
        nominal: String,
        /// Why, for the record.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// List what became of every occurrence, oldest first.
    Occurrences {
        /// The schedule's name.
        name: String,
        /// Only those whose field is as said, like `fate=missed` or `from=2026-11-01T00:00:00Z`; may be repeated.
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
}

/// What is started now, and how far it is followed.
#[derive(Debug, Args)]
pub(crate) struct Trigger {
    /// Its name.
    name: String,
    /// Wait until what was started has finished, or waits for people (exit 10).
    #[arg(long)]
    wait: bool,
    /// Follow it until it has finished, also while people decide.
    #[arg(long, conflicts_with = "wait")]
    watch: bool,
    /// How long to wait or watch at most, like `30m`.
    #[arg(long, value_name = "SPAN", value_parser = wait::span)]
    timeout: Option<std::time::Duration>,
}

/// A span of moments, ends included.
#[derive(Debug, Args)]
pub(crate) struct Span {
    /// The schedule's name.
    name: String,
    /// The first moment, like `2026-11-01T00:00:00Z`.
    #[arg(long, value_name = "TIME")]
    from: String,
    /// The last moment; it must have passed.
    #[arg(long, value_name = "TIME")]
    to: String,
    /// How many moments the span may have, at most 20000.
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

/// Returns true if an occurrence has a fate by which no execution was or will be started.
fn is_settled_without_start(occurrence: &Value) -> bool {
    let fate = occurrence.get("fate").and_then(Value::as_str).unwrap_or_default();
    let started = occurrence.get("execution").is_some_and(Value::is_string);
    !started && ["skipped", "failed", "missed"].contains(&fate)
}

/// Shows an occurrence that was asked for, or follows what it started.
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
            "it is {fate}, and no execution was started: `tenure schedules occurrences {}`",
            own.name
        );
        return Err(Failure::new(Exit::Conflict, why));
    };
    output::note(&format!("execution {id}"));
    let (item, exit) = wait::wait(client, id, until, own.timeout).await?;
    print_at_rest(common, &item, exit)
}

/// A schedule for reading: its moments first, in its own zone and in UTC.
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
