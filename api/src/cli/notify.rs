//! `tenure notify`: through what people are told, and what became of it.

use super::{
    args::Common,
    client::{Body, Client, escape},
    output::{self, Column},
    things::{self, CHANNELS},
    watch_list::{self, Watching},
};
use crate::exit::{Exit, Failure};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

/// What is done about channels.
#[derive(Debug, Subcommand)]
pub(crate) enum Notify {
    /// List the channels, with what waits on each and what is dead.
    Channels(Watching),
    /// Send a notification that says nothing, and show what came of it; exit 1 if it was not taken.
    Test {
        /// The channel.
        channel: String,
    },
    /// List what became of what a channel was to tell.
    Deliveries {
        /// The channel.
        channel: String,
        /// Which: those to be sent, those that came to a good end (the latest first), or those that nobody took.
        #[arg(long, value_enum, default_value_t = Which::Settled)]
        state: Which,
        #[command(flatten)]
        watching: Watching,
    },
    /// Send dead letters again, from the first attempt on.
    Resend {
        /// The channel.
        channel: String,
        /// The delivery's id, as the list of dead letters has it.
        #[arg(required_unless_present = "all")]
        delivery: Option<String>,
        /// All dead letters of the channel.
        #[arg(long, conflicts_with = "delivery")]
        all: bool,
    },
}

/// Which deliveries are listed.
#[derive(Clone, Copy, Debug, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Which {
    /// To be sent.
    Waiting,
    /// Come to a good end.
    Settled,
    /// Taken by nobody.
    Dead,
}

const DELIVERIES: &[Column] = &[
    ("id", "/id"),
    ("state", "/state"),
    ("event", "/event"),
    ("severity", "/severity"),
    ("tenant", "/tenant"),
    ("tries", "/tries"),
    ("due", "/due"),
    ("settled", "/settled_at"),
    ("answer", "/answer"),
];

pub(super) async fn run(common: &Common, command: Notify) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let at = |channel: &str| format!("/v1/channels/{}", escape(channel));
    match command {
        Notify::Channels(watching) => return things::all(common, &CHANNELS, &watching).await,
        Notify::Test { channel } => {
            let tried =
                client.post(&format!("{}:test", at(&channel)), Body::json(&json!({}))).await?.value()?;
            output::one(common.output, &tried)?;
            let is_taken = tried.get("state").and_then(Value::as_str) == Some("delivered");
            return Ok(if is_taken { Exit::Done } else { Exit::Failed });
        }
        Notify::Deliveries { channel, state, watching } => {
            let (path, wanted) =
                (format!("{}/deliveries", at(&channel)), format!("&state={}", <&str>::from(state)));
            let all = async || client.all(&path, &wanted).await;
            return watch_list::show(common, &watching, DELIVERIES, all).await;
        }
        Notify::Resend { channel, delivery, all: _ } => {
            let ids = match delivery {
                Some(id) => vec![id],
                None => {
                    let dead = client.all(&format!("{}/deliveries", at(&channel)), "&state=dead").await?;
                    dead.iter().filter_map(|one| one.get("id")?.as_str().map(str::to_owned)).collect()
                }
            };
            for id in ids {
                let to = format!("{}/deliveries/{}:resend", at(&channel), escape(&id));
                client.post(&to, Body::json(&json!({}))).await?;
                output::done(common.output, "resent", &id)?;
            }
        }
    }
    Ok(Exit::Done)
}
