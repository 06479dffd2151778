//! `tenure fleet`: imports nodes, clusters and regions.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    output,
};
use clap::Subcommand;
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Fleet commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Fleet {
    /// Import nodes (CSV), or regions and clusters (YAML).
    ///
    /// The columns of a CSV file are sn, cpu_milli, memory_mib, gpu and model, separated by commas, semicolons or tabs.
    Import {
        /// File; `-` reads CSV from standard input.
        file: PathBuf,
        /// Cluster of the nodes.
        #[arg(long)]
        cluster: Option<String>,
        /// Region of the cluster.
        #[arg(long)]
        region: Option<String>,
    },
}

pub(crate) async fn run(common: &Common, command: Fleet) -> Result<Exit, Failure> {
    let Fleet::Import { file, cluster, region } = command;
    let text = files::read(&file)?;
    let is_yaml = file.extension().is_some_and(|end| end == "yaml" || end == "yml");
    if !is_yaml && (cluster.is_none() || region.is_none()) {
        let message = "a CSV file needs --cluster and --region";
        return Err(Failure::new(Exit::Usage, message));
    }
    let query = [("cluster", cluster), ("region", region)]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", escape(&value?))))
        .collect::<Vec<_>>()
        .join("&");
    let media = if is_yaml { "application/yaml" } else { "text/csv" };
    let path = format!("/v1/fleet:import?{query}");
    let answer = Client::of(common)?.post(&path, Body { media, text, key: None, labels: Vec::new() }).await;
    let report = answer.map_err(|failure| at_file(failure, &file))?.value()?;
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &report)?,
        Format::Table => output::say(&page(&report))?,
    }
    Ok(Exit::Done)
}

/// Adds the file's name to an error in its content.
fn at_file(failure: Failure, file: &Path) -> Failure {
    if failure.exit != Exit::Failed {
        return failure;
    }
    let message = format!("{}: no node was imported\n{}", file.display(), failure.message);
    Failure { message, ..failure }
}

/// Returns the report of an import as text.
pub(crate) fn page(report: &Value) -> String {
    let inner = report.get("report").unwrap_or(report);
    let count = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let Some(models) = inner.get("models").and_then(Value::as_object) else { return output::outline(inner) };
    let part = |name: &str| inner.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut text = format!(
        "{} nodes, {} GPUs in {} ({}): {} added, {} changed, {} unchanged\n",
        count(inner, "nodes"),
        count(inner, "gpus"),
        part("cluster"),
        part("region"),
        count(inner, "added"),
        count(inner, "changed"),
        count(inner, "unchanged"),
    );
    for (model, counts) in models {
        let _ = writeln!(
            text,
            "  {model:12} {:6} nodes {:6} GPUs",
            count(counts, "nodes"),
            count(counts, "gpus")
        );
    }
    let without_gpus = count(inner, "without_gpus");
    if without_gpus > 0 {
        let _ = writeln!(text, "{without_gpus} nodes of the file have no GPUs and were ignored");
    }
    let missing = count(inner, "missing");
    if missing > 0 {
        let _ = writeln!(text, "{missing} nodes of the cluster are not in the file and are unchanged");
    }
    if inner.get("simulated") == Some(&Value::Bool(true)) {
        let _ = writeln!(text, "the cluster is simulated");
    }
    for note in inner.get("notes").and_then(Value::as_array).into_iter().flatten() {
        let _ = writeln!(text, "note: {}", note.as_str().unwrap_or_default());
    }
    text
}
