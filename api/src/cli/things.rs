//! Lists and single things: `tenure tenants list`, `tenure nodes show n-1`, and the like.

use super::{
    args::{Common, Things},
    client::{Client, escape, filters},
    output::{self, Column},
};
use crate::exit::{Exit, Failure};

/// A kind of thing: where it is served, and its columns.
pub(super) struct Kind {
    path: &'static str,
    columns: &'static [Column],
}

pub(super) const TENANTS: Kind = Kind {
    path: "/v1/tenants",
    columns: &[
        ("id", "/id"),
        ("state", "/state"),
        ("tier", "/tier"),
        ("isolation", "/isolation"),
        ("cluster", "/cluster"),
        ("created", "/created_at"),
    ],
};

pub(super) const CLUSTERS: Kind = Kind {
    path: "/v1/clusters",
    columns: &[
        ("id", "/id"),
        ("region", "/region"),
        ("kind", "/kind"),
        ("backend", "/backend"),
        ("simulated", "/simulated"),
        ("free/gpus", "/gpus"),
    ],
};

pub(super) const REGIONS: Kind = Kind {
    path: "/v1/regions",
    columns: &[("id", "/id"), ("jurisdiction", "/jurisdiction"), ("clusters", "/clusters")],
};

pub(super) const NODES: Kind = Kind {
    path: "/v1/nodes",
    columns: &[
        ("id", "/id"),
        ("cluster", "/cluster"),
        ("region", "/region"),
        ("model", "/gpu/model"),
        ("gpus", "/gpu/count"),
        ("state", "/state"),
        ("owner", "/owner"),
    ],
};

pub(super) const EXECUTIONS: Kind = Kind {
    path: "/v1/executions",
    columns: &[
        ("id", "/id"),
        ("workflow", "/workflow"),
        ("subject", "/subject"),
        ("state", "/state"),
        ("phase", "/phase"),
        ("reason", "/reason"),
        ("updated", "/updated_at"),
    ],
};

pub(super) const APPROVALS: Kind = Kind {
    path: "/v1/approvals",
    columns: &[
        ("id", "/id"),
        ("title", "/title"),
        ("asked for", "/wanted"),
        ("requested by", "/requested_by"),
        ("deadline", "/deadline"),
    ],
};

pub(super) const USERS: Kind = Kind {
    path: "/v1/users",
    columns: &[("name", "/name"), ("roles", "/roles"), ("tenant", "/tenant"), ("added", "/created_at")],
};

/// Lists all of a kind that the filters accept.
pub(super) async fn list(common: &Common, kind: &Kind, wanted: &[String]) -> Result<Exit, Failure> {
    let items = Client::of(common)?.all(kind.path, &filters(wanted)?).await?;
    output::list(common.output, items, kind.columns)?;
    Ok(Exit::Done)
}

/// Shows one of a kind.
pub(super) async fn show(common: &Common, kind: &Kind, id: &str) -> Result<Exit, Failure> {
    let path = format!("{}/{}", kind.path, escape(id));
    let item = Client::of(common)?.get(&path).await?.value()?;
    output::one(common.output, &item)?;
    Ok(Exit::Done)
}

/// `list` or `show`.
pub(super) async fn run(common: &Common, kind: &Kind, things: Things) -> Result<Exit, Failure> {
    match things {
        Things::List { filters } => list(common, kind, &filters).await,
        Things::Show { id } => show(common, kind, &id).await,
    }
}
