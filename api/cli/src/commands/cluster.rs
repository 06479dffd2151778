//! `tenure cluster`: the key by which a cluster is known, a tenant's own or one that tenants share.

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

/// What is done about a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// See and change the key of a cluster.
    #[command(subcommand)]
    Key(Key),
}

/// What is done about its key.
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Show which key it has, since when and by whom, and whether an earlier one still holds. Never the key itself.
    Show {
        /// The cluster.
        cluster: String,
    },
    /// Issue the next key, and print it: it is shown once. The one before holds for a while.
    Rotate(Rotate),
    /// End its key now, and an earlier one that still holds.
    Revoke {
        /// The cluster.
        cluster: String,
        /// Why, for the audit.
        #[arg(long)]
        reason: String,
    },
}

/// How the next key takes the place of the present one.
#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// The cluster.
    cluster: String,
    /// How long the key before holds beside the next one, like `1h`; `0` ends it at once [default: 1h; at most 7d].
    #[arg(long, value_name = "SPAN")]
    overlap: Option<String>,
    /// The newest key was never handed on: it ends at once, and the one before it holds on.
    #[arg(long)]
    lost: bool,
    /// Why, for the audit.
    #[arg(long)]
    reason: Option<String>,
    /// The same key asks for the same once [default: drawn].
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
            Some(_) => format!("the key before holds until {}", said("/earlier/holds_until")),
            None => "no earlier key holds".to_owned(),
        });
    }
    let version = issued.get("version").and_then(Value::as_u64).unwrap_or_default();
    place.hand_over(common, &format!("key {version} of cluster {}", asked.cluster), &issued, "key")?;
    Ok(Exit::Done)
}
