//! `tenure workload`: GPUs asked for by hand, as a scheduler would.

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
use serde_json::{Value, json};
use std::path::PathBuf;

/// What is done about workloads.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Ask for GPUs: admitted, in line (exit 10), or rejected (exit 6), with every reason.
    Submit {
        /// The document (YAML): tenant, workspace, name, requests, and what else docs/http-api.md lists; `-` reads
        /// standard input.
        #[arg(short, long)]
        file: PathBuf,
    },
    /// Say that one has ended, or is no longer wanted.
    Finish {
        /// Its id, such as `acme/train-7`.
        id: String,
    },
}

pub(crate) async fn run(common: &Common, command: Workload) -> Result<Exit, Failure> {
    match command {
        Workload::Submit { file } => submit(common, files::read(&file)?).await,
        Workload::Finish { id } => {
            let Some((tenant, name)) = id.split_once('/') else {
                let why = format!("{id:?} names no workload: write TENANT/NAME");
                return Err(Failure::new(Exit::Usage, why));
            };
            let path = format!("/v1/workloads/{}/{}:finish", escape(tenant), escape(name));
            let item = Client::of(common)?.post(&path, Body::json(&json!({}))).await?.value()?;
            output::one(common.output, &item)?;
            Ok(Exit::Done)
        }
    }
}

async fn submit(common: &Common, text: String) -> Result<Exit, Failure> {
    let body = Body { media: "application/yaml", text, key: None, labels: Vec::new() };
    let asked = Client::of(common)?.post("/v1/workloads", body).await;
    let item = asked.map_err(rejected)?.value()?;
    let answer = item.get("answer").and_then(Value::as_str).unwrap_or_default();
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &item)?,
        Format::Table => {
            let mut text = format!("{answer}\n");
            for weighed in item.pointer("/decision/weighed").and_then(Value::as_array).into_iter().flatten() {
                let said = |name: &str| weighed.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
                text.push_str(&format!(
                    "  {:12} {:20} {}: {}\n",
                    said("dimension"),
                    said("resource"),
                    said("code"),
                    said("why")
                ));
            }
            if let Some(placed) =
                item.get("placed").filter(|placed| placed.as_array().is_some_and(|p| !p.is_empty()))
            {
                text.push_str(&output::outline(&json!({ "placed": placed })));
            }
            output::say(&text)?;
        }
    }
    Ok(if answer == "queue" { Exit::AwaitsApproval } else { Exit::Done })
}

/// A workload that can never be admitted is refused, which is not a failure of the command.
fn rejected(failure: Failure) -> Failure {
    let code = failure.problem.as_ref().and_then(|problem| problem.get("code")).and_then(Value::as_str);
    if code == Some("workload.rejected") { Failure { exit: Exit::Refused, ..failure } } else { failure }
}
