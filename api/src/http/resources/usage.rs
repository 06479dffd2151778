//! `GET /v1/usage/{tenant}:export`: a tenant's usage by month with list prices, for spreadsheets and billing tools.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams,
            page::{
                Page, document,
                scope::{get_visible, list_visible},
            },
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
};
use axum::{
    Extension,
    extract::{Path, State},
    http::header,
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::CompositeKey;
use workflows::{
    policy::in_force,
    scheduling::admission::usage_so_far,
    tenancy::{Cluster, Cohort, MonthlyUsage, Tenant},
    usage_statement::{self, StatementPlace},
};

/// The number of months read at once.
const AT_ONCE: usize = 1_000;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![Route::get(
        "/v1/usage/{tenant}:export",
        Access::Tenant(Verb::ReadAccounts),
        export,
        doc(
            "exportUsage",
            "Exports a tenant's usage by month with list prices, as CSV or in the FOCUS format.",
        )
        .file(200, "text/csv")
        .may(&[ProblemCode::QueryInvalid]),
    )]
}

/// The format of the export.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "UsageForm")]
enum UsageFormat {
    #[default]
    Csv,
    Focus,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ExportParams {
    workspace: Option<String>,
    /// The first month, as `2026-01`.
    from: Option<String>,
    /// The last month, included.
    to: Option<String>,
    #[serde(default)]
    format: UsageFormat,
}

impl ExportParams {
    fn takes(&self, usage: &MonthlyUsage) -> bool {
        self.workspace.as_deref().is_none_or(|name| name == usage.workspace.as_str())
            && self.from.as_deref().is_none_or(|from| from <= usage.month.as_str())
            && self.to.as_deref().is_none_or(|to| usage.month.as_str() <= to)
    }
}

async fn export(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(tenant): Path<String>,
    QueryParams(wanted): QueryParams<ExportParams>,
) -> Result<Response, Problem> {
    for (name, month) in [("from", &wanted.from), ("to", &wanted.to)] {
        if month.as_deref().is_some_and(|month| !is_month(month)) {
            return Err(Problem::new(
                ProblemCode::QueryInvalid,
                format!("{name}: write a month like 2026-01"),
            ));
        }
    }
    let found = get_visible::<Tenant>(&app, &caller, &tenant).await?;
    let found = found.ok_or_else(|| Problem::not_found("usage of tenant", &tenant))?;
    let lines = lines(&app, &caller, &found, &wanted).await?;
    let text = match wanted.format {
        UsageFormat::Csv => usage_statement::csv(&lines),
        UsageFormat::Focus => usage_statement::focus(&lines),
    };
    Ok(([(header::CONTENT_TYPE, "text/csv")], text).into_response())
}

/// Reads the account before the closed months. A month that closes in between is in both reads, and counted once.
async fn lines(
    app: &ServerState,
    caller: &Caller,
    tenant: &Tenant,
    wanted: &ExportParams,
) -> Result<Vec<usage_statement::StatementLine>, Problem> {
    let account = get_visible::<Cohort>(app, caller, tenant.id.as_str()).await?;
    let running = account.map(|account| usage_so_far(&account, app.engine.clock().now()));
    let mut page = Page { limit: AT_ONCE, after: None };
    let mut closed = Vec::new();
    loop {
        let prefix = CompositeKey::of(&[&tenant.id]).prefix();
        let (found, next) = list_visible::<MonthlyUsage>(app, caller, &prefix, &page, |_| true).await?;
        closed.extend(found);
        page.after = next;
        if page.after.is_none() {
            break;
        }
    }
    let mut usages = usage_statement::once(running.unwrap_or_default(), closed);
    usages.retain(|usage| wanted.takes(usage));
    let place = place(app, tenant).await?;
    let policy = app.engine.transact(false, in_force).await?;
    Ok(usage_statement::lines(&usages, &place, &policy))
}

/// Returns the recorded location of the tenant's GPUs.
async fn place(app: &ServerState, tenant: &Tenant) -> Result<StatementPlace, Problem> {
    let Some(cluster) = &tenant.cluster else { return Ok(StatementPlace::default()) };
    let found = document::<Cluster>(app, cluster.as_str()).await?;
    let unknown = || StatementPlace { cluster: cluster.to_string(), region: String::new() };
    Ok(found.as_ref().map_or_else(unknown, StatementPlace::from))
}

/// Returns true if the text is a month like `2026-01`, so that months compare as text.
fn is_month(text: &str) -> bool {
    let Some((year, month)) = text.split_once('-') else { return false };
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    digits(year, 4) && digits(month, 2) && ("01"..="12").contains(&month)
}
