//! `tenure store held|hold|release`: asks a server about the hold of its store.

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

/// Whether the store is held, and if so what it would perform.
pub(crate) async fn show(common: &Common) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let store = client.get("/v1/store").await?.value()?;
    let held = store.get("held").filter(|held| !held.is_null());
    let Some(held) = held else {
        match common.output {
            Format::Table => output::say("the store is not held; work goes on\n")?,
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
         {} pieces of work wait: {} call the outside, {} decide within the store, {} let a moment pass, {} do something else or nothing.\n\
         What was scheduled before the hold is asked about first; {parked} would park if nobody can tell whether it was done.\n\
         To let it go: tenure store release --since {since} --reason WHY\n\n",
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
    // Also where it was held before: then for what it was held first.
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
        Format::Table => output::say("the clock has not jumped; nothing waited for a confirmation\n")?,
        format @ (Format::Json | Format::Yaml) => output::one(format, &told)?,
    }
    Ok(Exit::Done)
}

/// How the store stands now, in a sentence.
fn said(common: &Common, store: &Value) -> Result<Exit, Failure> {
    let text = |name: &str| store.pointer(&format!("/held/{name}")).and_then(Value::as_str);
    match common.output {
        Format::Table => match (text("since"), text("why")) {
            (Some(since), Some(why)) => output::say(&format!("the store is held since {since}: {why}\n"))?,
            _ => output::say("the store is not held; work goes on\n")?,
        },
        format @ (Format::Json | Format::Yaml) => output::one(format, store)?,
    }
    Ok(Exit::Done)
}
