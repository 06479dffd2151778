//! Lists and single things: `tenure tenants list`, `tenure nodes show n-1`, and the like.

pub(crate) mod nested;
pub(crate) mod watch_list;

use crate::cli::{
    client::{Client, escape, filters},
    command::{Common, Things},
    output::{self, Column, style},
    resources::watch_list::Watching,
};
use crate::exit::{Exit, Failure};
use serde_json::Value;

/// A kind of thing: where it is served, and its columns.
pub(super) struct Kind {
    pub(super) path: &'static str,
    pub(super) columns: &'static [Column],
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

pub(super) const AGENTS: Kind = Kind {
    path: "/v1/agents",
    columns: &[
        ("id", "/id"),
        ("version", "/version"),
        ("present", "/present"),
        ("silent ms", "/silent_ms"),
        ("waiting", "/waiting"),
        ("handed over", "/handed_over"),
        ("fit", "/seen/health/fit"),
        ("open to", "/seen/clients"),
    ],
};

pub(super) const WORKSPACES: Kind = Kind {
    path: "/v1/workspaces",
    columns: &[
        ("id", "/id"),
        ("class", "/class"),
        ("used/nominal", "/use"),
        ("admitting", "/admitting"),
        ("waiting", "/waiting"),
        ("since", "/waiting_since"),
    ],
};

pub(super) const QUOTAS: Kind = Kind {
    path: "/v1/quotas",
    columns: &[("id", "/id"), ("used/nominal", "/use"), ("version", "/version"), ("ends", "/ends/at")],
};

pub(super) const LOANS: Kind = Kind {
    path: "/v1/loans",
    columns: &[
        ("id", "/id"),
        ("lender", "/lender"),
        ("borrower", "/borrower"),
        ("amount", "/amount"),
        ("resource", "/resource"),
        ("workload", "/workload"),
        ("state", "/state"),
        ("due", "/due"),
    ],
};

pub(super) const RESERVATIONS: Kind = Kind {
    path: "/v1/reservations",
    columns: &[
        ("id", "/id"),
        ("kind", "/kind"),
        ("count", "/count"),
        ("from", "/from"),
        ("to", "/to"),
        ("deadline", "/reclaim_deadline"),
    ],
};

pub(super) const HOLDS: Kind = Kind {
    path: "/v1/holds",
    columns: &[
        ("id", "/id"),
        ("kind", "/kind"),
        ("scope", "/scope"),
        ("state", "/state"),
        ("placed by", "/placed_by"),
        ("at", "/placed_at"),
        ("review", "/review_at"),
    ],
};

pub(super) const WORKLOADS: Kind = Kind {
    path: "/v1/workloads",
    columns: &[
        ("id", "/id"),
        ("workspace", "/workspace"),
        ("class", "/class"),
        ("requests", "/requests"),
        ("state", "/state"),
        ("submitted", "/submitted_at"),
        ("admitted", "/admitted_at"),
    ],
};

pub(super) const DECISIONS: Kind = Kind {
    path: "/v1/decisions",
    columns: &[
        ("id", "/id"),
        ("workload", "/workload"),
        ("workspace", "/workspace"),
        ("answer", "/answer"),
        ("at", "/at"),
    ],
};

pub(super) const CERTIFICATES: Kind = Kind {
    path: "/v1/certificates",
    columns: &[
        ("id", "/id"),
        ("tenant", "/tenant"),
        ("kind", "/kind"),
        ("exceptions", "/exceptions"),
        ("issued", "/issued_at"),
        ("signed", "/signed"),
    ],
};

pub(super) const SWEEPS: Kind = Kind {
    path: "/v1/sweeps",
    columns: &[
        ("sweep", "/sweep"),
        ("at", "/at"),
        ("by", "/by"),
        ("seen", "/seen"),
        ("started", "/started"),
        ("found", "/found"),
        ("failed", "/failed"),
    ],
};

pub(super) const SCHEDULES: Kind = Kind {
    path: "/v1/schedules",
    columns: &[
        ("name", "/name"),
        ("starts", "/start/workflow"),
        ("cron", "/cron"),
        ("zone", "/zone"),
        ("overlap", "/overlap"),
        ("next", "/next"),
        ("paused by", "/paused/by"),
    ],
};

pub(super) const CHANNELS: Kind = Kind {
    path: "/v1/channels",
    columns: &[
        ("id", "/id"),
        ("kind", "/kind"),
        ("urgent", "/urgent"),
        ("attempts", "/attempts"),
        ("waiting", "/waiting"),
        ("dead", "/dead"),
    ],
};

pub(super) const LIMITS: Kind = Kind {
    path: "/v1/limits",
    columns: &[
        ("key", "/key"),
        ("limit", "/limit"),
        ("at once", "/concurrency"),
        ("rate", "/rate"),
        ("in use", "/in_use"),
        ("queued", "/queued"),
        ("oldest", "/oldest"),
        ("state", "/state"),
        ("until", "/until"),
    ],
};

pub(super) const ENGINES: Kind = Kind {
    path: "/v1/engines",
    columns: &[
        ("id", "/id"),
        ("name", "/name"),
        ("version", "/version"),
        ("started", "/started_at"),
        ("state", "/state"),
        ("silent ms", "/silent_ms"),
        ("holds", "/holds"),
        ("here", "/here"),
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
        ("parent", "/parent"),
        ("updated", "/updated_at"),
    ],
};

pub(super) const PROPOSALS: Kind = Kind {
    path: "/v1/proposals",
    columns: &[
        ("id", "/proposal"),
        ("command", "/command"),
        ("subject", "/subject"),
        ("state", "/state"),
        ("by", "/by"),
        ("reason", "/reason"),
        ("at", "/at"),
        ("void", "/void"),
    ],
};

pub(super) const STUCK: Kind = Kind {
    path: "/v1/stuck",
    columns: &[
        ("id", "/id"),
        ("workflow", "/workflow"),
        ("subject", "/subject"),
        ("state", "/state"),
        ("reason", "/reason"),
        ("errors", "/errors"),
        ("since", "/since"),
        ("owner", "/owner"),
        ("next", "/next"),
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
        ("ruling", "/ruling"),
    ],
};

pub(super) const USERS: Kind = Kind {
    path: "/v1/users",
    columns: &[
        ("name", "/name"),
        ("kind", "/kind"),
        ("roles", "/roles"),
        ("tenant", "/tenant"),
        ("added", "/created_at"),
    ],
};

pub(super) const USAGE: Kind = Kind {
    path: "/v1/usage",
    columns: &[
        ("id", "/id"),
        ("tenant", "/tenant"),
        ("workspace", "/workspace"),
        ("month", "/month"),
        ("spent (own+borrowed, in ms)", "/spent"),
    ],
};

pub(super) const REVIEWS: Kind = Kind {
    path: "/v1/approvals/reviews",
    columns: &[
        ("id", "/id"),
        ("title", "/title"),
        ("decided by", "/by"),
        ("requested by", "/requested_by"),
        ("at", "/at"),
        ("reason", "/reason"),
    ],
};

pub(super) const DELEGATIONS: Kind = Kind {
    path: "/v1/delegations",
    columns: &[
        ("id", "/id"),
        ("from", "/from"),
        ("to", "/to"),
        ("roles", "/roles"),
        ("state", "/state"),
        ("since", "/since"),
        ("until", "/until"),
        ("reason", "/reason"),
    ],
};

pub(super) const GROUPS: Kind = Kind {
    path: "/v1/groups",
    columns: &[("name", "/name"), ("members", "/members"), ("made", "/created_at")],
};

/// The columns of a kind, and more of them where they are wanted.
pub(super) fn columns(kind: &Kind) -> Vec<Column> {
    let more: &[Column] = if style::wide() { wide(kind.path) } else { &[] };
    kind.columns.iter().chain(more).copied().collect()
}

/// What `-o wide` shows beside.
fn wide(path: &str) -> &'static [Column] {
    match path {
        "/v1/tenants" => &[
            ("residency", "/data_residency"),
            ("preemption", "/allow_preemption"),
            ("activated", "/activated_at"),
        ],
        "/v1/nodes" => &[
            ("cpu milli", "/cpu_milli"),
            ("memory mib", "/memory_mib"),
            ("driver", "/driver_version"),
            ("claimed by", "/claimed_by"),
        ],
        "/v1/executions" => &[
            ("tenant", "/tenant"),
            ("requested by", "/requested_by"),
            ("revision", "/revision"),
            ("labels", "/labels"),
            ("created", "/created_at"),
        ],
        "/v1/approvals" => {
            &[("tenant", "/tenant"), ("state", "/state"), ("opened", "/opened_at"), ("digest", "/digest")]
        }
        "/v1/stuck" => &[("tenant", "/tenant"), ("parent", "/parent")],
        "/v1/workloads" => &[
            ("priority", "/priority"),
            ("preemptible", "/preemptible"),
            ("evictions", "/evictions"),
            ("decision", "/decision"),
        ],
        _ => &[],
    }
}

/// Lists all of a kind.
pub(super) async fn all(common: &Common, kind: &Kind, watching: &Watching) -> Result<Exit, Failure> {
    search(common, kind, None, &[], watching).await
}

/// Lists all of a kind that the filters accept.
pub(super) async fn list(common: &Common, kind: &Kind, wanted: &[String]) -> Result<Exit, Failure> {
    search(common, kind, None, wanted, &Watching::ONCE).await
}

/// The same, in the language of `docs/search.md`, once or again and again.
pub(super) async fn search(
    common: &Common,
    kind: &Kind,
    filter: Option<&str>,
    wanted: &[String],
    watching: &Watching,
) -> Result<Exit, Failure> {
    let said = filter.map(|filter| format!("&filter={}", escape(filter))).unwrap_or_default();
    let query = format!("{said}{}", filters(wanted)?);
    let client = Client::of(common)?;
    watch_list::show(common, watching, &columns(kind), async || client.all(kind.path, &query).await).await
}

/// Lists the servers that share the store.
pub(super) async fn engines(common: &Common, watching: &Watching) -> Result<Exit, Failure> {
    search(common, &ENGINES, None, &[], watching).await
}

/// Shows one of a kind.
pub(super) async fn show(common: &Common, kind: &Kind, id: &str) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    output::one(common.output, &read(&client, kind, id).await?)?;
    Ok(Exit::Done)
}

/// One of a kind. Where there is none of this id, the failure names the nearest.
pub(super) async fn read(client: &Client, kind: &Kind, id: &str) -> Result<Value, Failure> {
    // Ids that name a tenant have parts: `acme/research`.
    let path = format!("{}/{}", kind.path, id.split('/').map(escape).collect::<Vec<_>>().join("/"));
    match client.get(&path).await {
        Ok(answer) => answer.value(),
        Err(failure) if failure.exit == Exit::NotFound => Err(meant(client, kind, id, failure).await),
        Err(failure) => Err(failure),
    }
}

/// The same failure, with the nearest id of those that whoever asks may list.
pub(super) async fn meant(client: &Client, kind: &Kind, id: &str, mut failure: Failure) -> Failure {
    let listed = client.get(&format!("{}?limit=1000", kind.path)).await;
    let items = listed.and_then(|answer| answer.value()).unwrap_or_default();
    let place = kind.columns.first().map_or("/id", |(_, place)| *place);
    let items = items.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let known = items.iter().filter_map(|item| item.pointer(place).and_then(Value::as_str));
    if let Some(near) = engine::nearest(id, known) {
        failure.message.push_str(&format!("\ndid you mean {}?", output::harmless(&near)));
        if let Some(fields) = failure.problem.as_mut().and_then(Value::as_object_mut) {
            fields.insert("did_you_mean".into(), near.into());
        }
    }
    failure
}

/// `list` or `show`.
pub(super) async fn run(common: &Common, kind: &Kind, things: Things) -> Result<Exit, Failure> {
    match things {
        Things::List { filters, watching } => search(common, kind, None, &filters, &watching).await,
        Things::Show { id } => show(common, kind, &id).await,
    }
}
