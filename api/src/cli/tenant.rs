//! `tenure tenant`.

use super::{
    args::{Common, Format, Tenant},
    client::{Body, Client},
    executions::at_rest,
    files, output,
    things::{self, TENANTS},
    watch,
};
use crate::{
    exit::{Exit, Failure},
    hex,
};
use engine::{Clock as _, SystemClock};
use serde_json::Value;

pub(super) async fn run(common: &Common, command: Tenant) -> Result<Exit, Failure> {
    match command {
        Tenant::Show { name } => things::show(common, &TENANTS, &name).await,
        Tenant::Onboard { file, dry_run: true, .. } => plan(common, files::read(&file)?).await,
        Tenant::Onboard { file, dry_run: false, wait, timeout, idempotency_key } => {
            let text = files::read(&file)?;
            onboard(common, text, wait, timeout.as_deref(), idempotency_key).await
        }
    }
}

/// What would be decided and done.
async fn plan(common: &Common, text: String) -> Result<Exit, Failure> {
    let body = Body { media: "application/yaml", text, key: None };
    let preview = Client::of(common)?.post("/v1/tenants:plan", body).await?.value()?;
    match common.output {
        Format::Json => output::one(Format::Json, &preview)?,
        Format::Table => output::say(&preview_page(&preview))?,
    }
    let rejected = preview.pointer("/decision/verdict").and_then(Value::as_str) == Some("rejected");
    Ok(if rejected { Exit::Refused } else { Exit::Done })
}

fn preview_page(preview: &Value) -> String {
    let part = |path: &str| preview.pointer(path).cloned().unwrap_or(Value::Null);
    let verdict = part("/decision/verdict");
    let mut text = format!(
        "{}\nverdict: {}\n",
        part("/plan/title").as_str().unwrap_or_default(),
        verdict.as_str().unwrap_or_default()
    );
    for reason in part("/decision/reasons").as_array().into_iter().flatten() {
        let said = |name: &str| reason.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        text.push_str(&format!("  {:12} {}: {}\n", said("verdict"), said("rule"), said("detail")));
    }
    text.push_str("what would be decided\n");
    text.push_str(&output::outline(&part("/plan/decides")));
    text.push_str("proposed placement\n");
    text.push_str(&output::outline(&part("/plan/placement")));
    text.push_str("nothing was changed\n");
    text
}

async fn onboard(
    common: &Common,
    text: String,
    wait: bool,
    timeout: Option<&str>,
    key: Option<String>,
) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let key = key.unwrap_or_else(|| {
        let drawn = hex::encode(&SystemClock.entropy());
        output::note(&format!("idempotency key: {drawn}"));
        drawn
    });
    let body = Body { media: "application/yaml", text, key: Some(key) };
    let answer = client.post("/v1/tenants", body).await?;
    let item = answer.value()?;
    if answer.replayed {
        output::note("this was asked for before; here is what was started then");
    }
    if let Some(secret) = &answer.cluster_key {
        output::note(&format!("key of the tenant's own cluster, shown this once: {secret}"));
    }
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    if wait {
        output::note(&format!("execution {id}"));
        let (item, exit) = watch::wait(&client, &id, timeout).await?;
        return at_rest(common, &item, exit);
    }
    match common.output {
        Format::Json => output::one(Format::Json, &item)?,
        Format::Table => output::say(&format!("{id} {}\n", watch::progress(&item)))?,
    }
    Ok(Exit::Done)
}
