//! Kinds that are listed below another resource: deliveries of channels, occurrences of schedules. `get` lists those of all parents.

use crate::{
    client::{Client, escape, filters},
    common::Common,
    resources::{
        kinds::{CHANNELS, Kind, SCHEDULES},
        watch_list::{self, WatchArgs},
    },
};
use program::exit::{Exit, Failure};
use serde_json::Value;

/// A kind below another. The first column names the parent, the second is the id.
pub(crate) struct NestedKind {
    /// Its path is relative to the address of the parent.
    pub(crate) kind: &'static Kind,
    /// The kind of the parent.
    of: &'static Kind,
    /// The field with the name of the parent.
    by: &'static str,
    /// Query parameters of several requests that together return the complete list.
    parts: &'static [&'static str],
}

pub(crate) const DELIVERIES: NestedKind = NestedKind {
    kind: &Kind {
        path: "deliveries",
        columns: &[
            ("channel", "/channel"),
            ("id", "/id"),
            ("state", "/state"),
            ("event", "/event"),
            ("severity", "/severity"),
            ("tenant", "/tenant"),
            ("tries", "/tries"),
            ("due", "/due"),
            ("settled", "/settled_at"),
            ("answer", "/answer"),
        ],
    },
    of: &CHANNELS,
    by: "channel",
    parts: &["state=waiting", "state=settled", "state=dead"],
};

pub(crate) const OCCURRENCES: NestedKind = NestedKind {
    kind: &Kind {
        path: "occurrences",
        columns: &[
            ("schedule", "/schedule"),
            ("nominal", "/nominal"),
            ("fate", "/fate"),
            ("at", "/at"),
            ("execution", "/execution"),
            ("outcome", "/outcome"),
            ("origin", "/origin"),
            ("reason", "/reason"),
        ],
    },
    of: &SCHEDULES,
    by: "schedule",
    parts: &[],
};

impl NestedKind {
    /// Returns all items that match the filters `wanted`.
    pub(crate) async fn everything(&self, client: &Client, wanted: &[String]) -> Result<Vec<Value>, Failure> {
        let whose = |filter: &&String| filter.split_once('=').is_some_and(|(name, _)| name == self.by);
        let (whose, rest): (Vec<_>, Vec<_>) = wanted.iter().partition(whose);
        let rest: Vec<String> = rest.into_iter().cloned().collect();
        let names: Vec<String> = match whose.last().and_then(|filter| filter.split_once('=')) {
            Some((_, name)) => vec![name.to_owned()],
            None => self.others(client).await?,
        };
        let (query, mut all) = (filters(&rest)?, Vec::new());
        // A filter on the field of a part replaces the parts.
        let parted =
            |part: &&str| !rest.iter().any(|filter| filter.split('=').next() == part.split('=').next());
        let parts: Vec<String> =
            self.parts.iter().filter(|part| parted(part)).map(|part| format!("&{part}")).collect();
        let parts = if parts.is_empty() { vec![String::new()] } else { parts };
        for name in names {
            let path = format!("{}/{}/{}", self.of.path, escape(&name), self.kind.path);
            for part in &parts {
                all.extend(client.all(&path, &format!("{part}{query}")).await?);
            }
        }
        Ok(all)
    }

    /// Returns the names of the parents.
    async fn others(&self, client: &Client) -> Result<Vec<String>, Failure> {
        let place = self.of.columns.first().map_or("/id", |(_, place)| *place);
        let others = client.all(self.of.path, "").await?;
        let name = |other: &Value| other.pointer(place).and_then(Value::as_str).map(ToOwned::to_owned);
        Ok(others.iter().filter_map(name).collect())
    }

    /// Returns one item. Its id is the id of the parent, a slash, and its own id.
    pub(crate) async fn one(&self, client: &Client, singular: &str, id: &str) -> Result<Value, Failure> {
        let Some((other, own)) = id.split_once('/') else {
            let why = format!("{id:?} is not the id of a {singular}; write {}/ID", self.by.to_uppercase());
            return Err(Failure::new(Exit::Usage, why));
        };
        let place = self.kind.columns.get(1).map_or("/id", |(_, place)| *place);
        let all = self.everything(client, &[format!("{}={other}", self.by)]).await?;
        let found = all.into_iter().find(|item| item.pointer(place).and_then(Value::as_str) == Some(own));
        found.ok_or_else(|| Failure::new(Exit::NotFound, format!("{singular} {id} does not exist")))
    }
}

/// Lists the items, once or with `--watch`.
pub(crate) async fn list(
    common: &Common,
    within: &NestedKind,
    wanted: &[String],
    watching: &WatchArgs,
) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let all = async || within.everything(&client, wanted).await;
    watch_list::show(common, watching, within.kind.columns, all).await
}
