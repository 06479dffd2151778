//! The account of a tenant: workspaces, quotas, loans, workloads, admission decisions and usage.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::page::{ListPage, scope::get_visible},
        problem::Problem,
        resource_kind::{ResourceKind, numbered},
        resource_routes::read_routes,
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types::{self, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use program::encoding::rfc3339::format_time;
use serde_json::{Map, Value, json};
use workflows::{
    scheduling::admission::usage_so_far,
    tenancy::{
        Account, Admission, Balance, Cohort, Loan, MonthlyUsage, Quota, Reservation, Workload, WorkloadState,
        Workspace,
    },
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadAccounts);
    let mut routes = Vec::new();
    routes.extend(read_routes::<Workspace>(
        (
            "/v1/workspaces",
            doc("listWorkspaces", "Lists workspaces with their quota usage.")
                .lists::<types::workspaces::Workspace>(),
        ),
        (
            "/v1/workspaces/{tenant}/{workspace}",
            doc("showWorkspace", "Shows a workspace with its quota usage.")
                .says::<types::workspaces::Workspace>(200),
        ),
        read,
    ));
    routes.extend(read_routes::<Quota>(
        (
            "/v1/quotas",
            doc("listQuotas", "Lists quotas with their usage.").lists::<types::workspaces::Quota>(),
        ),
        (
            "/v1/quotas/{tenant}/{workspace}",
            doc("showQuota", "Shows the quota of a workspace with its usage.")
                .says::<types::workspaces::Quota>(200),
        ),
        read,
    ));
    routes.extend(read_routes::<Loan>(
        ("/v1/loans", doc("listLoans", "Lists loans between workspaces.").lists::<types::workspaces::Loan>()),
        ("/v1/loans/{tenant}/{number}", doc("showLoan", "A loan.").says::<types::workspaces::Loan>(200)),
        read,
    ));
    routes.extend(read_routes::<Reservation>(
        (
            "/v1/reservations",
            doc("listReservations", "Lists reservations.").lists::<types::workspaces::Reservation>(),
        ),
        (
            "/v1/reservations/{tenant}/{workspace}/{reservation}",
            doc("showReservation", "A reservation.").says::<types::workspaces::Reservation>(200),
        ),
        read,
    ));
    routes.extend(work(read));
    routes
}

/// Workloads, decisions and usage of an account.
fn work(read: Access) -> Vec<Route> {
    let mut routes = Vec::new();
    routes.extend(read_routes::<Workload>(
        ("/v1/workloads", doc("listWorkloads", "Lists workloads.").lists::<types::workspaces::Workload>()),
        (
            "/v1/workloads/{tenant}/{workload}",
            doc("showWorkload", "A workload.").says::<types::workspaces::Workload>(200),
        ),
        read,
    ));
    routes.extend(read_routes::<Admission>(
        (
            "/v1/decisions",
            doc("listDecisions", "Lists admission decisions.").lists::<types::workspaces::Decision>(),
        ),
        (
            "/v1/decisions/{tenant}/{number}",
            doc("showDecision", "Shows an admission decision with all its inputs.")
                .says::<types::workspaces::Decision>(200),
        ),
        read,
    ));
    routes.extend(read_routes::<MonthlyUsage>(
        ("/v1/usage", doc("listUsage", "Lists closed months of usage.").lists::<types::workspaces::Usage>()),
        (
            "/v1/usage/{tenant}/{workspace}/{month}",
            doc("showUsage", "Shows a closed month of usage.").says::<types::workspaces::Usage>(200),
        ),
        read,
    ));
    routes.push(Route::get(
        "/v1/usage/{tenant}",
        read,
        so_far,
        doc("showUsageSoFar", "Shows the usage of each workspace of a tenant in the current month.")
            .lists::<types::workspaces::Usage>(),
    ));
    routes
}

/// Adds fields to an answer.
fn with<const N: usize>(mut value: Value, more: [(&str, Value); N]) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    value
}

/// Returns the usage of each resource of an account.
fn used(account: &Account) -> Value {
    let of = |balance: &Balance| {
        json!({
            "nominal": balance.allowance.limit(),
            "used": balance.used,
            "in_transit": balance.in_transit,
            "borrowed": balance.borrowed,
            "lent": balance.lent,
            "over": balance.over_quota(),
        })
    };
    let by = account.balances.iter().map(|(resource, balance)| (resource.to_string(), of(balance)));
    Value::Object(by.collect::<Map<_, _>>())
}

impl ResourceKind for Workspace {
    const WORD: &'static str = "workspace";
    const FILTERS: &'static [(&'static str, &'static str)] = &[("class", "/class")];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, account: Option<&Cohort>) -> Value {
        let value =
            with(mapping::readable(self, &[]), [("id", json!(format!("{}/{}", self.tenant, self.name)))]);
        let Some(account) = account.and_then(|cohort| cohort.accounts.get(&self.name)) else { return value };
        with(
            value,
            [
                ("use", used(account)),
                ("admitting", json!(account.admitting)),
                ("waiting", json!(account.waiting)),
                ("waiting_since", json!(account.oldest.map(format_time))),
                ("slowed_until", json!(account.slowed_until.map(format_time))),
            ],
        )
    }
}

impl ResourceKind for Quota {
    const WORD: &'static str = "quota";
    const FILTERS: &'static [(&'static str, &'static str)] = &[("workspace", "/workspace")];
    const TIMES: &'static [&'static str] = &["at"];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, account: Option<&Cohort>) -> Value {
        let id = json!(format!("{}/{}", self.tenant, self.workspace));
        let value = with(mapping::readable(self, Self::TIMES), [("id", id)]);
        let account = account.and_then(|cohort| cohort.accounts.get(&self.workspace));
        with(value, [("use", account.map_or(Value::Null, used))])
    }
}

impl ResourceKind for Loan {
    const WORD: &'static str = "loan";
    const FILTERS: &'static [(&'static str, &'static str)] = &[
        ("state", "/state"),
        ("lender", "/lender"),
        ("borrower", "/borrower"),
        ("resource", "/resource"),
        ("workload", "/workload"),
    ];
    const TIMES: &'static [&'static str] = &["granted_at", "protected_until", "due", "ended_at"];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn key(parts: &[&str]) -> String {
        numbered(parts)
    }

    fn seen(&self, _: Option<&Cohort>) -> Value {
        let id = json!(format!("{}/{}", self.tenant, self.number));
        with(mapping::readable(self, Self::TIMES), [("id", id)])
    }
}

impl ResourceKind for Reservation {
    const WORD: &'static str = "reservation";
    const FILTERS: &'static [(&'static str, &'static str)] =
        &[("workspace", "/workspace"), ("kind", "/kind")];
    const TIMES: &'static [&'static str] = &["from", "to"];
    const BOUND: bool = true;

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, _: Option<&Cohort>) -> Value {
        let id = json!(format!("{}/{}/{}", self.tenant, self.workspace, self.name));
        with(mapping::readable(self, Self::TIMES), [("id", id)])
    }
}

impl ResourceKind for Workload {
    const WORD: &'static str = "workload";
    const FILTERS: &'static [(&'static str, &'static str)] =
        &[("workspace", "/workspace"), ("state", "/state"), ("class", "/class")];
    const TIMES: &'static [&'static str] = &["submitted_at", "admitted_at", "ended_at", "since"];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, _: Option<&Cohort>) -> Value {
        let by = match &self.state {
            WorkloadState::Reclaimed { by } => json!(by),
            WorkloadState::Waiting
            | WorkloadState::Admitted
            | WorkloadState::Finished
            | WorkloadState::Rejected => Value::Null,
        };
        let state = json!(<&str>::from(&self.state));
        let id = json!(format!("{}/{}", self.tenant, self.name));
        let placement = json!(self.placement_basis());
        let fields = [("id", id), ("state", state), ("placement", placement), ("reclaimed_by", by)];
        with(mapping::readable(self, Self::TIMES), fields)
    }
}

impl ResourceKind for Admission {
    const WORD: &'static str = "decision";
    const FILTERS: &'static [(&'static str, &'static str)] =
        &[("workspace", "/workspace"), ("workload", "/workload"), ("answer", "/answer")];
    const TIMES: &'static [&'static str] = &["at"];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn key(parts: &[&str]) -> String {
        numbered(parts)
    }

    fn seen(&self, _: Option<&Cohort>) -> Value {
        let id = json!(format!("{}/{}", self.tenant, self.number));
        with(mapping::readable(self, Self::TIMES), [("id", id)])
    }
}

impl ResourceKind for MonthlyUsage {
    const WORD: &'static str = "month of usage";
    const FILTERS: &'static [(&'static str, &'static str)] =
        &[("workspace", "/workspace"), ("month", "/month")];
    const TIMES: &'static [&'static str] = &["from", "to"];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }
}

/// Returns the usage of each workspace of a tenant in the current month.
async fn so_far(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(tenant): Path<String>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let account = get_visible::<Cohort>(&app, &caller, &tenant).await?;
    let account = account.ok_or_else(|| Problem::not_found("account of tenant", &tenant))?;
    let usage = usage_so_far(&account, app.engine.clock().now());
    Ok(Json(ListPage::new(usage.iter().map(|usage| usage.seen(None)).collect(), None)))
}
