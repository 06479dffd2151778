//! `tenure quota`, `tenure sla`, `tenure capacity` and `tenure incident`: requests that change what stands.

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

/// What is done about quotas.
#[derive(Debug, Subcommand)]
pub(crate) enum Quota {
    /// Ask for another quota by a document.
    Request {
        /// The document (YAML): tenant, workspace, resource, by or to, reason; `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
        /// Go this way; what is asked for `by` an amount goes up unless said otherwise.
        #[arg(long, value_parser = ["increase", "decrease"])]
        direction: Option<String>,
        #[command(flatten)]
        starting: StartArgs,
    },
    /// Ask for a quota of so much, up or down.
    Set(Set),
}

/// A quota to be set.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Tenant and workspace, such as `acme/research`.
    id: String,
    /// Of what: `gpu/H100`, `gpu/H100/1g.10gb`, `cpu_milli`, `memory_mib`, `storage_gib` or `pods`.
    resource: String,
    /// How much, in the resource's unit.
    amount: u64,
    /// Why, for who decides.
    #[arg(long)]
    reason: String,
    /// What may be borrowed on top [default: as it is].
    #[arg(long)]
    borrowing_limit: Option<u64>,
    /// What is lent while idle [default: as it is].
    #[arg(long)]
    lending_limit: Option<u64>,
    /// When it ends by itself, like `2026-03-01T00:00:00Z`.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Ask for more than was bought, on purpose; needs --until.
    #[arg(long, requires = "until")]
    exception: bool,
    #[command(flatten)]
    starting: StartArgs,
}

/// What is done about service levels.
#[derive(Debug, Subcommand)]
pub(crate) enum Sla {
    /// Ask for another service level by a document.
    Change {
        /// The document (YAML): tenant, reason, and what is to change; `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
        #[command(flatten)]
        starting: StartArgs,
    },
}

/// What is done about capacity.
#[derive(Debug, Subcommand)]
pub(crate) enum Capacity {
    /// Say that a model runs short in a region: what policy lists is tried, mildest first.
    Short {
        /// The region.
        region: String,
        /// The model.
        model: String,
        /// GPUs that are waited for beside those on waitlists.
        #[arg(long, default_value_t = 0)]
        wanted: u32,
        /// What told of it.
        #[arg(long, default_value = "")]
        reason: String,
        #[command(flatten)]
        starting: StartArgs,
    },
}

/// What is done about incidents.
#[derive(Debug, Subcommand)]
pub(crate) enum Incident {
    /// Report one: it is contained first.
    Report {
        /// What it is.
        #[arg(value_parser = ["gpu_fault", "key_leak", "isolation_breach", "other"])]
        kind: String,
        /// The node of a GPU fault.
        #[arg(long)]
        node: Option<String>,
        /// The cluster whose key leaked.
        #[arg(long)]
        cluster: Option<String>,
        /// Whom the others concern; may be repeated.
        #[arg(long = "tenant")]
        tenants: Vec<String>,
        /// What kind of thing an `other` is, such as `sanitisation_failed`.
        #[arg(long)]
        what: Option<String>,
        /// What was seen.
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
                let why = format!("{:?} names no workspace: write TENANT/WORKSPACE", set.id);
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
