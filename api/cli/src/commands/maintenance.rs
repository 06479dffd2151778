//! `tenure store held|hold|release|confirm-clock`: the hold of a server's store, and its clock.

use crate::{
    client::{Body, Client},
    common::{Common, Format},
    output,
};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};

const COLUMNS: [output::Column; 8] = [
    ("execution", "/execution"),
    ("workflow", "/workflow"),
    ("subject", "/subject"),
    ("state", "/state"),
    ("does", "/does"),
    ("action", "/action"),
    ("untold", "/untold"),
    ("due", "/due"),
];

/// Shows whether the store is held, and the work that would be performed.
pub(crate) async fn show(common: &Common) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let store = client.get("/v1/store").await?.value()?;
    let held = store.get("held").filter(|held| !held.is_null());
    let Some(held) = held else {
        match common.output {
            Format::Table => output::say("the store is not held\n")?,
            format @ (Format::Json | Format::Yaml) => output::one(format, &store)?,
        }
        return Ok(Exit::Done);
    };
    let pending = client.all("/v1/store/pending", "").await?;
    match common.output {
        Format::Table => {
            output::say(&told(held, &pending))?;
            output::list(common.output, pending, &COLUMNS)?;
        }
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &json!({ "store": store, "pending": pending }))?;
        }
    }
    Ok(Exit::AwaitsApproval)
}

fn told(held: &Value, pending: &[Value]) -> String {
    let text = |name: &str| held.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
    let count = |does: &str| pending.iter().filter(|one| one.get("does") == Some(&json!(does))).count();
    let parked = pending.iter().filter(|one| one.get("untold") == Some(&json!("parked"))).count();
    let since = text("since");
    format!(
        "held since {since}: {}\n\
         {} queued tasks: {} call other systems, {} decide within the store, {} are timers, {} are of other kinds.\n\
         The outcome of tasks from before the hold is checked first; {parked} executions park if it cannot be determined.\n\
         To release the store: tenure store release --since {since} --reason WHY\n\n",
        text("why"),
        pending.len(),
        count("calls"),
        count("decides"),
        count("rings"),
        count("tells") + count("nothing") + count("unknown"),
    )
}

pub(crate) async fn hold(common: &Common, reason: &str) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let store = client.post("/v1/store:hold", Body::json(&json!({ "reason": reason }))).await?.value()?;
    // If the store was held before, the answer has the reason of the earlier hold.
    said(common, &store)
}

pub(crate) async fn release(common: &Common, since: &str, reason: &str) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let body = json!({ "since": since, "reason": reason });
    let store = client.post("/v1/store:release", Body::json(&body)).await?.value()?;
    said(common, &store)
}

pub(crate) async fn confirm_clock(common: &Common, reason: &str) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let told = client.post("/v1/clock:confirm", Body::json(&json!({ "reason": reason }))).await?.value()?;
    let text = |name: &str| told.get(name).and_then(Value::as_str).unwrap_or("?");
    match common.output {
        Format::Table if told.get("confirmed") == Some(&Value::Bool(true)) => {
            let (from, to) = (text("from"), text("to"));
            output::say(&format!("the clock is confirmed after its jump from {from} to {to}\n"))?;
        }
        Format::Table => output::say("the clock has not jumped; no confirmation is needed\n")?,
        format @ (Format::Json | Format::Yaml) => output::one(format, &told)?,
    }
    Ok(Exit::Done)
}

/// Shows whether the store is held.
fn said(common: &Common, store: &Value) -> Result<Exit, Failure> {
    let text = |name: &str| store.pointer(&format!("/held/{name}")).and_then(Value::as_str);
    match common.output {
        Format::Table => match (text("since"), text("why")) {
            (Some(since), Some(why)) => output::say(&format!("the store is held since {since}: {why}\n"))?,
            _ => output::say("the store is not held\n")?,
        },
        format @ (Format::Json | Format::Yaml) => output::one(format, store)?,
    }
    Ok(Exit::Done)
}
