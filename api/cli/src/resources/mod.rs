//! Lists and single resources: `tenure tenants list`, `tenure nodes show n-1`, and others.

pub(crate) mod kinds;
pub(crate) mod nested;
pub(crate) mod watch_list;

use crate::{
    client::{Client, escape, filters},
    common::Common,
    output,
    resources::{
        kinds::{ENGINES, Kind, columns},
        watch_list::WatchArgs,
    },
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::Value;

/// Subcommands that list all resources of a kind, or show one.
#[derive(Debug, Subcommand)]
pub(crate) enum ListOrShow {
    /// List all.
    List {
        /// Filter by a field, such as `state=active` (repeatable).
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
    /// Show one by id.
    Show {
        /// The id, as shown in the list.
        id: String,
    },
}

/// Lists all resources of a kind.
pub(super) async fn all(common: &Common, kind: &Kind, watching: &WatchArgs) -> Result<Exit, Failure> {
    search(common, kind, None, &[], watching).await
}

/// Lists the resources of a kind that match the filters.
pub(super) async fn list(common: &Common, kind: &Kind, wanted: &[String]) -> Result<Exit, Failure> {
    search(common, kind, None, wanted, &WatchArgs::ONCE).await
}

/// Lists the resources that match the filters and `filter`, a query in the language of `docs/search.md`. Can watch the list.
pub(super) async fn search(
    common: &Common,
    kind: &Kind,
    filter: Option<&str>,
    wanted: &[String],
    watching: &WatchArgs,
) -> Result<Exit, Failure> {
    let said = filter.map(|filter| format!("&filter={}", escape(filter))).unwrap_or_default();
    let query = format!("{said}{}", filters(wanted)?);
    let client = Client::of(common)?;
    watch_list::show(common, watching, &columns(kind), async || client.all(kind.path, &query).await).await
}

/// Lists the servers that share the store.
pub(super) async fn engines(common: &Common, watching: &WatchArgs) -> Result<Exit, Failure> {
    search(common, &ENGINES, None, &[], watching).await
}

/// Shows one resource.
pub(super) async fn show(common: &Common, kind: &Kind, id: &str) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    output::one(common.output, &read(&client, kind, id).await?)?;
    Ok(Exit::Done)
}

/// Reads one resource. If the id does not exist, the error suggests the nearest one.
pub(super) async fn read(client: &Client, kind: &Kind, id: &str) -> Result<Value, Failure> {
    // Ids that name a tenant have parts: `acme/research`.
    let path = format!("{}/{}", kind.path, id.split('/').map(escape).collect::<Vec<_>>().join("/"));
    match client.get(&path).await {
        Ok(answer) => answer.value(),
        Err(failure) if failure.exit == Exit::NotFound => Err(suggest_id(client, kind, id, failure).await),
        Err(failure) => Err(failure),
    }
}

/// Adds the nearest id that the caller may list to the failure.
pub(super) async fn suggest_id(client: &Client, kind: &Kind, id: &str, mut failure: Failure) -> Failure {
    let listed = client.get(&format!("{}?limit=1000", kind.path)).await;
    let items = listed.and_then(|answer| answer.value()).unwrap_or_default();
    let place = kind.columns.first().map_or("/id", |(_, place)| *place);
    let items = items.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let known = items.iter().filter_map(|item| item.pointer(place).and_then(Value::as_str));
    if let Some(near) = engine::nearest(id, known) {
        failure.message.push_str(&format!("\ndid you mean {}?", output::sanitize(&near)));
        if let Some(fields) = failure.problem.as_mut().and_then(Value::as_object_mut) {
            fields.insert("did_you_mean".into(), near.into());
        }
    }
    failure
}

/// Runs `list` or `show`.
pub(super) async fn run(common: &Common, kind: &Kind, things: ListOrShow) -> Result<Exit, Failure> {
    match things {
        ListOrShow::List { filters, watching } => search(common, kind, None, &filters, &watching).await,
        ListOrShow::Show { id } => show(common, kind, &id).await,
    }
}
