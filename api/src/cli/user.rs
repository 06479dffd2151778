//! `tenure user`.

use super::{
    args::{Common, Format, User},
    client::{Body, Client, escape},
    output,
    things::{self, USERS},
};
use crate::exit::{Exit, Failure};
use serde_json::{Value, json};

pub(super) async fn run(common: &Common, command: User) -> Result<Exit, Failure> {
    match command {
        User::List(watching) => return things::search(common, &USERS, None, &[], &watching).await,
        User::Add { name, roles, tenant } => {
            let body = json!({ "name": name, "roles": roles, "tenant": tenant });
            let added = Client::of(common)?.post("/v1/users", Body::json(&body)).await?.value()?;
            if let Some(warning) = added.get("warning").and_then(Value::as_str) {
                output::note(&format!("warning: {warning}"));
            }
            match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, &added)?,
                // The token alone on standard output, so that it can be taken into a variable.
                Format::Table => {
                    output::note(&format!("token of {name}, shown this once:"));
                    let token = added.get("token").and_then(Value::as_str).unwrap_or_default();
                    output::say(&format!("{token}\n"))?;
                }
            }
        }
        User::Remove { name } => {
            Client::of(common)?.delete(&format!("/v1/users/{}", escape(&name))).await?;
            match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, &json!({ "removed": name }))?,
                Format::Table => output::say(&format!("{name} removed\n"))?,
            }
        }
    }
    Ok(Exit::Done)
}
