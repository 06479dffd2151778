//! What is in a tenant's account: workspaces, quotas, loans, workloads, decisions on admission, and usage.

use super::{
    kinds::{Kind, numbered, reads},
    page::{Listed, scope::one_seen_by},
    problem::Problem,
    route::{Access, Route},
    shown,
    told::told,
    view,
};
use crate::{
    app::Shared,
    auth::{Caller, Verb},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use serde_json::{Map, Value, json};
use workflows::{
    admission::usage_so_far,
    tenancy::{
        Account, Admission, Balance, Cohort, Loan, Quota, Reservation, Usage, Workload, WorkloadState,
        Workspace,
    },
};

pub(super) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadAccounts);
    let mut routes = Vec::new();
    routes.extend(reads::<Workspace>(
        (
            "/v1/workspaces",
            told("listWorkspaces", "Lists workspaces, and what is used of their quotas.")
                .lists::<shown::account::Workspace>(),
        ),
        (
            "/v1/workspaces/{tenant}/{workspace}",
            told("showWorkspace", "A workspace, and what is used of its quotas.")
                .says::<shown::account::Workspace>(200),
        ),
        read,
    ));
    routes.extend(reads::<Quota>(
        (
            "/v1/quotas",
            told("listQuotas", "Lists quotas, and what is used of them.").lists::<shown::account::Quota>(),
        ),
        (
            "/v1/quotas/{tenant}/{workspace}",
            told("showQuota", "The quota of a workspace, and what is used of it.")
                .says::<shown::account::Quota>(200),
        ),
        read,
    ));
    routes.extend(reads::<Loan>(
        ("/v1/loans", told("listLoans", "Lists loans between workspaces.").lists::<shown::account::Loan>()),
        ("/v1/loans/{tenant}/{number}", told("showLoan", "A loan.").says::<shown::account::Loan>(200)),
        read,
    ));
    routes.extend(reads::<Reservation>(
        (
            "/v1/reservations",
            told("listReservations", "Lists reservations.").lists::<shown::account::Reservation>(),
        ),
        (
            "/v1/reservations/{tenant}/{workspace}/{reservation}",
            told("showReservation", "A reservation.").says::<shown::account::Reservation>(200),
        ),
        read,
    ));
    routes.extend(work(read));
    routes
}

/// What runs in an account, and what it comes to.
fn work(read: Access) -> Vec<Route> {
    let mut routes = Vec::new();
    routes.extend(reads::<Workload>(
        ("/v1/workloads", told("listWorkloads", "Lists workloads.").lists::<shown::account::Workload>()),
        (
            "/v1/workloads/{tenant}/{workload}",
            told("showWorkload", "A workload.").says::<shown::account::Workload>(200),
        ),
        read,
    ));
    routes.extend(reads::<Admission>(
        (
            "/v1/decisions",
            told("listDecisions", "Lists decisions on admission.").lists::<shown::account::Decision>(),
        ),
        (
            "/v1/decisions/{tenant}/{number}",
            told("showDecision", "A decision on admission, with everything that was weighed.")
                .says::<shown::account::Decision>(200),
        ),
        read,
    ));
    routes.extend(reads::<Usage>(
        (
            "/v1/usage",
            told("listUsage", "Lists months of usage that have ended.").lists::<shown::account::Usage>(),
        ),
        (
            "/v1/usage/{tenant}/{workspace}/{month}",
            told("showUsage", "A month of usage that has ended.").says::<shown::account::Usage>(200),
        ),
        read,
    ));
    routes.push(Route::get(
        "/v1/usage/{tenant}",
        read,
        so_far,
        told("showUsageSoFar", "What each workspace of a tenant has used in the month that runs.")
            .lists::<shown::account::Usage>(),
    ));
    routes
}

/// Adds fields to a shown document.
fn with<const N: usize>(mut value: Value, more: [(&str, Value); N]) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    value
}

/// What is used of each resource of an account.
fn used(account: &Account) -> Value {
    let of = |balance: &Balance| {
        json!({
            "nominal": balance.allowance.nominal,
            "used": balance.used,
            "in_transit": balance.in_transit,
            "borrowed": balance.borrowed,
            "lent": balance.lent,
            "over": balance.over(),
        })
    };
    let by = account.balances.iter().map(|(resource, balance)| (resource.to_string(), of(balance)));
    Value::Object(by.collect::<Map<_, _>>())
}

impl Kind for Workspace {
    const WORD: &'static str = "workspace";
    const FILTERS: &'static [(&'static str, &'static str)] = &[("class", "/class")];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, account: Option<&Cohort>) -> Value {
        let value =
            with(view::readable(self, &[]), [("id", json!(format!("{}/{}", self.tenant, self.name)))]);
        let Some(account) = account.and_then(|cohort| cohort.accounts.get(&self.name)) else { return value };
        with(
            value,
            [
                ("use", used(account)),
                ("admitting", json!(account.admitting)),
                ("waiting", json!(account.waiting)),
                ("waiting_since", json!(account.oldest.map(view::time))),
                ("slowed_until", json!(account.slowed_until.map(view::time))),
            ],
        )
    }
}

impl Kind for Quota {
    const WORD: &'static str = "quota";
    const FILTERS: &'static [(&'static str, &'static str)] = &[("workspace", "/workspace")];
    const TIMES: &'static [&'static str] = &["at"];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, account: Option<&Cohort>) -> Value {
        let id = json!(format!("{}/{}", self.tenant, self.workspace));
        let value = with(view::readable(self, Self::TIMES), [("id", id)]);
        let account = account.and_then(|cohort| cohort.accounts.get(&self.workspace));
        with(value, [("use", account.map_or(Value::Null, used))])
    }
}

impl Kind for Loan {
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
        with(view::readable(self, Self::TIMES), [("id", id)])
    }
}

impl Kind for Reservation {
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
        with(view::readable(self, Self::TIMES), [("id", id)])
    }
}

impl Kind for Workload {
    const WORD: &'static str = "workload";
    const FILTERS: &'static [(&'static str, &'static str)] =
        &[("workspace", "/workspace"), ("state", "/state"), ("class", "/class")];
    const TIMES: &'static [&'static str] = &["submitted_at", "admitted_at"];

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
        with(view::readable(self, Self::TIMES), [("id", id), ("state", state), ("reclaimed_by", by)])
    }
}

impl Kind for Admission {
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
        with(view::readable(self, Self::TIMES), [("id", id)])
    }
}

impl Kind for Usage {
    const WORD: &'static str = "month of usage";
    const FILTERS: &'static [(&'static str, &'static str)] =
        &[("workspace", "/workspace"), ("month", "/month")];
    const TIMES: &'static [&'static str] = &["from", "to"];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }
}

/// What each workspace of a tenant has used in the month that runs.
async fn so_far(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(tenant): Path<String>,
) -> Result<Json<Listed<Value>>, Problem> {
    let account = one_seen_by::<Cohort>(&app, &caller, &tenant).await?;
    let account = account.ok_or_else(|| Problem::not_found("account of tenant", &tenant))?;
    let usage = usage_so_far(&account, app.engine.clock().now());
    Ok(Json(Listed::new(usage.iter().map(|usage| usage.seen(None)).collect(), None)))
}
