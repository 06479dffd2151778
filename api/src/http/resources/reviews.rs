//! `/v1/approvals/reviews`: break-glass decisions, each to be reviewed by another person.

use crate::{
    auth::{Caller, delegations_to},
    http::{
        another_person::{recorded_person, require_another_person},
        extract::{
            JsonBody, QueryParams,
            page::{ListPage, Page, scope::list_visible},
        },
        problem::{Problem, code::ProblemCode},
        resources::approvals::{find, person},
    },
    state::{ServerState, SharedState},
    types::mapping,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use engine::{Entity as _, Review, ReviewDone};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The reviews to list: waiting or done.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ReviewState")]
enum ReviewFilter {
    #[default]
    Open,
    Done,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
pub(in crate::http) struct ListParams {
    tenant: Option<String>,
    #[serde(default)]
    state: ReviewFilter,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Returns a review, named by its approval.
fn seen(review: &Review) -> Value {
    let mut value = mapping::readable(review, &["at"]);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("decided_from");
        let id = fields.remove("approval").unwrap_or_default();
        fields.insert("id".into(), id);
        fields.insert("execution".into(), json!(review.execution.to_string()));
        fields.entry("outcome").or_insert(Value::Null);
    }
    value
}

pub(in crate::http) async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let of = |review: &Review| wanted.tenant.as_deref().is_none_or(|tenant| tenant == review.tenant);
    let (found, next) = match wanted.state {
        ReviewFilter::Open => list_visible::<Review>(&app, &caller, "", &page, of).await?,
        ReviewFilter::Done => {
            let (found, next) =
                list_visible::<ReviewDone>(&app, &caller, "", &page, |done| of(&done.0)).await?;
            (found.into_iter().map(|done| done.0).collect(), next)
        }
    };
    Ok(Json(ListPage::new(found.iter().map(seen).collect(), next)))
}

/// The findings of a review.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Found")]
pub(in crate::http) struct ReviewBody {
    #[serde(default)]
    note: String,
}

pub(in crate::http) async fn review(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(found): JsonBody<ReviewBody>,
) -> Result<Json<Value>, Problem> {
    person(&caller)?;
    let case = find(&app, &caller, &id).await?;
    if let Some(review) = waiting_review(&app, &case.id).await? {
        let decided = recorded_person(&app, &review.by, review.decided_from).await?;
        let asked = recorded_person(&app, &review.requested_by, None).await?;
        require_another_person(&app, &caller, vec![decided, asked]).await?;
    }
    let mandates = delegations_to(&**app.engine.store(), &[&caller.name]).await?;
    let now = app.engine.clock().now();
    let done = app
        .engine
        .transact(true, |view| {
            let Some(review) = view.get::<Review>(&case.id)? else { return Ok(None) };
            let done = review.complete(&caller.name, &mandates, &found.note, now)?;
            view.delete::<Review>(&done.id())?;
            view.put(&done)?;
            Ok(Some(done))
        })
        .await?;
    let Some(ReviewDone(review)) = done else {
        let detail = format!("approval {} has no open review", case.id);
        return Err(Problem::new(ProblemCode::NotFound, detail));
    };
    tracing::info!(approval = case.id, by = caller.name, "reviewed a break-glass decision");
    Ok(Json(seen(&review)))
}

/// Returns the open review of this approval.
async fn waiting_review(app: &ServerState, approval: &str) -> Result<Option<Review>, Problem> {
    Ok(app.engine.transact(false, |view| view.get::<Review>(approval)).await?)
}
