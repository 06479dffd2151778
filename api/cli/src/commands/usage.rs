//! `tenure usage`: what a tenant used, by month and with list prices.

use crate::{
    client::{Client, block_on, escape},
    common::Common,
    output,
};
use clap::{Args, Subcommand, ValueEnum};
use program::exit::{Exit, Failure};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What is done about usage.
#[derive(Debug, Subcommand)]
pub(crate) enum Usage {
    /// List what each workspace of a tenant used, by month, kind of GPU and class, with list prices.
    List(Part),
    /// Write the same to a file, as CSV or in the columns of FOCUS.
    Export {
        #[command(flatten)]
        part: Part,
        /// How it is written.
        #[arg(long, default_value = "csv")]
        format: Form,
        /// Where to [default: standard output].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// How it is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Form {
    /// One row for each workspace, kind of GPU, class and month.
    Csv,
    /// The columns of FOCUS, for tools that read bills.
    Focus,
}

/// Whose, and of when.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// The tenant.
    tenant: String,
    /// Only this workspace.
    #[arg(long)]
    workspace: Option<String>,
    /// The first month, like 2026-01.
    #[arg(long, value_name = "MONTH")]
    from: Option<String>,
    /// The last month, which is part of it.
    #[arg(long, value_name = "MONTH")]
    to: Option<String>,
}

impl Part {
    fn path(&self, form: Form) -> String {
        let form = match form {
            Form::Csv => "csv",
            Form::Focus => "focus",
        };
        let fields = [("workspace", &self.workspace), ("from", &self.from), ("to", &self.to)];
        let named = fields.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let query: String = named.map(|(name, value)| format!("&{name}={}", escape(value))).collect();
        format!("/v1/usage/{}:export?format={form}{query}", escape(&self.tenant))
    }
}

pub(crate) fn run(common: &Common, command: Usage) -> Result<Exit, Failure> {
    match command {
        Usage::List(part) => block_on(list(common, part)),
        Usage::Export { part, format, file } => block_on(export(common, part, format, file)),
    }
}

async fn list(common: &Common, part: Part) -> Result<Exit, Failure> {
    let text = Client::of(common)?.get(&part.path(Form::Csv)).await?.text;
    let unread = |error: csv::Error| Failure::other(format!("what the server answered is no CSV: {error}"));
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let mut items = Vec::new();
    for row in rows.deserialize::<BTreeMap<String, String>>() {
        items.push(json!(row.map_err(unread)?));
    }
    let columns = [
        ("workspace", "/workspace"),
        ("month", "/month"),
        ("gpu", "/gpu"),
        ("class", "/class"),
        ("gpu seconds", "/gpu_seconds"),
        ("cost", "/cost"),
        ("currency", "/currency"),
    ];
    output::list(common.output, items, &columns)?;
    Ok(Exit::Done)
}

async fn export(common: &Common, part: Part, form: Form, file: Option<PathBuf>) -> Result<Exit, Failure> {
    let text = Client::of(common)?.download(&part.path(form)).await?.text;
    let Some(file) = file.filter(|file| file != Path::new("-")) else {
        output::pour(&text)?;
        return Ok(Exit::Done);
    };
    fs::write(&file, &text).map_err(|error| Failure::other(format!("{}: {error}", file.display())))?;
    output::done(common.output, "written", &file.display().to_string())?;
    Ok(Exit::Done)
}
