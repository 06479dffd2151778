//! `tenure tenant`.

use crate::cli::{
    client::{Body, Client},
    command::{Common, Tenant},
    execution::start,
    files, output,
    resources::{self, TENANTS},
};
use crate::exit::{Exit, Failure};
use serde_json::json;
use std::io::{self, IsTerminal as _};

pub(in crate::cli) async fn run(common: &Common, command: Tenant) -> Result<Exit, Failure> {
    match command {
        Tenant::Show { name } => resources::show(common, &TENANTS, &name).await,
        Tenant::Offboard { name, basis, reference, reason, confirm, starting } => {
            if !starting.dry_run {
                confirmed(&name, confirm)?;
            }
            let body = json!({ "tenant": name, "basis": basis, "reference": reference, "reason": reason });
            start::start(common, "/v1/offboardings", "", Body::json(&body), starting).await
        }
        Tenant::Classify { name, asset, class, reason } => {
            let body = json!({ "tenant": name, "asset": asset, "class": class, "reason": reason });
            let said = Client::of(common)?.post("/v1/classifications", Body::json(&body)).await?.value()?;
            output::one(common.output, &said)?;
            Ok(Exit::Done)
        }
        Tenant::Onboard { file, starting } => {
            let body =
                Body { media: "application/yaml", text: files::read(&file)?, key: None, labels: Vec::new() };
            start::start(common, "/v1/tenants", "", body, starting).await
        }
    }
}

/// That this tenant is meant, whose data is destroyed at the end: its name is said twice.
fn confirmed(name: &str, confirm: Option<String>) -> Result<(), Failure> {
    let again = match confirm {
        Some(again) => again,
        None if !io::stdin().is_terminal() => {
            let why = format!(
                "--confirm: the data of {name} will be destroyed, and nobody can be asked here: look with --dry-run, then add `--confirm {name}`"
            );
            return Err(Failure::new(Exit::Usage, why));
        }
        None => {
            output::note(&format!("the data of {name} will be destroyed. Type its name to go on:"));
            let mut line = String::new();
            io::stdin().read_line(&mut line).map_err(Failure::other)?;
            line.trim().to_owned()
        }
    };
    if again == name {
        return Ok(());
    }
    let why = format!("--confirm: {again:?} is not {name}; nothing was asked for");
    Err(Failure::new(Exit::Usage, why))
}
