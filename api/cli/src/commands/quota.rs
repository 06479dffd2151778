//! `tenure quota`, `tenure sla`, `tenure capacity` and `tenure incident`: requests that start a workflow.

use crate::{
    client::Body,
    common::Common,
    execution::start::{self, StartArgs},
};
use clap::{Args, Subcommand};
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::json;
use std::path::PathBuf;

/// Quota commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Quota {
    /// Request a quota change from a document.
    Request {
        /// Document (YAML) with tenant, workspace, resource, `by` or `to`, and reason; `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
        /// Direction [default: increase for `by`].
        #[arg(long, value_parser = ["increase", "decrease"])]
        direction: Option<String>,
        #[command(flatten)]
        starting: StartArgs,
    },
    /// Request a quota of a given amount.
    Set(Set),
}

/// The quota to request.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Tenant and workspace, such as `acme/research`.
    id: String,
    /// Resource: `gpu/H100`, `gpu/H100/1g.10gb`, `cpu_milli`, `memory_mib`, `storage_gib` or `pods`.
    resource: String,
    /// Amount in the resource's unit.
    amount: u64,
    /// Reason for the approvers.
    #[arg(long)]
    reason: String,
    /// Borrowing limit [default: unchanged].
    #[arg(long)]
    borrowing_limit: Option<u64>,
    /// Lending limit [default: unchanged].
    #[arg(long)]
    lending_limit: Option<u64>,
    /// End of the quota, such as `2026-03-01T00:00:00Z`.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Request more than the entitlement; requires --until.
    #[arg(long, requires = "until")]
    exception: bool,
    #[command(flatten)]
    starting: StartArgs,
}

/// Service level commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Sla {
    /// Request a service level change from a document.
    Change {
        /// Document (YAML) with tenant, reason and the changes; `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
        #[command(flatten)]
        starting: StartArgs,
    },
}

/// Capacity commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Capacity {
    /// Report a shortage of a GPU model.
    Short {
        /// Region.
        region: String,
        /// GPU model.
        model: String,
        /// GPUs needed in addition to those on waitlists.
        #[arg(long, default_value_t = 0)]
        wanted: u32,
        /// Source of the report.
        #[arg(long, default_value = "")]
        reason: String,
        #[command(flatten)]
        starting: StartArgs,
    },
}

/// Incident commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Incident {
    /// Report an incident and start its containment.
    Report {
        /// Kind.
        #[arg(value_parser = ["gpu_fault", "key_leak", "isolation_breach", "other"])]
        kind: String,
        /// Node with the GPU fault.
        #[arg(long)]
        node: Option<String>,
        /// Cluster of the leaked key.
        #[arg(long)]
        cluster: Option<String>,
        /// Affected tenant (repeatable).
        #[arg(long = "tenant")]
        tenants: Vec<String>,
        /// Subtype of `other`, such as `sanitisation_failed`.
        #[arg(long)]
        what: Option<String>,
        /// Evidence.
        #[arg(long, default_value = "")]
        evidence: String,
        #[command(flatten)]
        starting: StartArgs,
    },
}

const QUOTAS: &str = "/v1/quota-requests";

pub(crate) async fn quota(common: &Common, command: Quota) -> Result<Exit, Failure> {
    match command {
        Quota::Request { file, direction, starting } => {
            let query = direction.map(|way| format!("?direction={way}")).unwrap_or_default();
            start::start(common, QUOTAS, &query, yaml(files::read(&file)?), starting).await
        }
        Quota::Set(set) => {
            let Some((tenant, workspace)) = set.id.split_once('/') else {
                let why = format!("{:?} is not the id of a workspace; write TENANT/WORKSPACE", set.id);
                return Err(Failure::new(Exit::Usage, why));
            };
            let mut body = json!({
                "tenant": tenant, "workspace": workspace, "resource": set.resource, "to": set.amount,
                "exception": set.exception, "reason": set.reason,
            });
            let more = [
                ("borrowing_limit", set.borrowing_limit.map(|limit| json!(limit))),
                ("lending_limit", set.lending_limit.map(|limit| json!(limit))),
                ("until", set.until.map(|until| json!(until))),
            ];
            if let Some(fields) = body.as_object_mut() {
                fields.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
            }
            start::start(common, QUOTAS, "", Body::json(&body), set.starting).await
        }
    }
}

pub(crate) async fn sla(common: &Common, command: Sla) -> Result<Exit, Failure> {
    let Sla::Change { file, starting } = command;
    start::start(common, "/v1/sla-changes", "", yaml(files::read(&file)?), starting).await
}

pub(crate) async fn capacity(common: &Common, command: Capacity) -> Result<Exit, Failure> {
    let Capacity::Short { region, model, wanted, reason, starting } = command;
    let body = json!({ "region": region, "model": model, "wanted": wanted, "reason": reason });
    start::start(common, "/v1/capacity-exhaustions", "", Body::json(&body), starting).await
}

pub(crate) async fn incident(common: &Common, command: Incident) -> Result<Exit, Failure> {
    let Incident::Report { kind, node, cluster, tenants, what, evidence, starting } = command;
    let body = json!({
        "kind": kind, "node": node, "cluster": cluster, "tenants": tenants, "what": what,
        "evidence": evidence,
    });
    start::start(common, "/v1/incidents", "", Body::json(&body), starting).await
}

fn yaml(text: String) -> Body {
    Body { media: "application/yaml", text, key: None, labels: Vec::new() }
}
