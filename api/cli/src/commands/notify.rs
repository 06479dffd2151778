//! `tenure notify`: notification channels and their deliveries.

use crate::{
    client::{Body, Client, escape},
    commands::receiver,
    common::Common,
    output::{self, Column, timestamps},
    resources::{
        self,
        kinds::CHANNELS,
        watch_list::{self, WatchArgs},
    },
};
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};

/// Notification commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Notify {
    /// List channels with waiting and dead deliveries.
    Channels(WatchArgs),
    /// Send a test notification; exit 1 if not delivered.
    Test {
        /// Channel.
        channel: String,
    },
    /// List the deliveries of a channel.
    Deliveries {
        /// Channel.
        channel: String,
        /// State [default: all].
        #[arg(long, value_enum)]
        state: Option<Which>,
        #[command(flatten)]
        watching: WatchArgs,
    },
    /// Show a delivery with its last attempts.
    Show {
        /// Channel.
        channel: String,
        /// Delivery id, as shown in the list.
        delivery: String,
    },
    /// Retry waiting deliveries now, except in quiet hours.
    Retry {
        #[command(flatten)]
        meant: Meant,
        /// All deliveries with a failed attempt.
        #[arg(long, conflicts_with = "delivery")]
        all: bool,
        /// Reason for the audit.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Discard waiting or dead deliveries.
    Discard {
        #[command(flatten)]
        meant: Meant,
        /// All dead deliveries of the channel.
        #[arg(long, conflicts_with = "delivery")]
        all: bool,
        /// Reason for the audit.
        #[arg(long)]
        reason: String,
    },
    /// Resend dead or lost deliveries as new ones.
    Resend {
        #[command(flatten)]
        meant: Meant,
        /// All dead deliveries of the channel.
        #[arg(long, conflicts_with_all = ["delivery", "since"])]
        all: bool,
        /// All deliveries delivered or dead since a time or span, such as `2h` (at most a week).
        #[arg(long, value_name = "TIME", conflicts_with = "delivery")]
        since: Option<String>,
        /// Reason for the audit.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Receive webhooks here and print them, for tests.
    Sink(receiver::Receiver),
}

/// The selected deliveries.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Meant {
    /// Channel.
    channel: String,
    /// Delivery id, as shown in the list.
    delivery: Option<String>,
}

/// The state of listed deliveries.
#[derive(Clone, Copy, Debug, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Which {
    /// Waiting to be sent.
    Waiting,
    /// Ended; the latest is first.
    Settled,
    /// Failed permanently.
    Dead,
}

impl Notify {
    /// Rejects a command that selects no delivery.
    fn named(&self) -> Result<(), Failure> {
        let (is_named, others) = match self {
            Self::Retry { meant, all, .. } | Self::Discard { meant, all, .. } => {
                (*all || meant.delivery.is_some(), "--all")
            }
            Self::Resend { meant, all, since, .. } => {
                (*all || since.is_some() || meant.delivery.is_some(), "--all or --since")
            }
            Self::Channels(_)
            | Self::Test { .. }
            | Self::Deliveries { .. }
            | Self::Show { .. }
            | Self::Sink(_) => {
                return Ok(());
            }
        };
        if is_named {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Usage,
            format!("name a delivery, or use {others}; `tenure notify deliveries` lists them"),
        ))
    }
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

pub(crate) async fn run(common: &Common, command: Notify) -> Result<Exit, Failure> {
    if let Notify::Sink(sink) = &command {
        return sink.run(common).await;
    }
    command.named()?;
    let client = Client::of(common)?;
    let at = |channel: &str| format!("/v1/channels/{}", escape(channel));
    match command {
        Notify::Channels(watching) => return resources::all(common, &CHANNELS, &watching).await,
        Notify::Test { channel } => {
            let tried =
                client.post(&format!("{}:test", at(&channel)), Body::json(&json!({}))).await?.value()?;
            output::one(common.output, &tried)?;
            let is_taken = tried.get("state").and_then(Value::as_str) == Some("delivered");
            return Ok(if is_taken { Exit::Done } else { Exit::Failed });
        }
        Notify::Deliveries { channel, state, watching } => {
            let path = format!("{}/deliveries", at(&channel));
            let states =
                state.map_or_else(|| vec![Which::Waiting, Which::Settled, Which::Dead], |one| vec![one]);
            let all = async || {
                let mut found = Vec::new();
                for state in &states {
                    found.extend(client.all(&path, &format!("&state={}", <&str>::from(*state))).await?);
                }
                Ok(found)
            };
            return watch_list::show(common, &watching, DELIVERIES, all).await;
        }
        Notify::Show { channel, delivery } => {
            let path = format!("{}/deliveries/{}", at(&channel), escape(&delivery));
            output::one(common.output, &client.get(&path).await?.value()?)?;
        }
        Notify::Retry { meant, all, reason } => {
            let ids = meant.ids(&client, &[Which::Waiting], |one| all && tries(one) > 0).await?;
            order(common, &client, (&meant.channel, ids), (":retry", "tried", &reason)).await?;
        }
        Notify::Discard { meant, all, reason } => {
            let ids = meant.ids(&client, &[Which::Dead], |_| all).await?;
            order(common, &client, (&meant.channel, ids), (":discard", "discarded", &reason)).await?;
        }
        Notify::Resend { meant, all, since, reason } => {
            let since = since.as_deref().map(timestamps::back).transpose()?;
            let lists: &[Which] =
                if since.is_some() { &[Which::Settled, Which::Dead] } else { &[Which::Dead] };
            let ids =
                meant.ids(&client, lists, |one| all || since.is_some_and(|since| later(one, since))).await?;
            order(common, &client, (&meant.channel, ids), (":resend", "resent", &reason)).await?;
        }
        Notify::Sink(_) => {}
    }
    Ok(Exit::Done)
}

/// Returns the number of attempts of a delivery.
fn tries(delivery: &Value) -> u64 {
    delivery.get("tries").and_then(Value::as_u64).unwrap_or_default()
}

/// Returns true if a delivery was delivered or died at `since` or later. Deliveries that were never sent, and tests, do not count.
fn later(delivery: &Value, since: DateTime<Utc>) -> bool {
    let said = |name: &str| delivery.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_sent = ["delivered", "dead"].contains(&said("state")) && said("event") != "channel.test";
    is_sent && timestamps::parse(said("settled_at")).is_some_and(|at| at >= since)
}

impl Meant {
    /// Returns the named delivery, or the deliveries of these lists that `wanted` accepts, in the order of their events.
    async fn ids(
        &self,
        client: &Client,
        lists: &[Which],
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Vec<String>, Failure> {
        if let Some(id) = &self.delivery {
            return Ok(vec![id.clone()]);
        }
        let mut ids = Vec::new();
        for which in lists {
            let path = format!("/v1/channels/{}/deliveries", escape(&self.channel));
            let found = client.all(&path, &format!("&state={}", <&str>::from(which))).await?;
            let found = found.iter().filter(|one| wanted(one));
            ids.extend(found.filter_map(|one| one.get("id")?.as_str().map(str::to_owned)));
        }
        // Ids begin with the time of the event.
        ids.sort();
        Ok(ids)
    }
}

/// Sends a command for each of these deliveries.
async fn order(
    common: &Common,
    client: &Client,
    (channel, ids): (&str, Vec<String>),
    (verb, done, reason): (&str, &str, &str),
) -> Result<(), Failure> {
    for id in ids {
        let path = format!("/v1/channels/{}/deliveries/{}{verb}", escape(channel), escape(&id));
        client.post(&path, Body::json(&json!({ "reason": reason }))).await?;
        output::done(common.output, done, &id)?;
    }
    Ok(())
}
