//! `tenure limits`: limits on concurrent work and rates, by key.

use crate::{
    client::{Body, Client, escape},
    common::Common,
    output,
    resources::{self, kinds::LIMITS, watch_list::WatchArgs},
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::{Map, Value, json};

/// Limit commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Limits {
    /// List limits, and keys in use, queued or closed.
    List(WatchArgs),
    /// Show a key or the limit of a pattern.
    Show {
        /// Key, such as `cluster/eu-1`.
        key: String,
    },
    /// Set or replace the limit of a key.
    Set(Set),
    /// Delete a limit.
    Delete {
        /// Key or pattern of the limit.
        key: String,
    },
    /// Close a key to new work; running work continues.
    Close {
        /// Key, such as `cluster/eu-1`.
        key: String,
        /// Reason, shown to queued work.
        #[arg(long)]
        reason: String,
        /// Duration, such as `30m` [default: until opened].
        #[arg(long = "for", value_name = "SPAN")]
        span: Option<String>,
    },
    /// Open a closed key.
    Open {
        /// Key.
        key: String,
    },
}

/// The limit to set. Options that are not given set no limit.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Key, such as `cluster/eu-1`, or pattern, such as `tenant/*`.
    key: String,
    /// Largest number of concurrent attempts.
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    /// Highest rate of attempts, such as `10/1m`.
    #[arg(long, value_name = "N/SPAN")]
    rate: Option<String>,
    /// Largest burst after an idle time [default: 1].
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u32>,
    /// Failures in a row that open the circuit breaker; 0 never does [default: 10 for clusters, else never].
    #[arg(long, value_name = "N")]
    breaker_after: Option<u32>,
    /// First pause of the circuit breaker, doubled each time [default: 5s].
    #[arg(long, value_name = "SPAN")]
    breaker_span: Option<String>,
    /// Longest pause of the circuit breaker [default: 30s].
    #[arg(long, value_name = "SPAN")]
    breaker_cap: Option<String>,
}

impl Set {
    fn body(&self) -> Value {
        let mut body = Map::new();
        let mut say =
            |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
        say("key", Some(json!(self.key)));
        say("concurrency", self.concurrency.map(Into::into));
        say("rate", self.rate.clone().map(Into::into));
        say("burst", self.burst.map(Into::into));
        let named = self.breaker_after.is_some() || self.breaker_span.is_some() || self.breaker_cap.is_some();
        let breaker =
            json!({ "after": self.breaker_after, "span": self.breaker_span, "cap": self.breaker_cap });
        say("breaker", named.then_some(breaker));
        Value::Object(body)
    }
}

pub(crate) async fn run(common: &Common, command: Limits) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let at = |key: &str, verb: &str| format!("/v1/limits/{}{verb}", escape(key));
    match command {
        Limits::List(watching) => return resources::all(common, &LIMITS, &watching).await,
        Limits::Show { key } => output::one(common.output, &client.get(&at(&key, "")).await?.value()?)?,
        Limits::Set(set) => {
            let answer = client.post("/v1/limits", Body::json(&set.body())).await?;
            output::one(common.output, &answer.value()?)?;
        }
        Limits::Delete { key } => {
            client.delete(&at(&key, "")).await?;
            output::done(common.output, "deleted", &key)?;
        }
        Limits::Close { key, reason, span } => {
            let body = json!({ "reason": reason, "for": span });
            let closed = client.post(&at(&key, ":close"), Body::json(&body)).await?.value()?;
            output::one(common.output, &closed)?;
            if let Some(warning) = closed.get("warning").and_then(Value::as_str) {
                output::note(&format!("warning: {warning}"));
            }
        }
        Limits::Open { key } => {
            client.post(&at(&key, ":open"), Body::json(&json!({}))).await?;
            output::done(common.output, "opened", &key)?;
        }
    }
    Ok(Exit::Done)
}
