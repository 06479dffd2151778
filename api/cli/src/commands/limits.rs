//! `tenure limits`: how much may be asked of a key, and whether at all.

use crate::{
    client::{Body, Client, escape},
    common::Common,
    output,
    resources::{self, kinds::LIMITS, watch_list::WatchArgs},
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::{Map, Value, json};

/// What is done about limits.
#[derive(Debug, Subcommand)]
pub(crate) enum Limits {
    /// List limits and the keys that have something to tell: who is inside, who waits, what is closed.
    List(WatchArgs),
    /// Show one key, or what a pattern of keys allows.
    Show {
        /// The key, such as `cluster/eu-1`.
        key: String,
    },
    /// Set what is allowed at a key, in place of what was.
    Set(Set),
    /// Take a limit back.
    Delete {
        /// The key or pattern that it was set for.
        key: String,
    },
    /// Let nothing more in at a key. What is inside goes on.
    Close {
        /// The key, such as `cluster/eu-1`.
        key: String,
        /// Why; whoever waits there reads it.
        #[arg(long)]
        reason: String,
        /// For how long, like `30m` [default: until it is opened].
        #[arg(long = "for", value_name = "SPAN")]
        span: Option<String>,
    },
    /// Open a key that a person, an answer or a breaker has closed.
    Open {
        /// The key.
        key: String,
    },
}

/// A limit to be set; what is left out is not limited.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The key, such as `cluster/eu-1`; with a `*` at its end each key that it matches, such as `tenant/*`.
    key: String,
    /// Attempts at work at once.
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    /// Attempts begun in a span of time, evenly spread, like `10/1m`.
    #[arg(long, value_name = "N/SPAN")]
    rate: Option<String>,
    /// So many at once after a quiet while [default: 1].
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u32>,
    /// Leave the key alone after so many failures in a row; 0 never does [default: 10 for clusters, never for others].
    #[arg(long, value_name = "N")]
    breaker_after: Option<u32>,
    /// For how long at first; twice as long each further time [default: 5s].
    #[arg(long, value_name = "SPAN")]
    breaker_span: Option<String>,
    /// But no longer than this [default: 30s].
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
