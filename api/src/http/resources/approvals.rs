//! `/v1/approvals`: what waits for people, and their decisions.
//!
//! Who may decide is decided in the core. What it needs to know of the voter, of groups and delegations, is gathered here.

use crate::{
    auth::{Caller, User, UserKind, Verb, delegations_to, parties, voting_person},
    http::{
        extract::{
            JsonBody, QueryParams,
            page::{ListPage, Page, document},
        },
        problem::{Problem, code::ProblemCode},
        resources::{
            executions::{full, resolve},
            reviews,
        },
        route::{Access, Route},
        route_doc::{NAMED, VOTED, doc},
    },
    state::{ServerState, SharedState},
    types::{
        approvals::{Approval, Review},
        executions::Execution,
        mapping,
    },
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use engine::{
    ApprovalChange, ApprovalRecord, Attribution, Event, Person, PlanDigest, Refusal, RemovedUser, Seat,
    Verdict, Vote,
};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, decide) = (Access::Tenant(Verb::ReadApprovals), Access::Tenant(Verb::Decide));
    vec![
        Route::get(
            "/v1/approvals",
            read,
            list,
            doc("listApprovals", "Lists what waits for people.").lists::<Approval>(),
        ),
        Route::get(
            "/v1/approvals/{id}",
            read,
            show,
            doc("showApproval", "An approval with its plan, by its own id or its execution's.")
                .says::<Approval>(200)
                .may(NAMED)
                .may(&[ProblemCode::NotWaiting]),
        ),
        Route::get(
            "/v1/approvals/reviews",
            read,
            reviews::list,
            doc("listReviews", "Lists what was decided alone, until somebody else has reviewed it.")
                .lists::<Review>(),
        ),
        Route::post(
            "/v1/approvals/{id}:review",
            Access::Tenant(Verb::Review),
            reviews::review,
            doc("reviewApproval", "Says what came of reviewing a decision that was taken alone.")
                .says::<Review>(200)
                .may(NAMED)
                .may(&[
                    ProblemCode::NotWaiting,
                    ProblemCode::ReviewOwn,
                    ProblemCode::NotSeparate,
                    ProblemCode::NotAPerson,
                ]),
        ),
    ]
    .into_iter()
    .chain(votes(decide))
    .collect()
}

/// What people decide.
fn votes(decide: Access) -> Vec<Route> {
    vec![
        Route::post(
            "/v1/approvals/{id}:approve",
            decide,
            approve,
            doc("approve", "Agrees to the plan that was read.").says::<Execution>(200).tagged().may(VOTED),
        ),
        Route::post(
            "/v1/approvals/{id}:refuse",
            decide,
            refuse,
            doc("refuse", "Refuses the plan that was read; needs a reason.")
                .says::<Execution>(200)
                .tagged()
                .may(VOTED),
        ),
        Route::post(
            "/v1/approvals/{id}:withdraw",
            decide,
            withdraw,
            doc("withdrawVote", "Takes a vote back while nothing is decided.")
                .says::<Execution>(200)
                .tagged()
                .may(VOTED),
        ),
        Route::post(
            "/v1/approvals/{id}:break-glass",
            decide,
            break_glass,
            doc("breakGlass", "Decides alone, in an emergency, where policy lets the caller.")
                .says::<Execution>(200)
                .tagged()
                .may(VOTED),
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ListParams {
    tenant: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Approval>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let tenant = wanted.tenant.as_deref();
    listed(&app, page, |case| of(&caller, tenant, case)).await.map(Json)
}

/// Whether an approval is one that the caller may meet, and of the tenant that is asked for.
fn of(caller: &Caller, tenant: Option<&str>, case: &ApprovalRecord) -> bool {
    caller.sees(&case.tenant) && tenant.is_none_or(|tenant| tenant == case.tenant)
}

/// A page of the open approvals that `of` takes.
pub(in crate::http) async fn listed(
    app: &ServerState,
    page: Page,
    of: impl Fn(&ApprovalRecord) -> bool,
) -> Result<ListPage<Approval>, Problem> {
    let (mut items, mut after) = (Vec::new(), page.after);
    loop {
        let room = page.limit.saturating_sub(items.len());
        let found = app.engine.approvals(after.as_deref(), room).await?;
        for case in found.items.iter().filter(|case| of(case)) {
            items.push(seen(app, case).await?);
        }
        after = found.next;
        if after.is_none() || items.len() >= page.limit {
            return Ok(ListPage::new(items, after));
        }
    }
}

/// An approval, with the votes marked of whoever is a user no more.
async fn seen(app: &ServerState, case: &ApprovalRecord) -> Result<Approval, Problem> {
    let mut shown = mapping::approval(case, app.engine.separation());
    for (cast, vote) in shown.votes.iter_mut().zip(&case.votes) {
        let user = document::<User>(app, &vote.person.name).await?;
        // Another of the same name, added since, is somebody else.
        cast.removed = user.is_none_or(|user| user.created_at > vote.at);
        if cast.removed {
            let removed = document::<RemovedUser>(app, &vote.person.name).await?;
            cast.removed_at = removed.and_then(|one| one.removed_since(vote.at)).map(format_time);
        }
    }
    Ok(shown)
}

/// Which approvals are watched: those that concern the caller, or all that the list shows.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Watched")]
pub(in crate::http) struct WatchParams {
    tenant: Option<String>,
    #[serde(default)]
    all: bool,
    limit: Option<usize>,
}

impl WatchParams {
    /// The page with which a stream begins.
    pub(in crate::http) fn begins(&self) -> Result<Page, Problem> {
        Page::of(self.limit, None)
    }

    /// Whether the caller, who sits as `person`, hears of an approval.
    pub(in crate::http) fn takes(&self, caller: &Caller, person: &Person, case: &ApprovalRecord) -> bool {
        of(caller, self.tenant.as_deref(), case) && (self.all || concerns(person, case))
    }
}

/// Whether somebody is or was asked, has voted, or has asked for it.
fn concerns(person: &Person, case: &ApprovalRecord) -> bool {
    let suits =
        |seats: &[Seat]| seats.iter().flat_map(|seat| &seat.any_of).any(|role| person.roles.contains(role));
    let was_asked = case.history.iter().any(|happened| match &happened.what {
        ApprovalChange::Escalated { from, .. } => suits(from),
        ApprovalChange::Reminded
        | ApprovalChange::Extended { .. }
        | ApprovalChange::Withdrawn { .. }
        | ApprovalChange::Voided { .. } => false,
    });
    let voted = |vote: &Vote| {
        [Some(&vote.person), vote.on_behalf_of.as_ref()]
            .into_iter()
            .flatten()
            .any(|voter| voter.name == person.name)
    };
    suits(&case.seats) || was_asked || case.requested_by == person.name || case.votes.iter().any(voted)
}

/// The approval that `text` names: by its own id, or by the execution, of which it is the one that is open, or was the last.
pub(in crate::http) async fn find(
    app: &ServerState,
    caller: &Caller,
    text: &str,
) -> Result<ApprovalRecord, Problem> {
    let missing = || Problem::not_found("approval", text);
    if let Some((execution, number)) = text.split_once('.') {
        let record = resolve(app, caller, execution).await.map_err(|_| missing())?;
        let case = app.engine.approval_record(&format!("{}.{number}", record.id)).await?;
        return case.filter(|case| caller.sees(&case.tenant)).ok_or_else(missing);
    }
    let record = resolve(app, caller, text).await?;
    if let Some(open) = app.engine.approval(record.id).await? {
        return Ok(open);
    }
    app.engine.approval_records(record.id).await?.pop().ok_or_else(|| {
        let (id, state) = (record.id, &record.state);
        let detail = format!("execution {id} waits for no approval and had none; it is in {state}");
        Problem::new(ProblemCode::NotWaiting, detail)
    })
}

async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Approval>, Problem> {
    Ok(Json(seen(&app, &find(&app, &caller, &id).await?).await?))
}

/// A decision on the plan that was read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Decision {
    digest: Option<String>,
    /// For whom, if not in the caller's own right.
    on_behalf_of: Option<String>,
    #[serde(default)]
    reason: String,
}

async fn approve(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(decision): JsonBody<Decision>,
) -> Result<Response, Problem> {
    decide(&app, &caller, &id, (Verdict::Approve, false), decision).await
}

async fn refuse(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(decision): JsonBody<Decision>,
) -> Result<Response, Problem> {
    decide(&app, &caller, &id, (Verdict::Refuse, false), decision).await
}

/// Refuses a service: what takes people is decided by people.
pub(in crate::http) fn person(caller: &Caller) -> Result<(), Problem> {
    match caller.kind {
        UserKind::Person => Ok(()),
        UserKind::Service => {
            let detail = format!("{} is a service, and decides nothing that takes people", caller.name);
            Err(Problem::new(ProblemCode::NotAPerson, detail))
        }
    }
}

/// Agrees alone, in an emergency, where policy lets the caller.
async fn break_glass(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(decision): JsonBody<Decision>,
) -> Result<Response, Problem> {
    decide(&app, &caller, &id, (Verdict::Approve, true), decision).await
}

/// The approval that `id` names, if it is still open.
async fn open(app: &SharedState, caller: &Caller, id: &str) -> Result<ApprovalRecord, Problem> {
    let case = find(app, caller, id).await?;
    // One that is decided and not closed waits for its execution to be resumed: the core says so.
    if let Some(ruling) = case.ruling.as_ref().filter(|_| case.closed_at.is_some()) {
        let detail = format!("approval {} is closed: {ruling}", case.id);
        return Err(Problem::new(ProblemCode::NotWaiting, detail));
    }
    Ok(case)
}

async fn decide(
    app: &SharedState,
    caller: &Caller,
    id: &str,
    (verdict, break_glass): (Verdict, bool),
    decision: Decision,
) -> Result<Response, Problem> {
    person(caller)?;
    let case = open(app, caller, id).await?;
    let digest = decision.digest.filter(|digest| !digest.is_empty()).ok_or_else(|| {
        let detail =
            format!("a decision counts for one plan alone; the plan of {} is named by its digest", case.id);
        Problem::new(ProblemCode::DigestMissing, detail)
    })?;
    let other = decision.on_behalf_of.filter(|name| !name.is_empty());
    let store = &**app.engine.store();
    let missing =
        || Refusal::NotDelegated { person: caller.name.clone(), from: other.clone().unwrap_or_default() };
    let person = voting_person(store, &caller.name, caller).await?.unwrap_or_else(|| caller.person());
    let on_behalf_of = match &other {
        Some(name) => Some(voting_person(store, name, caller).await?.ok_or_else(missing)?),
        None => None,
    };
    let names: Vec<&str> = [Some(caller.name.as_str()), other.as_deref()].into_iter().flatten().collect();
    let asked = who_asked(app, &case).await?;
    let vote = Vote {
        on_behalf_of,
        parties: parties(store, &asked).await?,
        mandates: delegations_to(store, &names).await?,
        break_glass,
        ..Vote::new(person, verdict, decision.reason, app.engine.clock().now())
    };
    app.engine.deliver(case.execution, Event::Voted { vote, digest: PlanDigest(digest) }).await?;
    full(app, case.execution, StatusCode::OK).await
}

/// Who asked for the execution, and who has changed its plan since.
async fn who_asked(app: &ServerState, case: &ApprovalRecord) -> Result<BTreeSet<String>, Problem> {
    let (_, shown) = app.engine.execution(case.execution).await?;
    let editors = shown.body.get("shaped_by").and_then(Value::as_array).into_iter().flatten();
    let editors = editors.filter_map(Value::as_str).map(ToOwned::to_owned);
    Ok(editors.chain([case.requested_by.clone()]).collect())
}

/// Why a vote is taken back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Withdrawal {
    #[serde(default)]
    reason: String,
}

async fn withdraw(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(why): JsonBody<Withdrawal>,
) -> Result<Response, Problem> {
    let case = open(&app, &caller, &id).await?;
    let order = Attribution { by: caller.name, reason: why.reason };
    app.engine.withdraw_vote(case.execution, order).await?;
    full(&app, case.execution, StatusCode::OK).await
}
