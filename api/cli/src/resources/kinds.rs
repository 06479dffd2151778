//! The kinds of resources that a server lists: the path and the columns of each.

use crate::output::{Column, style};

/// A kind of resource: its path and its columns.
pub(crate) struct Kind {
    pub(crate) path: &'static str,
    pub(crate) columns: &'static [Column],
}

pub(crate) const TENANTS: Kind = Kind {
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

pub(crate) const CLUSTERS: Kind = Kind {
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

pub(crate) const REGIONS: Kind = Kind {
    path: "/v1/regions",
    columns: &[("id", "/id"), ("jurisdiction", "/jurisdiction"), ("clusters", "/clusters")],
};

pub(crate) const NODES: Kind = Kind {
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

pub(crate) const AGENTS: Kind = Kind {
    path: "/v1/agents",
    columns: &[
        ("id", "/id"),
        ("version", "/version"),
        ("present", "/present"),
        ("silent (ms)", "/silent_ms"),
        ("waiting", "/waiting"),
        ("delivered", "/handed_over"),
        ("healthy", "/seen/health/fit"),
        ("clients", "/seen/clients"),
    ],
};

pub(crate) const WORKSPACES: Kind = Kind {
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

pub(crate) const QUOTAS: Kind = Kind {
    path: "/v1/quotas",
    columns: &[("id", "/id"), ("used/nominal", "/use"), ("version", "/version"), ("ends", "/ends/at")],
};

pub(crate) const LOANS: Kind = Kind {
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

pub(crate) const RESERVATIONS: Kind = Kind {
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

pub(crate) const HOLDS: Kind = Kind {
    path: "/v1/holds",
    columns: &[
        ("id", "/id"),
        ("kind", "/kind"),
        ("scope", "/scope"),
        ("state", "/state"),
        ("placed by", "/placed_by"),
        ("at", "/placed_at"),
        ("review", "/review_at"),
        ("reason", "/reason"),
        ("released by", "/released_by"),
    ],
};

pub(crate) const WORKLOADS: Kind = Kind {
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

pub(crate) const DECISIONS: Kind = Kind {
    path: "/v1/decisions",
    columns: &[
        ("id", "/id"),
        ("workload", "/workload"),
        ("workspace", "/workspace"),
        ("answer", "/answer"),
        ("at", "/at"),
    ],
};

pub(crate) const CERTIFICATES: Kind = Kind {
    path: "/v1/certificates",
    columns: &[
        ("id", "/id"),
        ("tenant", "/tenant"),
        ("kind", "/kind"),
        ("exceptions", "/exceptions"),
        ("issued", "/issued_at"),
        ("signed", "/signed"),
        ("withdrawn", "/withdrawn"),
    ],
};

pub(crate) const CLOSED_TENANTS: Kind = Kind {
    path: "/v1/closed-tenants",
    columns: &[
        ("tenant", "/tenant"),
        ("checked", "/at"),
        ("complete", "/complete_at"),
        ("findings", "/findings"),
        ("found since", "/found_since"),
        ("unanswered since", "/unanswered_since"),
    ],
};

pub(crate) const SWEEPS: Kind = Kind {
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

pub(crate) const SCHEDULES: Kind = Kind {
    path: "/v1/schedules",
    columns: &[
        ("name", "/name"),
        ("starts", "/start/workflow"),
        ("cron", "/cron"),
        ("zone", "/zone"),
        ("overlap", "/overlap"),
        ("next", "/next"),
        ("status", "/status"),
        ("paused by", "/paused/by"),
    ],
};

pub(crate) const CHANNELS: Kind = Kind {
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

pub(crate) const LIMITS: Kind = Kind {
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

pub(crate) const ENGINES: Kind = Kind {
    path: "/v1/engines",
    columns: &[
        ("id", "/id"),
        ("name", "/name"),
        ("version", "/version"),
        ("started", "/started_at"),
        ("state", "/state"),
        ("silent (ms)", "/silent_ms"),
        ("holds", "/holds"),
        ("this server", "/here"),
    ],
};

pub(crate) const EXECUTIONS: Kind = Kind {
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

pub(crate) const PROPOSALS: Kind = Kind {
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

pub(crate) const STUCK: Kind = Kind {
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

pub(crate) const APPROVALS: Kind = Kind {
    path: "/v1/approvals",
    columns: &[
        ("id", "/id"),
        ("title", "/title"),
        ("required", "/wanted"),
        ("requested by", "/requested_by"),
        ("deadline", "/deadline"),
        ("ruling", "/ruling"),
    ],
};

pub(crate) const USERS: Kind = Kind {
    path: "/v1/users",
    columns: &[
        ("name", "/name"),
        ("kind", "/kind"),
        ("roles", "/roles"),
        ("tenant", "/tenant"),
        ("added", "/created_at"),
    ],
};

pub(crate) const USAGE: Kind = Kind {
    path: "/v1/usage",
    columns: &[
        ("id", "/id"),
        ("tenant", "/tenant"),
        ("workspace", "/workspace"),
        ("month", "/month"),
        ("used (own+borrowed, ms)", "/spent"),
    ],
};

pub(crate) const REVIEWS: Kind = Kind {
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

pub(crate) const DELEGATIONS: Kind = Kind {
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

pub(crate) const GROUPS: Kind = Kind {
    path: "/v1/groups",
    columns: &[("name", "/name"), ("members", "/members"), ("created", "/created_at")],
};

/// Returns the columns of a kind, with those of `-o wide` if requested.
pub(crate) fn columns(kind: &Kind) -> Vec<Column> {
    let more: &[Column] = if style::wide() { wide(kind.path) } else { &[] };
    kind.columns.iter().chain(more).copied().collect()
}

/// Returns the additional columns of `-o wide`.
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
