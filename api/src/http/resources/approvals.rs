//! `/v1/approvals`: open approvals and the decisions on them.
//!
//! The engine's core decides who may vote. This module collects its inputs: the voter, groups and delegations.

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
            doc("listApprovals", "Lists open approvals.").lists::<Approval>(),
        ),
        Route::get(
            "/v1/approvals/{id}",
            read,
            show,
            doc("showApproval", "Shows an approval with its plan, by its own id or that of its execution.")
                .says::<Approval>(200)
                .may(NAMED)
                .may(&[ProblemCode::NotWaiting]),
        ),
        Route::get(
            "/v1/approvals/reviews",
            read,
            reviews::list,
            doc("listReviews", "Lists break-glass decisions that wait for a review.").lists::<Review>(),
        ),
        Route::post(
            "/v1/approvals/{id}:review",
            Access::Tenant(Verb::Review),
            reviews::review,
            doc("reviewApproval", "Records the review of a break-glass decision.")
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

/// Routes that decide on an approval.
fn votes(decide: Access) -> Vec<Route> {
    vec![
        Route::post(
            "/v1/approvals/{id}:approve",
            decide,
            approve,
            doc("approve", "Approves the plan.").says::<Execution>(200).tagged().may(VOTED),
        ),
        Route::post(
            "/v1/approvals/{id}:refuse",
            decide,
            refuse,
            doc("refuse", "Refuses the plan; needs a reason.").says::<Execution>(200).tagged().may(VOTED),
        ),
        Route::post(
            "/v1/approvals/{id}:withdraw",
            decide,
            withdraw,
            doc("withdrawVote", "Withdraws a vote while the approval is open.")
                .says::<Execution>(200)
                .tagged()
                .may(VOTED),
        ),
        Route::post(
            "/v1/approvals/{id}:break-glass",
            decide,
            break_glass,
            doc(
                "breakGlass",
                "Approves without other votes in an emergency (break glass), if the policy allows this caller to.",
            )
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

/// Returns true if the caller may see the approval and it belongs to the requested tenant.
fn of(caller: &Caller, tenant: Option<&str>, case: &ApprovalRecord) -> bool {
    caller.sees(&case.tenant) && tenant.is_none_or(|tenant| tenant == case.tenant)
}

/// Returns a page of the open approvals that `of` selects.
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

/// Returns an approval. Votes of removed users are marked.
async fn seen(app: &ServerState, case: &ApprovalRecord) -> Result<Approval, Problem> {
    let mut shown = mapping::approval(case, app.engine.separation());
    for (cast, vote) in shown.votes.iter_mut().zip(&case.votes) {
        let user = document::<User>(app, &vote.person.name).await?;
        // A user who was added later with the same name is another person.
        cast.removed = user.is_none_or(|user| user.created_at > vote.at);
        if cast.removed {
            let removed = document::<RemovedUser>(app, &vote.person.name).await?;
            cast.removed_at = removed.and_then(|one| one.removed_since(vote.at)).map(format_time);
        }
    }
    Ok(shown)
}

/// The approvals of a stream: those that concern the caller, or all of the list.
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
    /// Returns the page with which a stream begins.
    pub(in crate::http) fn begins(&self) -> Result<Page, Problem> {
        Page::of(self.limit, None)
    }

    /// Returns true if the stream sends an approval to the caller, who sits as `person`.
    pub(in crate::http) fn takes(&self, caller: &Caller, person: &Person, case: &ApprovalRecord) -> bool {
        of(caller, self.tenant.as_deref(), case) && (self.all || concerns(person, case))
    }
}

/// Returns true if the person is or was asked to vote, has voted, or is the requester.
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

/// Returns an approval by its own id, or the open or last approval of an execution.
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
        let detail = format!("execution {id} has no approval; its state is {state}");
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

/// A decision on a plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Decision {
    digest: Option<String>,
    /// The user for whom the caller votes; the caller if absent.
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

/// Rejects a service account: only persons may decide.
pub(in crate::http) fn person(caller: &Caller) -> Result<(), Problem> {
    match caller.kind {
        UserKind::Person => Ok(()),
        UserKind::Service => {
            let detail = format!("{} is a service account, and cannot decide on approvals", caller.name);
            Err(Problem::new(ProblemCode::NotAPerson, detail))
        }
    }
}

/// Approves without other votes in an emergency, if the policy allows this caller to.
async fn break_glass(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(decision): JsonBody<Decision>,
) -> Result<Response, Problem> {
    decide(&app, &caller, &id, (Verdict::Approve, true), decision).await
}

/// Returns the approval, if it is still open.
async fn open(app: &SharedState, caller: &Caller, id: &str) -> Result<ApprovalRecord, Problem> {
    let case = find(app, caller, id).await?;
    // A decided approval that is not closed waits for its execution to be resumed. The core rejects votes on it.
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
            format!("a decision is valid for one plan only: send the digest of the plan of {}", case.id);
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

/// Returns the requester of the execution, and everyone who has changed its plan since.
async fn who_asked(app: &ServerState, case: &ApprovalRecord) -> Result<BTreeSet<String>, Problem> {
    let (_, shown) = app.engine.execution(case.execution).await?;
    let editors = shown.body.get("shaped_by").and_then(Value::as_array).into_iter().flatten();
    let editors = editors.filter_map(Value::as_str).map(ToOwned::to_owned);
    Ok(editors.chain([case.requested_by.clone()]).collect())
}

/// The reason for withdrawing a vote.
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
