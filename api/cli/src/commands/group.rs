//! `tenure group`: groups of users, for whose members seats of approvals may be.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    output,
    resources::{self, kinds::GROUPS, watch_list::WatchArgs},
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::json;

/// What is done about groups.
#[derive(Debug, Subcommand)]
pub(crate) enum Group {
    /// List them all, with their members.
    List(WatchArgs),
    /// Make one; policies name it `group:NAME`.
    Add {
        /// Its name.
        name: String,
        /// A user who belongs to it; may be repeated.
        #[arg(long = "member", value_name = "USER")]
        members: Vec<String>,
    },
    /// Put a user into one.
    Join {
        /// Its name.
        name: String,
        /// The user.
        user: String,
    },
    /// Take a user out of one.
    Leave {
        /// Its name.
        name: String,
        /// The user.
        user: String,
    },
    /// Remove one; seats that name it stay empty.
    Remove {
        /// Its name.
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
