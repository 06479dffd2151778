//! Search for executions: `GET /v1/executions` and `GET /v1/stuck`, by parameters or in the language of `docs/search.md`.

mod closed_rows;
mod hold_rows;
mod platform_rows;
mod visible;

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams,
            page::{ListPage, Page},
        },
        problem::{Problem, code::ProblemCode},
        resources::schedules::status,
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{
        channels,
        executions::{Row, Stuck},
        mapping,
        operations::{StuckHold, StuckPlatform},
        schedules::{self, StuckClosedTenant},
    },
};
use axum::{Extension, Json, extract::State};
use engine::{FilterError, Reason, Workflow as _, parse_filter, parse_filter_knowing};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use store::{ExecutionId, Filter, Found, Query, Record, Timestamp};
use strum::VariantArray as _;
use visible::{Sight, Visible, Warning};
use workflows::{closed_tenants::ClosedConcern, offboarding::Offboarding, sweeps::HoldConcern};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadExecutions);
    vec![
        Route::get(
            "/v1/executions",
            read,
            list,
            doc("listExecutions", "Finds executions, by parameters or in the language of docs/search.md.")
                .says::<FoundPage<Row>>(200)
                .may(&[ProblemCode::FilterMisread, ProblemCode::NotFound]),
        ),
        Route::get(
            "/v1/stuck",
            read,
            stuck,
            doc(
                "listStuck",
                "Lists everything that needs an operator: since when, who must act, and the next step.",
            )
            .says::<StuckFound>(200)
            .may(&[ProblemCode::FilterMisread, ProblemCode::NotFound]),
        ),
    ]
}

/// The search conditions and the page.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
pub(in crate::http) struct SearchParams {
    filter: Option<String>,
    tenant: Option<String>,
    workflow: Option<String>,
    state: Option<String>,
    phase: Option<String>,
    reason: Option<String>,
    subject: Option<String>,
    parent: Option<String>,
    requested_by: Option<String>,
    open: Option<bool>,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl SearchParams {
    /// Returns true if channels with dead letters are included. They are on the first page, and conditions on executions never match them.
    fn means_channels(&self) -> bool {
        self.means(channels::Stuck::WORKFLOW, &[channels::Stuck::REASON])
    }

    /// Returns true if schedules are included, by the same rule.
    fn means_schedules(&self) -> bool {
        self.means(schedules::Stuck::WORKFLOW, &schedules::Stuck::REASONS)
    }

    /// Returns true if limits, the clock and clusters are included, by the same rule.
    fn means_platform(&self) -> bool {
        self.means(StuckPlatform::LIMIT, &[StuckPlatform::CLOSED])
            || self.means(StuckPlatform::CLOCK, &[StuckPlatform::JUMPED])
            || self.means(StuckPlatform::START, &[StuckPlatform::NOT_STARTED])
            || self.means(StuckPlatform::OBSERVATION, &[StuckPlatform::SILENT])
    }

    /// Returns true if holds and offboardings that wait for them are included, by the same rule.
    fn means_holds(&self) -> bool {
        let reasons = HoldConcern::VARIANTS.iter().map(|concern| concern.into()).collect::<Vec<&str>>();
        self.means(StuckHold::HOLD, &reasons) || self.means(Offboarding::NAME, &reasons)
    }

    /// Returns true if closed tenants are meant too, in the same way.
    fn means_closed_tenants(&self) -> bool {
        let reasons = ClosedConcern::VARIANTS.iter().map(|concern| concern.into()).collect::<Vec<&str>>();
        self.means(StuckClosedTenant::CLOSED_TENANT, &reasons)
    }

    /// Returns true if nothing narrows the list, or nothing but this workflow or one of these reasons.
    fn means(&self, workflow: &str, reasons: &[&str]) -> bool {
        let narrowed = [&self.filter, &self.tenant, &self.state, &self.phase];
        let further = [&self.subject, &self.parent, &self.requested_by, &self.cursor];
        narrowed.into_iter().chain(further).all(Option::is_none)
            && self.open != Some(false)
            && self.workflow.as_deref().is_none_or(|said| said == workflow)
            && self.reason.as_deref().is_none_or(|said| reasons.contains(&said))
    }

    /// Checks that the search starts with the first page, as a stream does.
    pub(in crate::http) fn begins(&self) -> Result<(), Problem> {
        if self.cursor.is_some() {
            let detail = "cursor: a stream begins with the first page; omit the cursor";
            return Err(Problem::new(ProblemCode::QueryInvalid, detail));
        }
        Page::of(self.limit, None).map(drop)
    }
}

/// A page of search results.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Found")]
pub(in crate::http) struct FoundPage<T> {
    #[serde(flatten)]
    listed: ListPage<T>,
    /// The search limit ended the page early; `next` continues.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
}

/// Items that need an operator.
#[derive(Debug, Serialize, JsonSchema)]
struct StuckFound {
    #[serde(flatten)]
    found: FoundPage<Stuck>,
    /// Channels with dead letters. Only on the first page, for callers who may read channels; without other filters than
    /// `workflow=delivery` or `reason=delivery_dead`.
    channels: Visible<channels::Stuck>,
    /// Schedules that fail or cannot fire any more. Only on the first page, for callers who may read schedules; without other
    /// filters than `workflow=schedule` or one of their reasons.
    schedules: Visible<schedules::Stuck>,
    /// Closed limits, a clock that jumped, clusters that are not observed, and workloads that do not start. Only on the first page, for callers who may read limits, or
    /// the tenant's executions; without other filters than `workflow=limit`, `workflow=clock`, `workflow=observation`, `workflow=workload_start` or one of their
    /// reasons.
    limits: Visible<StuckPlatform>,
    /// Holds that are due for review, and offboardings that wait for a hold. Only on the first page, for callers who may read holds;
    /// without other filters than `workflow=hold`, `workflow=offboarding` or one of their reasons.
    holds: Visible<StuckHold>,
    /// Closed tenants with objects that no certificate accounts for, or for which a system did not answer. Only on the first page, for
    /// callers who may read sweeps; without other filters than `workflow=closed_tenant` or one of their reasons.
    closed_tenants: Visible<StuckClosedTenant>,
    /// Reasons why operators are not notified, such as a missing notification channel.
    warnings: Visible<Warning>,
}

pub(in crate::http) fn invalid_query(misread: &FilterError) -> Problem {
    let problem = Problem::new(ProblemCode::FilterMisread, misread.to_string()).with("position", misread.at);
    match &misread.nearest {
        Some(nearest) => problem.with("nearest", nearest.clone()),
        None => problem,
    }
}

/// Returns the query for everything that the caller may see: with a tenant's token, only executions of that tenant.
pub(in crate::http) fn scope(caller: &Caller) -> Query {
    caller.tenant.as_ref().map_or(Query::All, |tenant| Query::is("tenant", tenant))
}

fn query(app: &ServerState, caller: &Caller, wanted: &SearchParams) -> Result<Query, Problem> {
    Ok(scope(caller).and(said(app, wanted)?))
}

/// Builds the query at this time.
pub(in crate::http) fn said(app: &ServerState, wanted: &SearchParams) -> Result<Query, Problem> {
    let columns = Filter {
        tenant: wanted.tenant.clone(),
        workflow: wanted.workflow.clone(),
        state: wanted.state.clone(),
        phase: wanted.phase.clone(),
        reason: wanted.reason.clone(),
        subject: wanted.subject.clone(),
        open: wanted.open,
    };
    let others = [("parent", &wanted.parent), ("requested_by", &wanted.requested_by)];
    let others = others.into_iter().filter_map(|(field, value)| Some(Query::is(field, value.as_ref()?)));
    let said = wanted.filter.as_deref().unwrap_or_default();
    let known = app.engine.workflow_names();
    let said =
        parse_filter_knowing(said, app.engine.clock().now(), known).map_err(|error| invalid_query(&error))?;
    Ok(others.fold(Query::from(&columns), Query::and).and(said))
}

/// Returns a page of results.
pub(in crate::http) async fn page(
    app: &ServerState,
    wanted: &SearchParams,
    query: &Query,
) -> Result<Found, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let named = |text: &str| text.parse::<ExecutionId>().map_err(|_| Problem::not_found("execution", text));
    let after = page.after.as_deref().map(named).transpose()?;
    Ok(app.engine.search(query, after, page.limit).await?)
}

/// Converts the page to an answer, each record with `row`.
pub(in crate::http) fn answer<T>(found: &Found, row: impl Fn(&Record) -> T) -> Json<FoundPage<T>> {
    let items = found.items.iter().map(row).collect();
    Json(FoundPage {
        listed: ListPage::new(items, found.next.map(|id| id.to_string())),
        partial: found.partial,
    })
}

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<SearchParams>,
) -> Result<Json<FoundPage<Row>>, Problem> {
    let found = page(&app, &wanted, &query(&app, &caller, &wanted)?).await?;
    Ok(rows(&app, &found).await)
}

/// Converts the page to an answer of list rows with their progress.
pub(in crate::http) async fn rows(app: &ServerState, found: &Found) -> Json<FoundPage<Row>> {
    let told = app.paces.told(&app.engine, &found.items).await;
    answer(found, |record| Row { progress: told.get(&record.id).cloned(), ..mapping::row(record) })
}

/// Lists everything that needs an operator.
async fn stuck(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<SearchParams>,
) -> Result<Json<StuckFound>, Problem> {
    let now = app.engine.clock().now();
    let stuck = parse_filter("stuck", now).map_err(|error| invalid_query(&error))?;
    let found = page(&app, &wanted, &query(&app, &caller, &wanted)?.and(stuck)).await?;
    let sight = Arc::new(Sight::of(&caller));
    let mut channels = Vec::new();
    if sight.sees("", Verb::ReadChannels) && wanted.means_channels() {
        let dead = app.outbox.dead().await?;
        channels.extend(dead.iter().filter_map(|(of, tally)| channels::Stuck::of(&of.name, tally, now)));
    }
    let mut schedules = Vec::new();
    if sight.sees("", Verb::ReadSchedules) && wanted.means_schedules() {
        schedules.extend(status::stuck(&app, now).await?);
    }
    let limits = match wanted.means_platform() {
        true => platform_rows::all(&app, &sight, now).await?,
        false => sight.only([]),
    };
    let mut holds = Vec::new();
    if caller.may(Verb::ReadHolds) && wanted.means_holds() {
        holds.extend(hold_rows::all(&app, now).await?);
    }
    let mut closed_tenants = Vec::new();
    if sight.sees("", Verb::ReadSweeps) && wanted.means_closed_tenants() {
        closed_tenants.extend(closed_rows::all(&app, now).await?);
    }
    let warnings = if wanted.cursor.is_none() { platform_rows::warnings(&app) } else { Vec::new() };
    let (next, partial) = (found.next.map(|id| id.to_string()), found.partial);
    let rows = sight.only(found.items.iter().map(|record| stuck_row(record, now)));
    Ok(Json(StuckFound {
        found: FoundPage { listed: ListPage::new(rows.into_rows(), next), partial },
        channels: sight.only(channels),
        schedules: sight.only(schedules),
        limits,
        holds: sight.only(holds),
        closed_tenants: sight.only(closed_tenants),
        warnings: sight.only(warnings),
    }))
}

fn stuck_row(record: &Record, now: Timestamp) -> Stuck {
    let body: Value = serde_json::from_slice(&record.body).unwrap_or_default();
    let millis = |path: &str| body.pointer(path).and_then(Value::as_u64).map(Timestamp);
    let since = millis("/phase/parked/since").or_else(|| millis("/promised")).unwrap_or(record.updated_at);
    let reason = Reason::VARIANTS.iter().copied().find(|reason| {
        let name: &str = reason.into();
        record.reason.as_deref() == Some(name)
    });
    let values = |field: &str| -> Vec<String> {
        record.attributes.get(field).into_iter().flatten().cloned().collect()
    };
    let asked = values("asked");
    let message = body.pointer("/phase/parked/errors/0/message").and_then(Value::as_str);
    Stuck {
        row: mapping::row(record),
        since: format_time(since),
        age_seconds: now.since(since).as_secs(),
        owner: if asked.is_empty() { vec!["platform_ops".into()] } else { asked },
        next: match reason {
            Some(reason) => next_of(reason),
            None if engine::leftovers().accepts(record) => {
                "see `tenure leftovers show ID`, then `tenure leftovers release ID --reason WHY`"
            }
            None => "check it with `tenure executions show`",
        },
        errors: values("error"),
        message: message.map(ToOwned::to_owned),
    }
}

/// Returns the next step for a reason, in one line; `docs/operations.md` has the details.
fn next_of(reason: Reason) -> &'static str {
    match reason {
        Reason::OutcomeUnknown => "check the target, then retry or cancel",
        Reason::CompensationBlocked => "fix the cause in `errors`, then retry",
        Reason::PastPivotFailure => "fix the cause in `errors`, then retry; it cannot be cancelled",
        Reason::ProtectionFailed => "fix the cause in `errors`, then retry; or cancel",
        Reason::Poisoned => "read the log before each crash, fix the cause, then retry",
        Reason::CommitRefused => {
            "see in `errors` which data cannot be stored, then cancel, or fix it and retry"
        }
        Reason::LimitReached => "see in `errors` which limit was reached, then retry or cancel",
        Reason::Overdue => "see with `show` what it waits for; no retry is needed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use store::Revision;

    fn record(phase: &str, reason: &str, body: &Value) -> Record {
        Record {
            id: ExecutionId::new(Timestamp(1_000), [7; 10]),
            revision: Revision(3),
            workflow: "onboarding".into(),
            schema: 1,
            tenant: "acme".into(),
            subject: "tenant/acme".into(),
            guard: None,
            state: "CarvingSlices".into(),
            phase: phase.into(),
            reason: Some(reason.into()),
            open: true,
            requested_by: "ada".into(),
            created_at: Timestamp(1_000),
            updated_at: Timestamp(9_000),
            attributes: store::Attributes::new(),
            body: body.to_string().into_bytes(),
        }
    }

    #[test]
    fn a_stuck_item_has_its_time_its_owner_and_the_next_step() {
        let error = json!({ "code": "gpu.lost", "message": "no answer" });
        let body = json!({ "phase": { "parked": { "since": 4_000, "errors": [error] } } });
        let parked = stuck_row(&record("parked", "outcome_unknown", &body), Timestamp(64_000));
        assert_eq!((parked.age_seconds, parked.owner), (60, vec!["platform_ops".to_owned()]));
        assert_eq!(
            (parked.since.as_str(), parked.message.as_deref()),
            ("1970-01-01T00:00:04.000Z", Some("no answer"))
        );
        assert!(parked.next.contains("retry or cancel"));

        let mut late = record("forward", "overdue", &json!({ "promised": 5_000 }));
        late.attributes.insert("asked".into(), ["security".to_owned()].into());
        let late = stuck_row(&late, Timestamp(64_000));
        assert_eq!((late.age_seconds, late.owner), (59, vec!["security".to_owned()]));
    }
}
