//! `tenure user`: manages users and their tokens.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    output::{self, Column},
    resources::{self, kinds::USERS, watch_list::WatchArgs},
    secret::SecretTo,
};
use api::Role;
use clap::Subcommand;
use engine::{Clock as _, SystemClock};
use program::{
    encoding::hex,
    exit::{Exit, Failure},
};
use serde_json::{Value, json};

/// The columns of a list of tokens.
const TOKENS: &[Column] = &[
    ("name", "/name"),
    ("id", "/id"),
    ("state", "/state"),
    ("created", "/created_at"),
    ("ends", "/ends_at"),
    ("last used", "/last_used_at"),
    ("claim", "/claim"),
];

/// User commands.
#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// Add a user and print their token once.
    Add {
        /// Unique name.
        name: String,
        /// Role (repeatable).
        #[arg(long = "role", value_enum, required = true)]
        roles: Vec<Role>,
        /// Restrict the user to this tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// The user is a service; it may not vote on approvals.
        #[arg(long)]
        service: bool,
        /// End of the token: a span such as `90d` or `P90D`, or a time [default: never].
        #[arg(long, value_name = "END")]
        expires: Option<String>,
        #[command(flatten)]
        to: SecretTo,
    },
    /// List users.
    List(WatchArgs),
    /// Remove a user and revoke their tokens.
    Remove {
        /// User name.
        name: String,
    },
    /// Print a one-time enrolment code for a user.
    Enrol {
        /// User.
        name: String,
        /// End of the code: a span such as `12h` or `P1D`, or a time [default: 3d].
        #[arg(long, value_name = "END")]
        expires: Option<String>,
        #[command(flatten)]
        to: SecretTo,
    },
    /// Manage the tokens of a user.
    #[command(subcommand)]
    Token(Tokens),
}

/// Token commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Tokens {
    /// Create a token and print it once.
    Add {
        /// User.
        user: String,
        /// Unique token name, such as `ci`.
        name: String,
        /// End of the token: a span such as `90d` or `P90D`, or a time [default: never].
        #[arg(long, value_name = "END")]
        expires: Option<String>,
        #[command(flatten)]
        to: SecretTo,
    },
    /// Replace a token; print it once.
    Rotate {
        /// User.
        user: String,
        /// Token id or name.
        #[arg(value_name = "TOKEN")]
        which: String,
        #[command(flatten)]
        to: SecretTo,
    },
    /// List tokens with their end and last use.
    List {
        /// User.
        user: String,
    },
    /// Revoke a token.
    Remove {
        /// User.
        user: String,
        /// Token id or name.
        // `token` is the name of the global option.
        #[arg(value_name = "TOKEN")]
        which: String,
    },
}

pub(crate) async fn run(common: &Common, command: User) -> Result<Exit, Failure> {
    match command {
        User::List(watching) => return resources::search(common, &USERS, None, &[], &watching).await,
        User::Add { name, roles, tenant, service, expires, to } => {
            let place = to.prepare()?;
            let kind = if service { "service" } else { "person" };
            let body =
                json!({ "name": name, "roles": roles, "tenant": tenant, "kind": kind, "expires": expires });
            let added = Client::of(common)?.post("/v1/users", Body::json(&body)).await?.value()?;
            if let Some(warning) = added.get("warning").and_then(Value::as_str) {
                output::note(&format!("warning: {warning}"));
            }
            place.hand_over(common, &format!("token of {name}"), &added, "token")?;
        }
        User::Remove { name } => {
            let client = Client::of(common)?;
            // A caller who may remove users may not be allowed to list schedules.
            let schedules = client.all("/v1/schedules", "").await.unwrap_or_default();
            client.delete(&format!("/v1/users/{}", escape(&name))).await?;
            removed(common, &name)?;
            if let Some(warning) = failing_without(&schedules, &name) {
                output::note(&warning);
            }
        }
        User::Enrol { name, expires, to } => {
            let place = to.prepare()?;
            let path = format!("/v1/users/{}:enrol", escape(&name));
            let body = Body::json(&json!({ "expires": expires }));
            let made = Client::of(common)?.post(&path, body).await?.value()?;
            if let (Some(end), Format::Table) = (made.get("ends_at").and_then(Value::as_str), common.output) {
                output::note(&format!("valid once, until {end}: `tenure login --enrol CODE`"));
            }
            place.hand_over(common, &format!("code of {name}"), &made, "code")?;
        }
        User::Token(command) => return tokens(common, command).await,
    }
    Ok(Exit::Done)
}

async fn tokens(common: &Common, command: Tokens) -> Result<Exit, Failure> {
    let at = |user: &str, rest: &str| format!("/v1/users/{}{rest}", escape(user));
    match command {
        Tokens::List { user } => {
            let listed = Client::of(common)?.get(&at(&user, "/tokens")).await?.value()?;
            let items = listed.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
            output::list(common.output, items, TOKENS)?;
        }
        Tokens::Add { user, name, expires, to } => {
            let place = to.prepare()?;
            let body = json!({ "name": name, "expires": expires });
            let key = Some(hex::encode(&SystemClock.entropy()));
            let body = Body { key, ..Body::json(&body) };
            let issued = Client::of(common)?.post(&at(&user, ":token"), body).await?.value()?;
            if let Some(end) = issued.get("ends_at").and_then(Value::as_str) {
                output::note(&format!("the token ends at {end}"));
            }
            place.hand_over(common, &format!("token {name} of {user}"), &issued, "token")?;
        }
        Tokens::Rotate { user, which, to } => {
            let place = to.prepare()?;
            let path = at(&user, &format!("/tokens/{}:rotate", escape(&which)));
            let body = Body { key: Some(hex::encode(&SystemClock.entropy())), ..Body::json(&json!({})) };
            let issued = Client::of(common)?.post(&path, body).await?.value()?;
            place.hand_over(common, &format!("token {which} of {user}"), &issued, "token")?;
        }
        Tokens::Remove { user, which } => {
            let path = at(&user, &format!("/tokens/{}", escape(&which)));
            Client::of(common)?.delete(&path).await?;
            removed(common, &which)?;
        }
    }
    Ok(Exit::Done)
}

/// Names the schedules that start executions on behalf of `user`. They fail without the user.
fn failing_without(schedules: &[Value], user: &str) -> Option<String> {
    let text = |row: &Value, field: &str| row.get(field).and_then(Value::as_str).map(ToOwned::to_owned);
    let theirs = schedules.iter().filter(|row| text(row, "set_by").as_deref() == Some(user));
    let names: Vec<String> = theirs.filter_map(|row| text(row, "id").or_else(|| text(row, "name"))).collect();
    (!names.is_empty()).then(|| {
        format!(
            "these schedules run on behalf of {user} and fail from now on: {}; set each again with `tenure schedules set NAME`, or delete it",
            names.join(", ")
        )
    })
}

fn removed(common: &Common, what: &str) -> Result<(), Failure> {
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &json!({ "removed": what })),
        Format::Table => output::say(&format!("{what} removed\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_user_names_the_schedules_that_fail_without_them() {
        let schedules = [
            json!({ "id": "nightly", "set_by": "walt" }),
            json!({ "id": "weekly", "set_by": "olga" }),
            json!({ "id": "reclaim", "set_by": null }),
        ];
        let warning = failing_without(&schedules, "walt").unwrap();
        assert!(warning.contains("fail from now on: nightly;"), "{warning}");
        assert_eq!(failing_without(&schedules, "rita"), None);
    }
}
