//! `tenure reclaim`: plans and starts the reclaim of lent GPUs.

use crate::{
    client::{Body, Client, block_on, escape},
    commands::lab,
    common::{Common, Format},
    dry_run::DryRun,
    execution::start::{self, StartArgs},
    output,
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Reclaim commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Reclaim {
    /// Preview the victims of a reclaim.
    Plan(Recall),
    /// Start a reclaim of lent GPUs.
    Start {
        #[command(flatten)]
        recall: Recall,
        #[command(flatten)]
        starting: StartArgs,
    },
    /// Explain the verdict on each candidate.
    Explain {
        /// Reclaim id; without it, plan a new reclaim.
        id: Option<String>,
        #[command(flatten)]
        recall: Recall,
    },
    /// Plan published cases and compare victims offline.
    Cases {
        /// Cases (JSON in the format of docs/examples/reclaim-cases.json); `-` reads standard input.
        file: PathBuf,
    },
}

/// The cause and the scope of a reclaim.
#[derive(Debug, Args)]
pub(crate) struct Recall {
    /// Tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Queued workload that needs GPUs.
    #[arg(long, group = "cause")]
    workload: Option<String>,
    /// Workspace that uses more than its quota.
    #[arg(long, requires = "amount", group = "cause")]
    workspace: Option<String>,
    /// Amount to reclaim from the workspace.
    #[arg(long, requires = "workspace", conflicts_with_all = ["workload", "overdue"])]
    amount: Option<u64>,
    /// Reclaim overdue loans.
    #[arg(long, group = "cause")]
    overdue: bool,
    /// Resource, such as `gpu/H100` [default: that of the workload].
    #[arg(long)]
    resource: Option<String>,
}

impl Recall {
    fn body(&self) -> Result<Body, Failure> {
        if self.tenant.is_none() || (self.workload.is_none() && self.workspace.is_none() && !self.overdue) {
            let why = "use --tenant T with --workload W, --workspace W --amount N, or --overdue";
            return Err(Failure::new(Exit::Usage, why));
        }
        Ok(Body::json(&json!({
            "tenant": self.tenant, "workload": self.workload, "workspace": self.workspace,
            "amount": self.amount, "overdue": self.overdue, "resource": self.resource,
        })))
    }
}

const RECLAIMS: &str = "/v1/reclaims";

pub(crate) fn run(common: &Common, command: Reclaim) -> Result<Exit, Failure> {
    match command {
        Reclaim::Plan(recall) => block_on(async {
            start::preview_start(common, RECLAIMS, "", recall.body()?, DryRun::default()).await
        }),
        Reclaim::Start { recall, starting } => {
            block_on(async { start::start(common, RECLAIMS, "", recall.body()?, starting).await })
        }
        Reclaim::Explain { id, recall } => block_on(explain(common, id.as_deref(), recall)),
        Reclaim::Cases { file } => lab::compare(common, &file),
    }
}

/// Shows every candidate and its verdict.
async fn explain(common: &Common, id: Option<&str>, recall: Recall) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let (shown, place) = match id {
        Some(id) => {
            let item = client.get(&format!("/v1/executions/{}", escape(id))).await?.value()?;
            (item, "/data/planned")
        }
        None => (client.post(&format!("{RECLAIMS}:plan"), recall.body()?).await?.value()?, ""),
    };
    let part =
        |paths: [&str; 2]| paths.iter().find_map(|path| shown.pointer(&format!("{place}{path}"))).cloned();
    let Some(explanation) = part(["/explanation", "/plan/placement/explanation"]).filter(Value::is_object)
    else {
        let why = "no plan exists: the execution is not a reclaim, or it has not planned yet";
        return Err(Failure::new(Exit::NotFound, why));
    };
    if common.output != Format::Table {
        output::one(common.output, &explanation)?;
        return Ok(Exit::Done);
    }
    let said = |value: Option<Value>| value.as_ref().and_then(Value::as_str).map(ToOwned::to_owned);
    if let Some(verdict) = said(part(["/verdict", "/verdict"])) {
        output::say(&format!("verdict: {verdict}\n"))?;
    }
    if let Some(why) = said(part(["/why", "/why"])) {
        output::say(&format!("reason: {why}\n"))?;
    }
    for part in ["contested", "attempts"] {
        let told = explanation.get(part).cloned().unwrap_or_default();
        output::say(&output::outline(&json!({ part: told })))?;
    }
    let candidates = explanation.get("candidates").and_then(Value::as_array).cloned().unwrap_or_default();
    let columns = [
        ("workload", "/workload"),
        ("workspace", "/workspace"),
        ("verdict", "/verdict"),
        ("reason", "/reason"),
        ("filter", "/filter"),
        ("until", "/until"),
    ];
    output::list(Format::Table, candidates, &columns)?;
    if explanation.get("cut") == Some(&Value::Bool(true)) {
        output::note("the list is cut; more candidates were evaluated");
    }
    Ok(Exit::Done)
}
