//! `tenure repair` and `tenure proposals`: repairs of parked executions, and their confirmation by a second person.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    dry_run::DryRun,
    execution::{start::FollowArgs, status},
    output::{self, preview},
    resources::{self, kinds::PROPOSALS, watch_list::WatchArgs},
};
use clap::{Args, Subcommand};
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Repair commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Repair {
    /// Edit the data and retry.
    Edit {
        #[command(flatten)]
        own: RepairArgs,
        /// Field and new value (JSON or text), such as `request.entitlement.gpus=8` (repeatable).
        #[arg(long, value_name = "FIELD=VALUE")]
        set: Vec<String>,
        /// File with a JSON merge patch; `-` reads standard input.
        #[arg(long, value_name = "FILE")]
        patch: Option<PathBuf>,
    },
    /// Record that a slot's action was done.
    Done {
        #[command(flatten)]
        own: RepairArgs,
        /// Slot, from 0.
        #[arg(long, default_value_t = 0)]
        slot: u32,
        /// Output of the action (JSON).
        #[arg(long, default_value = "null")]
        output_json: String,
        /// Evidence: a link, a ticket or a sentence.
        #[arg(long)]
        evidence: String,
    },
    /// Record that a slot's action was not done.
    NotDone {
        #[command(flatten)]
        own: RepairArgs,
        /// Slot, from 0.
        #[arg(long, default_value_t = 0)]
        slot: u32,
        /// Evidence: a link, a ticket or a sentence.
        #[arg(long)]
        evidence: String,
    },
    /// Skip a step, or the undo of a slot.
    Skip {
        #[command(flatten)]
        own: RepairArgs,
        /// Slot whose undo to skip [default: skip the step].
        #[arg(long)]
        slot: Option<u32>,
    },
    /// Replace the undo of a slot.
    UndoWith {
        #[command(flatten)]
        own: RepairArgs,
        /// Slot, from 0.
        #[arg(long, default_value_t = 0)]
        slot: u32,
        /// Name of the undo.
        undo: String,
        /// Arguments of the undo (JSON).
        arguments: String,
    },
}

/// Options of every repair.
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Execution id, or a unique prefix.
    id: String,
    /// Reason for the journal.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    following: FollowArgs,
}

/// Commands on proposals, which need a second person.
#[derive(Debug, Subcommand)]
pub(crate) enum Proposals {
    /// List proposals that need a second person.
    List(WatchArgs),
    /// Show a proposal.
    Show {
        /// Proposal id.
        id: String,
    },
    /// Confirm another person's proposal and run it.
    Second {
        /// Proposal id.
        id: String,
    },
    /// Withdraw a proposal.
    Withdraw {
        /// Proposal id.
        id: String,
    },
}

pub(crate) async fn run(common: &Common, command: Repair) -> Result<Exit, Failure> {
    let (own, mut body) = match command {
        Repair::Edit { own, set, patch } => {
            (own, json!({ "kind": "edit", "patch": edits(&set, patch.as_deref())? }))
        }
        Repair::Done { own, slot, output_json, evidence } => {
            let output = parse("--output-json", &output_json)?;
            (own, json!({ "kind": "mark_done", "slot": slot, "output": output, "evidence": evidence }))
        }
        Repair::NotDone { own, slot, evidence } => {
            (own, json!({ "kind": "mark_not_done", "slot": slot, "evidence": evidence }))
        }
        Repair::Skip { own, slot } => (own, json!({ "kind": "skip", "slot": slot })),
        Repair::UndoWith { own, slot, undo, arguments } => {
            let arguments = parse("ARGUMENTS", &arguments)?;
            (own, json!({ "kind": "undo_with", "slot": slot, "undo": undo, "arguments": arguments }))
        }
    };
    if let Some(fields) = body.as_object_mut() {
        fields.insert("reason".into(), json!(own.reason));
    }
    let path = format!("/v1/executions/{}:repair", escape(&own.id));
    let client = Client::of(common)?;
    if own.dry_run.is_wanted() {
        foreseen(common, client.foresee(&path, Body::json(&body)).await?.value()?)?;
        // A repair always changes the state of the execution, so something changes.
        return Ok(own.dry_run.exit(true));
    }
    let item = client.post(&path, Body::json(&body)).await?.value()?;
    own.following.from(common, &client, &item).await
}

/// Shows the preview of a repair. Text output has the changes instead of the data.
fn foreseen(common: &Common, mut item: Value) -> Result<(), Failure> {
    if common.output != Format::Table {
        return output::one(common.output, &item);
    }
    let changes = item.as_object_mut().and_then(|fields| {
        fields.remove("data");
        fields.remove("changes")
    });
    let mut text = output::outline(&item);
    let changes = changes.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    text.push_str(if changes.is_empty() { "data: no field changes\n" } else { "data:\n" });
    for change in changes {
        let part = |name: &str| change.get(name).cloned().unwrap_or_default();
        let field = change.get("field").and_then(Value::as_str).unwrap_or_default();
        text.push_str(&preview::drawn(&preview::change(field, &part("from"), &part("to"))));
    }
    text.push_str("nothing was changed\n");
    output::say(&text)
}

fn parse(name: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::new(Exit::Usage, format!("{name}: {error}")))
}

/// Returns the merge patch from the options.
fn edits(set: &[String], patch: Option<&Path>) -> Result<Value, Failure> {
    let mut edits = match patch {
        Some(file) => parse(&file.display().to_string(), &files::read(file)?)?,
        None => Value::Object(Map::new()),
    };
    for one in set {
        let (path, value) = one.split_once('=').ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                format!("--set {one}: write FIELD=VALUE, such as `request.entitlement.gpus=8`"),
            )
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        let names: Vec<&str> = path.split('.').collect();
        put(&mut edits, &names, value);
    }
    if edits.as_object().is_none_or(Map::is_empty) {
        return Err(Failure::new(
            Exit::Usage,
            "nothing to edit: use --set FIELD=VALUE or --patch FILE".to_owned(),
        ));
    }
    Ok(edits)
}

/// Sets the value at the path and creates the objects on it.
fn put(into: &mut Value, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *into = value;
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    if let Some(fields) = into.as_object_mut() {
        put(fields.entry(*first).or_insert(Value::Null), rest, value);
    }
}

pub(crate) async fn proposals(common: &Common, command: Proposals) -> Result<Exit, Failure> {
    let client = || Client::of(common);
    match command {
        Proposals::List(watching) => resources::search(common, &PROPOSALS, None, &[], &watching).await,
        Proposals::Show { id } => {
            output::one(
                common.output,
                &client()?.get(&format!("/v1/proposals/{}", escape(&id))).await?.value()?,
            )?;
            Ok(Exit::Done)
        }
        Proposals::Second { id } => {
            let path = format!("/v1/proposals/{}:second", escape(&id));
            status::print_status(common, &client()?.post(&path, Body::json(&json!({}))).await?.value()?)
        }
        Proposals::Withdraw { id } => {
            let path = format!("/v1/proposals/{}:withdraw", escape(&id));
            client()?.post(&path, Body::json(&json!({}))).await?;
            output::note(&format!("proposal {id} is withdrawn"));
            Ok(Exit::Done)
        }
    }
}
