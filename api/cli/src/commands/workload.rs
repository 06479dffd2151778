//! `tenure workload`: submits and ends workloads, as a scheduler would.

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

/// Workload commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Submit a workload; exit 10 if queued, 6 if rejected.
    Submit {
        /// Document (YAML) with tenant, workspace, name and requests (see docs/http-api.md); `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
    },
    /// Report that a workload ended or was withdrawn.
    Finish {
        /// Workload id, such as `acme/train-7`.
        id: String,
    },
}

pub(crate) async fn run(common: &Common, command: Workload) -> Result<Exit, Failure> {
    match command {
        Workload::Submit { file } => submit(common, files::read(&file)?).await,
        Workload::Finish { id } => {
            let Some((tenant, name)) = id.split_once('/') else {
                let why = format!("{id:?} is not the id of a workload; write TENANT/NAME");
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

/// Changes the exit code of a rejected workload, which is not a failure of the command.
fn rejected(failure: Failure) -> Failure {
    let code = failure.problem.as_ref().and_then(|problem| problem.get("code")).and_then(Value::as_str);
    if code == Some("workload.rejected") { Failure { exit: Exit::Refused, ..failure } } else { failure }
}
