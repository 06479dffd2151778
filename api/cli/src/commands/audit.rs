//! `tenure audit`: who did what; a file of it, and whether such a file holds, without a server.

use crate::{
    client::{Client, block_on, escape},
    commands::certificate::{bytes, trusted},
    common::{Common, Format},
    output::{self, Column},
};
use clap::{Args, Subcommand, ValueEnum};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};
use workflows::audit::{Verification, verify};

/// What is done about the audit.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List what was done, by whom, and with which outcome.
    List {
        #[command(flatten)]
        part: Part,
        #[command(flatten)]
        which: Which,
    },
    /// List the signed checkpoints, to be kept elsewhere.
    Checkpoints,
    /// Write the audit of one tenant, or the platform's own, to a file that verifies without a server.
    Export {
        /// The file to write; `-` writes to standard output.
        file: PathBuf,
        #[command(flatten)]
        part: Part,
    },
    /// Verify an exported file with the public key alone; names the record that was changed, removed or moved.
    Verify {
        /// The file; `-` reads standard input.
        file: PathBuf,
        /// A public key that is trusted (PEM); may be repeated [default: that of the data folder].
        #[arg(long = "key", value_name = "PUBLIC.pem")]
        keys: Vec<PathBuf>,
        /// Fail if the file has fewer entries than this.
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        at_least: u64,
    },
}

/// Which entries are listed.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Only what happened so, like access.denied.
    #[arg(long)]
    event: Option<String>,
    /// Only what this user, key or engine did.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only what persons, services or the engine did.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// List the newest first.
    #[arg(long)]
    newest_first: bool,
    /// List at most this many.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: Option<u64>,
}

/// What an actor is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// A person.
    Person,
    /// A program with a user or a key of its own.
    Service,
    /// Tenure itself.
    Engine,
}

impl Which {
    fn query(&self) -> String {
        let kind = self.kind.map(|kind| match kind {
            Kind::Person => "person".to_owned(),
            Kind::Service => "service".to_owned(),
            Kind::Engine => "engine".to_owned(),
        });
        let order = self.newest_first.then(|| "newest".to_owned());
        let fields = [("event", &self.event), ("actor", &self.actor), ("kind", &kind), ("order", &order)];
        let named = fields.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        named.map(|(name, value)| format!("&{name}={}", escape(value))).collect()
    }
}

/// Which part of the audit.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// Whose; `-` is the platform's own [default: all of them in a list, the platform's own in a file].
    #[arg(long)]
    tenant: Option<String>,
    /// From this moment on, like 2026-11-21T13:00:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Up to before this moment.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

impl Part {
    fn query(&self) -> String {
        let fields = [("tenant", &self.tenant), ("from", &self.from), ("to", &self.to)];
        let named = fields.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        named.map(|(name, value)| format!("&{name}={}", escape(value))).collect()
    }
}

pub(crate) fn run(common: &Common, command: Audit) -> Result<Exit, Failure> {
    match command {
        Audit::List { part, which } => block_on(list(common, part, which)),
        Audit::Checkpoints => block_on(checkpoints(common)),
        Audit::Export { file, part } => block_on(export(common, &file, part)),
        Audit::Verify { file, keys, at_least } => {
            let found = verify(&bytes(&file)?, &trusted(common, &keys)?);
            match common.output {
                format @ (Format::Json | Format::Yaml) => {
                    let mut told = json!(found);
                    if let Some(fields) = told.as_object_mut() {
                        fields.insert("valid".into(), json!(found.is_valid()));
                    }
                    output::one(format, &told)?;
                }
                Format::Table => output::say(&told(&file, &found))?,
            }
            if let Some(why) = too_few(&found, at_least) {
                output::note(&why);
            }
            Ok(verdict(&found, at_least))
        }
    }
}

pub(crate) const ENTRIES: &[Column] =
    &[("id", "/id"), ("at", "/at"), ("who", "/actor"), ("outcome", "/outcome"), ("what", "/says")];

async fn list(common: &Common, part: Part, which: Which) -> Result<Exit, Failure> {
    let query = format!("{}{}", part.query(), which.query());
    let client = Client::of(common)?;
    let items = match which.limit {
        Some(limit) => {
            let page = client.get(&format!("/v1/audit?limit={limit}{query}")).await?.value()?;
            page.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
        }
        None => client.all("/v1/audit", &query).await?,
    };
    output::list(common.output, items, ENTRIES)?;
    Ok(Exit::Done)
}

async fn checkpoints(common: &Common) -> Result<Exit, Failure> {
    let items = Client::of(common)?.all("/v1/audit/checkpoints", "").await?;
    let columns = [
        ("number", "/checkpoint/number"),
        ("at", "/checkpoint/at"),
        ("entries", "/checkpoint/entries"),
        ("digest", "/digest"),
    ];
    output::list(common.output, items, &columns)?;
    Ok(Exit::Done)
}

async fn export(common: &Common, file: &Path, part: Part) -> Result<Exit, Failure> {
    let query = part.query();
    let path = format!("/v1/audit/export?{}", query.trim_start_matches('&'));
    let text = Client::of(common)?.download(&path).await?.text;
    if file == Path::new("-") {
        output::pour(&text)?;
        return Ok(Exit::Done);
    }
    fs::write(file, &text).map_err(|error| Failure::other(format!("{}: {error}", file.display())))?;
    output::note(&format!("whether it holds: tenure audit verify {}", file.display()));
    output::done(common.output, "written", &file.display().to_string())?;
    Ok(Exit::Done)
}

/// Whether a file holds and has as many entries as were asked for.
fn verdict(found: &Verification, at_least: u64) -> Exit {
    if found.is_valid() && too_few(found, at_least).is_none() { Exit::Done } else { Exit::Failed }
}

/// That a file has fewer entries than were asked for.
fn too_few(found: &Verification, at_least: u64) -> Option<String> {
    let entries = found.entries;
    (entries < at_least).then(|| {
        format!("the file has {entries} entries, and --at-least is {at_least}: export a longer period")
    })
}

fn told(file: &Path, found: &Verification) -> String {
    let file = file.display();
    let mut lines = Vec::new();
    if found.is_valid() {
        let (entries, checkpoints) = (found.entries, found.checkpoints.len());
        lines.push(format!("{file}: holds"));
        let whose = match found.header.as_ref().map(|header| header.tenant.as_str()) {
            Some("") | None => "the platform".to_owned(),
            Some(tenant) => format!("tenant {tenant}"),
        };
        lines.push(format!(
            "{entries} entries of {whose}, up to number {}, under {checkpoints} checkpoints, signed with key {}",
            found.last,
            found.signed_by.as_deref().unwrap_or_default()
        ));
        if let Some((number, digest)) = found.checkpoints.last() {
            lines.push(format!("compare with a checkpoint kept elsewhere: number {number} is {digest}"));
        }
    } else {
        lines.push(format!("{file}: DOES NOT HOLD"));
        let problem =
            |at: &workflows::audit::Problem| format!("- line {}, {}: {}", at.line, at.record, at.problem);
        lines.extend(found.problems.iter().map(problem));
    }
    lines.iter().map(|line| format!("{}\n", output::sanitize(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_holds_nothing_fails_only_where_entries_are_asked_for() {
        let with = |entries| Verification { entries, ..Verification::default() };
        assert_eq!(verdict(&with(0), 0), Exit::Done);
        assert_eq!(verdict(&with(0), 1), Exit::Failed);
        assert_eq!(verdict(&with(1), 1), Exit::Done);
        assert!(too_few(&with(0), 1).is_some_and(|why| why.contains("--at-least is 1")));
    }
}
