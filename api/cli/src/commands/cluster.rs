//! `tenure cluster`: the key of a cluster, which one tenant owns or several share.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    output,
    secret::SecretTo,
};
use clap::{Args, Subcommand};
use engine::{Clock as _, SystemClock};
use program::{
    encoding::hex,
    exit::{Exit, Failure},
};
use serde_json::{Value, json};

/// Cluster commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Show, rotate and revoke a cluster key.
    #[command(subcommand)]
    Key(Key),
}

/// Commands on the key of a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Show the key's version, age and author.
    Show {
        /// The cluster.
        cluster: String,
    },
    /// Issue a new key and print it once.
    Rotate(Rotate),
    /// Revoke all valid keys now.
    Revoke {
        /// Cluster id.
        cluster: String,
        /// Reason for the audit.
        #[arg(long)]
        reason: String,
    },
}

/// Options of a rotation.
#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// Cluster id.
    cluster: String,
    /// Time during which the earlier key stays valid, such as `1h`; `0` ends it now [default: 1h; at most 7d].
    #[arg(long, value_name = "SPAN")]
    overlap: Option<String>,
    /// End the newest key now because it was lost; keep the earlier one.
    #[arg(long)]
    lost: bool,
    /// Reason for the audit.
    #[arg(long)]
    reason: Option<String>,
    /// Idempotency key [default: generated].
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    to: SecretTo,
}

pub(crate) async fn run(common: &Common, Cluster::Key(command): Cluster) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let at = |cluster: &str, what: &str| format!("/v1/clusters/{}/key{what}", escape(cluster));
    let item = match command {
        Key::Show { cluster } => client.get(&at(&cluster, "")).await?.value()?,
        Key::Revoke { cluster, reason } => {
            let body = Body::json(&json!({ "reason": reason }));
            client.post(&at(&cluster, ":revoke"), body).await?.value()?
        }
        Key::Rotate(asked) => return rotate(common, &client, &at(&asked.cluster, ":rotate"), asked).await,
    };
    output::one(common.output, &item)?;
    Ok(Exit::Done)
}

async fn rotate(common: &Common, client: &Client, path: &str, asked: Rotate) -> Result<Exit, Failure> {
    let body = json!({
        "overlap": asked.overlap, "lost": asked.lost, "reason": asked.reason.unwrap_or_default(),
    });
    let key = asked.idempotency_key.unwrap_or_else(|| hex::encode(&SystemClock.entropy()));
    let place = asked.to.prepare()?;
    let issued = client.post(path, Body { key: Some(key), ..Body::json(&body) }).await?.value()?;
    let said = |pointer: &str| issued.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if matches!(common.output, Format::Table) {
        output::note(&match issued.get("earlier").filter(|earlier| !earlier.is_null()) {
            Some(_) => format!("the earlier key is valid until {}", said("/earlier/holds_until")),
            None => "no earlier key is valid".to_owned(),
        });
    }
    let version = issued.get("version").and_then(Value::as_u64).unwrap_or_default();
    place.hand_over(common, &format!("key {version} of cluster {}", asked.cluster), &issued, "key")?;
    Ok(Exit::Done)
}
