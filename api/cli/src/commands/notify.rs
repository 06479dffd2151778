//! `tenure notify`: through what people are told, and what became of it.

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

/// What is done about channels.
#[derive(Debug, Subcommand)]
pub(crate) enum Notify {
    /// List the channels, with what waits on each and what is dead.
    Channels(WatchArgs),
    /// Send a notification that says nothing, and show what came of it; exit 1 if it was not taken.
    Test {
        /// The channel.
        channel: String,
    },
    /// List what became of what a channel was to tell.
    Deliveries {
        /// The channel.
        channel: String,
        /// Only those to be sent, those that came to an end (the latest first), or those that nobody took [default: all, in this order].
        #[arg(long, value_enum)]
        state: Option<Which>,
        #[command(flatten)]
        watching: WatchArgs,
    },
    /// Show a delivery, with its last attempts.
    Show {
        /// The channel.
        channel: String,
        /// The delivery's id, as the lists have it.
        delivery: String,
    },
    /// Try now what waits; quiet hours are kept.
    Retry {
        #[command(flatten)]
        meant: Meant,
        /// All that was tried and not taken.
        #[arg(long, conflicts_with = "delivery")]
        all: bool,
        /// Why, for the audit.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Give up what waits, or is dead: nobody is told.
    Discard {
        #[command(flatten)]
        meant: Meant,
        /// All dead letters of the channel.
        #[arg(long, conflicts_with = "delivery")]
        all: bool,
        /// Why, for the audit.
        #[arg(long)]
        reason: String,
    },
    /// Send again what is dead, or what was delivered to a receiver that lost it; each as a new delivery.
    Resend {
        #[command(flatten)]
        meant: Meant,
        /// All dead letters of the channel.
        #[arg(long, conflicts_with_all = ["delivery", "since"])]
        all: bool,
        /// All that was delivered or died since then: a moment, or a span like `2h`, at most a week back.
        #[arg(long, value_name = "TIME", conflicts_with = "delivery")]
        since: Option<String>,
        /// Why, for the audit.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Take webhooks on this machine and print a line for each, to try a channel without a service.
    Sink(receiver::Receiver),
}

/// Which deliveries are meant.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Meant {
    /// The channel.
    channel: String,
    /// The delivery's id, as the lists have it.
    delivery: Option<String>,
}

/// Which deliveries are listed.
#[derive(Clone, Copy, Debug, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Which {
    /// To be sent.
    Waiting,
    /// Come to an end.
    Settled,
    /// Taken by nobody.
    Dead,
}

impl Notify {
    /// Refuses an order that names no delivery, before anything is done.
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
            format!("name a delivery, or say {others}: `tenure notify deliveries`"),
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

/// How often a delivery was tried.
fn tries(delivery: &Value) -> u64 {
    delivery.get("tries").and_then(Value::as_u64).unwrap_or_default()
}

/// Whether a delivery was delivered or died at `since` or later. What was never sent, or is only a test, is not sent again.
fn later(delivery: &Value, since: DateTime<Utc>) -> bool {
    let said = |name: &str| delivery.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_sent = ["delivered", "dead"].contains(&said("state")) && said("event") != "channel.test";
    is_sent && timestamps::parse(said("settled_at")).is_some_and(|at| at >= since)
}

impl Meant {
    /// The one that is named, or those of these lists that `wanted` takes, in the order in which they were told first.
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
        // Their names begin with the moment that they tell of.
        ids.sort();
        Ok(ids)
    }
}

/// Gives an order about each of these deliveries.
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
