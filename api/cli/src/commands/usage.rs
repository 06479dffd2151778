//! `tenure usage`: the usage of a tenant by month, with list prices.

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

/// Usage commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Usage {
    /// List usage by workspace, month, GPU and class.
    List(Part),
    /// Export usage as CSV or FOCUS.
    Export {
        #[command(flatten)]
        part: Part,
        /// Format.
        #[arg(long, default_value = "csv")]
        format: Form,
        /// File [default: standard output].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// The format of an export.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Form {
    /// One row per workspace, GPU kind, class and month.
    Csv,
    /// FOCUS columns, for billing tools.
    Focus,
}

/// The part of the usage.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// Tenant.
    tenant: String,
    /// Only this workspace.
    #[arg(long)]
    workspace: Option<String>,
    /// First month, such as 2026-01.
    #[arg(long, value_name = "MONTH")]
    from: Option<String>,
    /// Last month, inclusive.
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
    let unread = |error: csv::Error| Failure::other(format!("the server's answer is not CSV: {error}"));
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
