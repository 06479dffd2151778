//! `tenure approvals`. A vote names the plan by its digest: the digest that is given, or that of the plan that the command shows.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    execution::status,
    output::{self, preview::brief_placement},
    resources::{
        self,
        kinds::{APPROVALS, REVIEWS},
        watch_list::WatchArgs,
    },
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};

/// Approval commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List open approvals.
    List(WatchArgs),
    /// Show an approval with plan, votes and history.
    Show(ApprovalId),
    /// Approve the plan.
    Approve(Decision),
    /// Refuse the plan; --reason is required.
    Refuse(Decision),
    /// Withdraw a vote before the approval is decided.
    Withdraw {
        /// Approval id, or the id of its execution.
        id: String,
        /// Reason for the journal.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Break glass: approve without other votes (--reason required).
    BreakGlass(BreakGlass),
    /// List break-glass decisions to review.
    Reviews {
        /// List reviewed decisions instead.
        #[arg(long)]
        done: bool,
    },
    /// Review a break-glass decision of another person.
    Review {
        /// Approval id, or the id of its execution.
        id: String,
        /// Result of the review.
        #[arg(long)]
        note: String,
    },
}

/// An approval.
#[derive(Debug, Args)]
pub(crate) struct ApprovalId {
    /// Approval id, or the id of its execution (the latest approval).
    pub(crate) id: String,
}

/// A vote.
#[derive(Debug, Args)]
pub(crate) struct Decision {
    /// Approval id, or the id of its execution.
    pub(crate) id: String,
    /// Reason for the journal.
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
    /// Digest of the plan that you read [default: the plan shown first].
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// Vote for a user who delegated to you.
    #[arg(long = "for", value_name = "NAME")]
    pub(crate) on_behalf_of: Option<String>,
}

/// A break-glass decision.
#[derive(Debug, Args)]
pub(crate) struct BreakGlass {
    /// Approval id, or the id of its execution.
    pub(crate) id: String,
    /// Reason why the approvers cannot decide in time.
    #[arg(long)]
    pub(crate) reason: String,
    /// Digest of the plan that you read [default: the plan shown first].
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
}

pub(crate) async fn run(common: &Common, command: Approvals) -> Result<Exit, Failure> {
    match command {
        Approvals::List(watching) => resources::search(common, &APPROVALS, None, &[], &watching).await,
        Approvals::Show(case) => {
            let case = read(&Client::of(common)?, &case.id).await?;
            match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, &case)?,
                Format::Table => output::say(&page(&case))?,
            }
            Ok(Exit::Done)
        }
        Approvals::Approve(decide) => cast(common, "approve", decide).await,
        // Checked before the plan is shown, so that the error is not lost below it.
        Approvals::Refuse(decide) if decide.reason.trim().is_empty() => {
            let why = "a refusal needs --reason, which the requester reads";
            Err(Failure::new(Exit::Usage, why.to_owned()))
        }
        Approvals::Refuse(decide) => cast(common, "refuse", decide).await,
        Approvals::BreakGlass(BreakGlass { id, reason, digest }) => {
            cast(common, "break-glass", Decision { id, reason, digest, on_behalf_of: None }).await
        }
        Approvals::Withdraw { id, reason } => {
            let client = Client::of(common)?;
            let path = format!("/v1/approvals/{}:withdraw", escape(&id));
            let item = client.post(&path, Body::json(&json!({ "reason": reason }))).await?.value()?;
            say_progress(common, &item)
        }
        Approvals::Reviews { done } => {
            let wanted = if done { vec!["state=done".to_owned()] } else { Vec::new() };
            resources::list(common, &REVIEWS, &wanted).await
        }
        Approvals::Review { id, note } => {
            let path = format!("/v1/approvals/{}:review", escape(&id));
            let item =
                Client::of(common)?.post(&path, Body::json(&json!({ "note": note }))).await?.value()?;
            output::one(common.output, &item)?;
            Ok(Exit::Done)
        }
    }
}

async fn read(client: &Client, id: &str) -> Result<Value, Failure> {
    client.get(&format!("/v1/approvals/{}", escape(id))).await?.value()
}

/// Returns an approval as text: the requester, the required approvals, and the plan.
pub(crate) fn page(case: &Value) -> String {
    let case = &output::harmless_value(case.clone());
    let part = |name: &str| case.get(name).and_then(Value::as_str).unwrap_or("-");
    let plan = |name: &str| case.pointer(&format!("/plan/{name}")).cloned().unwrap_or(Value::Null);
    let mut text = format!(
        "{}  {}\nexecution:    {}\nrequested by: {} (may not vote)\nrequired:     {}\nopened:       {}\ndeadline:     {}\ndigest:       {}\n",
        part("id"),
        part("title"),
        part("execution"),
        part("requested_by"),
        status::required_approvals(part("wanted")),
        part("opened_at"),
        part("deadline"),
        part("digest"),
    );
    if let Some(ruling) = case.get("ruling").and_then(Value::as_str) {
        let effect = case.get("takes_effect").and_then(Value::as_str);
        let effect = effect.map(|when| format!("; takes effect {when}")).unwrap_or_default();
        text.push_str(&format!("ruling:       {ruling}{effect}\n"));
    }
    if let Some(name) = case.get("broken_by").and_then(Value::as_str) {
        text.push_str(&format!("BREAK GLASS:  {name} decided without the required approvals\n"));
    }
    if part("separation") == "not_enforced" {
        text.push_str("separation:   not enforced: votes count from users who may be the same person\n");
    }
    text.push_str(&people(case));
    if plan("decides").get("simulated") == Some(&Value::Bool(true)) {
        text.push_str("simulated:    the cluster is simulated\n");
    }
    text.push_str("\nplan\n");
    text.push_str(&inset(&plan("decides")));
    text.push_str("\nproposed placement (may change within the plan)\n");
    text.push_str(&inset(&brief_placement(plan("placement"))));
    text
}

/// Returns the votes and the history.
fn people(case: &Value) -> String {
    let list = |name: &str| case.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut text = String::new();
    for vote in list("votes") {
        let said = |name: &str| vote.get(name).and_then(Value::as_str).unwrap_or_default();
        let whose = match said("on_behalf_of") {
            "" => String::new(),
            other => format!(" for {other}"),
        };
        text.push_str(&format!(
            "vote:         {} by {}{whose}: {}\n",
            said("verdict"),
            said("person"),
            said("reason")
        ));
        text.push_str(&standing(vote));
    }
    for happened in list("history") {
        let said = |name: &str| happened.get(name).and_then(Value::as_str).unwrap_or_default();
        let what = match said("event") {
            "escalated" => format!("escalated, now required: {}", status::required_approvals(said("to"))),
            "extended" => format!("extended until {}", said("until")),
            "withdrawn" => {
                format!("vote of {} withdrawn by {}: {}", said("person"), said("by"), said("reason"))
            }
            "voided" => "the plan changed, so earlier votes do not count".into(),
            other => other.to_owned(),
        };
        text.push_str(&format!("{}  {what}\n", said("at")));
    }
    text
}

/// Returns the origin of a voter's credential, and why the voter may not be a separate person.
fn standing(vote: &Value) -> String {
    let said = |name: &str| vote.get(name).and_then(Value::as_str);
    let mut text = String::new();
    if let Some(claim) = said("claim") {
        let by = said("issued_by").map(|by| format!(" (by {by})")).unwrap_or_default();
        let user = said("created_by").map(|by| format!(", user created by {by}")).unwrap_or_default();
        text.push_str(&format!("              credential: {claim}{by}{user}\n"));
    }
    if let Some(why) = said("not_separate") {
        text.push_str(&format!("              separation not enforced: {why}\n"));
    }
    if vote.get("removed") == Some(&Value::Bool(true)) {
        text.push_str("              the user was removed after the vote\n");
    }
    text
}

fn inset(value: &Value) -> String {
    output::outline(value).lines().map(|line| format!("  {line}\n")).collect()
}

async fn cast(common: &Common, verb: &str, decide: Decision) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let case = read(&client, &decide.id).await?;
    let stands = case.get("digest").and_then(Value::as_str).unwrap_or_default();
    if decide.digest.is_none() {
        output::note(&page(&case));
    }
    let digest = decide.digest.as_deref().unwrap_or(stands);
    let id = case.get("id").and_then(Value::as_str).unwrap_or_default();
    let mut body = json!({ "digest": digest, "reason": decide.reason });
    if let (Some(name), Some(fields)) = (decide.on_behalf_of, body.as_object_mut()) {
        fields.insert("on_behalf_of".into(), name.into());
    }
    let item =
        client.post(&format!("/v1/approvals/{}:{verb}", escape(id)), Body::json(&body)).await?.value()?;
    say_progress(common, &item)
}

/// Shows the status of the execution after a vote.
fn say_progress(common: &Common, item: &Value) -> Result<Exit, Failure> {
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, item)?,
        Format::Table => {
            let execution = item.get("id").and_then(Value::as_str).unwrap_or_default();
            output::say(&format!("{execution} {}\n", status::progress(item)))?;
            status::paused_ruling(item).iter().for_each(|held| output::note(held));
        }
    }
    Ok(Exit::Done)
}
