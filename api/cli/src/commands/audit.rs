//! `tenure audit`: lists and exports the audit, and verifies an exported file offline.

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

/// Audit commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List audit entries.
    List {
        #[command(flatten)]
        part: Part,
        #[command(flatten)]
        which: Which,
    },
    /// List signed checkpoints.
    Checkpoints,
    /// Export the audit of a tenant or the platform.
    Export {
        /// File to write; `-` writes to standard output.
        file: PathBuf,
        #[command(flatten)]
        part: Part,
    },
    /// Verify an exported file offline.
    Verify {
        /// File; `-` reads standard input.
        file: PathBuf,
        /// Trusted public key (PEM, repeatable) [default: that of the data folder].
        #[arg(long = "key", value_name = "PUBLIC.pem")]
        keys: Vec<PathBuf>,
        /// Fail if the file has fewer entries than this.
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        at_least: u64,
    },
}

/// A selection of entries.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Event, such as `access.denied`.
    #[arg(long)]
    event: Option<String>,
    /// User, key or engine that acted.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Kind of actor.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// List the newest entries first.
    #[arg(long)]
    newest_first: bool,
    /// Largest number of entries.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: Option<u64>,
}

/// The kind of an actor.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// A person.
    Person,
    /// A program with its own user or key.
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

/// A part of the audit.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// Tenant; `-` is the platform [default: all in a list, the platform in an export].
    #[arg(long)]
    tenant: Option<String>,
    /// Earliest time, such as 2026-11-21T13:00:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Latest time, exclusive.
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
    &[("id", "/id"), ("at", "/at"), ("actor", "/actor"), ("outcome", "/outcome"), ("description", "/says")];

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
    output::note(&format!("to verify it, run `tenure audit verify {}`", file.display()));
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
        lines.push(format!("{file}: valid"));
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
            lines.push(format!(
                "compare with a checkpoint stored elsewhere: checkpoint {number} has the digest {digest}"
            ));
        }
    } else {
        lines.push(format!("{file}: INVALID"));
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
    fn a_file_without_entries_fails_only_if_entries_are_requested() {
        let with = |entries| Verification { entries, ..Verification::default() };
        assert_eq!(verdict(&with(0), 0), Exit::Done);
        assert_eq!(verdict(&with(0), 1), Exit::Failed);
        assert_eq!(verdict(&with(1), 1), Exit::Done);
        assert!(too_few(&with(0), 1).is_some_and(|why| why.contains("--at-least is 1")));
    }
}
