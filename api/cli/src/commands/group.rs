//! `tenure group`: groups of users that policies name as approvers.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    output,
    resources::{self, kinds::GROUPS, watch_list::WatchArgs},
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::json;

/// Group commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Group {
    /// List groups with their members.
    List(WatchArgs),
    /// Create a group; policies name it `group:NAME`.
    Add {
        /// Group name.
        name: String,
        /// Member (repeatable).
        #[arg(long = "member", value_name = "USER")]
        members: Vec<String>,
    },
    /// Add a user to a group.
    Join {
        /// Group name.
        name: String,
        /// User.
        user: String,
    },
    /// Remove a user from a group.
    Leave {
        /// Group name.
        name: String,
        /// User.
        user: String,
    },
    /// Remove a group.
    ///
    /// Approvals that require the group can no longer be given.
    Remove {
        /// Group name.
        name: String,
    },
}

pub(crate) async fn run(common: &Common, command: Group) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let group = match command {
        Group::List(watching) => return resources::search(common, &GROUPS, None, &[], &watching).await,
        Group::Add { name, members } => {
            let body = json!({ "name": name, "members": members });
            client.post("/v1/groups", Body::json(&body)).await?.value()?
        }
        Group::Join { name, user } => {
            let path = format!("/v1/groups/{}:join", escape(&name));
            client.post(&path, Body::json(&json!({ "user": user }))).await?.value()?
        }
        Group::Leave { name, user } => {
            let path = format!("/v1/groups/{}:leave", escape(&name));
            client.post(&path, Body::json(&json!({ "user": user }))).await?.value()?
        }
        Group::Remove { name } => {
            client.delete(&format!("/v1/groups/{}", escape(&name))).await?;
            match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, &json!({ "removed": name }))?,
                Format::Table => output::say(&format!("{name} removed\n"))?,
            }
            return Ok(Exit::Done);
        }
    };
    output::one(common.output, &group)?;
    Ok(Exit::Done)
}
