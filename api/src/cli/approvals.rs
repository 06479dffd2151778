//! `tenure approvals`. A decision names the plan that was read: the one shown, unless a digest is given.

use super::{
    args::{Approvals, Common, Decide, Format},
    client::{Body, Client, escape},
    output,
    things::{self, APPROVALS},
    watch,
};
use crate::exit::{Exit, Failure};
use serde_json::{Value, json};

pub(super) async fn run(common: &Common, command: Approvals) -> Result<Exit, Failure> {
    match command {
        Approvals::List => things::list(common, &APPROVALS, &[]).await,
        Approvals::Show(case) => {
            let case = read(&Client::of(common)?, &case.id).await?;
            match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, &case)?,
                Format::Table => output::say(&page(&case))?,
            }
            Ok(Exit::Done)
        }
        Approvals::Approve(decide) => cast(common, "approve", decide).await,
        Approvals::Refuse(decide) => cast(common, "refuse", decide).await,
    }
}

async fn read(client: &Client, id: &str) -> Result<Value, Failure> {
    client.get(&format!("/v1/approvals/{}", escape(id))).await?.value()
}

/// An approval for reading: who asks, who must agree, and what will be done.
pub(crate) fn page(case: &Value) -> String {
    let part = |name: &str| case.get(name).and_then(Value::as_str).unwrap_or("-");
    let plan = |name: &str| case.pointer(&format!("/plan/{name}")).cloned().unwrap_or(Value::Null);
    let mut text = format!(
        "{}  {}\nexecution:    {}\nrequested by: {} (who may not decide)\nasked for:    {}\nopened:       {}\ndeadline:     {}\ndigest:       {}\n",
        part("id"),
        part("title"),
        part("execution"),
        part("requested_by"),
        part("wanted"),
        part("opened_at"),
        part("deadline"),
        part("digest"),
    );
    if let Some(ruling) = case.get("ruling").and_then(Value::as_str) {
        text.push_str(&format!("ruling:       {ruling}\n"));
    }
    for vote in case.get("votes").and_then(Value::as_array).into_iter().flatten() {
        let said = |name: &str| vote.get(name).and_then(Value::as_str).unwrap_or_default();
        text.push_str(&format!(
            "vote:         {} by {}: {}\n",
            said("verdict"),
            said("person"),
            said("reason")
        ));
    }
    if plan("decides").get("simulated") == Some(&Value::Bool(true)) {
        text.push_str("simulated:    nothing real is behind the cluster\n");
    }
    text.push_str("\nwhat is decided\n");
    text.push_str(&inset(&plan("decides")));
    text.push_str("\nproposed placement (may still change within what is decided)\n");
    text.push_str(&inset(&brief_placement(plan("placement"))));
    text
}

/// The placement without the account of how it was chosen.
fn brief_placement(mut placement: Value) -> Value {
    for part in ["proposed", "short", "claimed"] {
        if let Some(fields) = placement.get_mut(part).and_then(Value::as_object_mut) {
            fields.remove("considered");
        }
    }
    if let Some(fields) = placement.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    placement
}

fn inset(value: &Value) -> String {
    output::outline(value).lines().map(|line| format!("  {line}\n")).collect()
}

async fn cast(common: &Common, verb: &str, decide: Decide) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let case = read(&client, &decide.id).await?;
    let stands = case.get("digest").and_then(Value::as_str).unwrap_or_default();
    if decide.digest.is_none() {
        output::note(&page(&case));
    }
    let digest = decide.digest.as_deref().unwrap_or(stands);
    let id = case.get("id").and_then(Value::as_str).unwrap_or_default();
    let body = json!({ "digest": digest, "reason": decide.reason });
    let item =
        client.post(&format!("/v1/approvals/{}:{verb}", escape(id)), Body::json(&body)).await?.value()?;
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &item)?,
        Format::Table => {
            let execution = item.get("id").and_then(Value::as_str).unwrap_or_default();
            output::say(&format!("{execution} {}\n", watch::progress(&item)))?;
        }
    }
    Ok(Exit::Done)
}
