//! `/v1/holds`: legal holds, which prevent the destruction of data.

use crate::{
    auth::{Caller, Verb},
    http::{
        another_person::{own_provenance, recorded_person, require_another_person},
        extract::{
            JsonBody, QueryParams,
            if_match::{IfMatch, tag, tagged},
            page::{
                ListPage, Page,
                scope::{get_visible, get_visible_with_version, list_visible},
            },
        },
        problem::{Problem, code::ProblemCode},
        resources::{
            approvals::person,
            offboardings::{changing, require_asset},
        },
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use engine::{View, with_reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{CompositeKey, Sequence};
use workflows::{
    destruction::{
        AssetId, Hold, HoldError, HoldKind, HoldRefused, HoldScope, Holds, PlaceHold, ReleaseHold,
        ReleasedHold,
    },
    offboarding::HOLD_RELEASED,
    signing::Moment,
    tenancy::{Tenant, TenantId, Workspace, WorkspaceName, workspace_key},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, hold) = (Access::Tenant(Verb::ReadHolds), Access::Staff(Verb::Hold));
    vec![
        Route::get(
            "/v1/holds",
            read,
            list,
            doc("listHolds", "Lists legal holds, in force or released.").lists::<types::compliance::Hold>(),
        ),
        Route::get(
            "/v1/holds/{tenant}/{hold}",
            read,
            show,
            doc("showHold", "A hold.").says::<types::compliance::Hold>(200).tagged(),
        ),
        Route::post(
            "/v1/holds",
            hold,
            place,
            doc("placeHold", "Places a hold on a tenant, a workspace or an asset.")
                .says::<types::compliance::Hold>(201)
                .located()
                .tagged()
                .may(&[ProblemCode::HoldPastPivot, ProblemCode::HoldRefused]),
        ),
        Route::post(
            "/v1/holds/{tenant}/{hold}:release",
            hold,
            release,
            doc("releaseHold", "Releases a hold that another person placed.")
                .says::<types::compliance::Hold>(200)
                .tagged()
                .bound(ProblemCode::StaleTag)
                .may(&[
                    ProblemCode::HoldPastPivot,
                    ProblemCode::OwnHold,
                    ProblemCode::NotSeparate,
                    ProblemCode::NotAPerson,
                    ProblemCode::HoldRefused,
                ]),
        ),
    ]
}

/// The holds to list: in force or released.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HoldState")]
enum HoldFilter {
    #[default]
    Open,
    Released,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ListParams {
    tenant: Option<String>,
    #[serde(default)]
    state: HoldFilter,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn open(tenant: &str, hold: &Hold) -> Value {
    let mut value = json!(hold);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("placed_from");
        fields.insert("id".into(), json!(format!("{tenant}/{}", hold.id)));
        fields.insert("tenant".into(), json!(tenant));
        fields.insert("state".into(), json!(HoldFilter::Open));
    }
    value
}

fn released(of: &ReleasedHold) -> Value {
    let mut value = open(of.tenant.as_str(), &of.hold);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("state".into(), json!(HoldFilter::Released));
        fields.insert("released_by".into(), json!(of.released_by));
        fields.insert("released_at".into(), json!(of.released_at));
        fields.insert("released_because".into(), json!(of.reason));
        fields.insert("number".into(), json!(of.number));
    }
    value
}

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    if wanted.tenant.as_deref().is_some_and(|tenant| !caller.sees(tenant)) {
        return Ok(Json(ListPage::new(Vec::new(), None)));
    }
    let tenant = caller.tenant.clone().or(wanted.tenant);
    match wanted.state {
        HoldFilter::Open => in_force(&app, &caller, tenant.as_deref(), &page).await.map(Json),
        HoldFilter::Released => {
            let prefix = tenant.map(|tenant| CompositeKey::of(&[&tenant]).prefix()).unwrap_or_default();
            let (found, next) = list_visible::<ReleasedHold>(&app, &caller, &prefix, &page, |_| true).await?;
            Ok(Json(ListPage::new(found.iter().map(released).collect(), next)))
        }
    }
}

/// Returns the holds in force, by tenant and name. They share one document per tenant, so the cursor names a hold and not a document.
async fn in_force(
    app: &ServerState,
    caller: &Caller,
    tenant: Option<&str>,
    page: &Page,
) -> Result<ListPage<Value>, Problem> {
    let from = page.after.as_deref().and_then(|after| after.split_once('/'));
    let mut all = match tenant.or(from.map(|(tenant, _)| tenant)) {
        Some(first) => get_visible::<Holds>(app, caller, first).await?.into_iter().collect(),
        None => Vec::new(),
    };
    let mut after = from.map(|(tenant, _)| tenant.to_owned());
    let mut items: Vec<(String, Value)> = Vec::new();
    loop {
        for holds in all.drain(..) {
            let mut open_holds: Vec<_> = holds.open.iter().collect();
            open_holds.sort_by(|a, b| a.id.cmp(&b.id));
            let name = holds.tenant.as_str();
            let fresh = open_holds
                .into_iter()
                .filter(|hold| from.is_none_or(|(tenant, id)| (name, hold.id.as_str()) > (tenant, id)));
            items.extend(fresh.map(|hold| (format!("{name}/{}", hold.id), open(name, hold))));
        }
        if tenant.is_some() || items.len() > page.limit {
            break;
        }
        let part = Page { limit: page.limit, after };
        let (found, next) = list_visible::<Holds>(app, caller, "", &part, |_| true).await?;
        if found.is_empty() {
            break;
        }
        after = next.or_else(|| found.last().map(|holds| holds.tenant.to_string()));
        all = found;
    }
    let more = items.len() > page.limit;
    items.truncate(page.limit);
    let next = items.last().map(|(id, _)| id.clone()).filter(|_| more);
    Ok(ListPage::new(items.into_iter().map(|(_, item)| item).collect(), next))
}

async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path((tenant, hold)): Path<(String, String)>,
) -> Result<Response, Problem> {
    stands(&app, &caller, &tenant, &hold).await
}

/// Returns a hold, with the released holds that had the same name. The version of a hold in force is that of the tenant's document of holds.
async fn stands(app: &ServerState, caller: &Caller, tenant: &str, hold: &str) -> Result<Response, Problem> {
    let missing = || Problem::not_found("hold", &format!("{tenant}/{hold}"));
    if !caller.sees(tenant) {
        return Err(missing());
    }
    let in_force = get_visible_with_version::<Holds>(app, caller, tenant).await?;
    let in_force = in_force.and_then(|(holds, version)| {
        let found = holds.open.into_iter().find(|there| there.id == hold)?;
        Some((open(tenant, &found), version))
    });
    let mut earlier = released_before(app, caller, tenant, hold).await?;
    let (mut shown, version) = in_force.or_else(|| earlier.pop()).ok_or_else(missing)?;
    if let Some(fields) = shown.as_object_mut().filter(|_| !earlier.is_empty()) {
        let earlier: Vec<Value> = earlier.into_iter().map(|(hold, _)| hold).collect();
        fields.insert("earlier".into(), json!(earlier));
    }
    Ok(tagged(tag(version), shown))
}

/// Returns the released holds with this name, oldest first.
async fn released_before(
    app: &ServerState,
    caller: &Caller,
    tenant: &str,
    hold: &str,
) -> Result<Vec<(Value, Sequence)>, Problem> {
    let Ok(tenant) = tenant.parse::<TenantId>() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for number in 1.. {
        let key = ReleasedHold::key(&tenant, hold, number);
        let Some((found, version)) = get_visible_with_version::<ReleasedHold>(app, caller, &key).await?
        else {
            break;
        };
        all.push((released(&found), version));
    }
    Ok(all)
}

/// A new hold. Without a workspace and an asset it covers the whole tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewHold {
    #[schemars(with = "String")]
    tenant: TenantId,
    id: String,
    /// `legal`, `incident` or `billing`.
    #[schemars(with = "String")]
    kind: HoldKind,
    #[schemars(with = "Option<String>")]
    workspace: Option<WorkspaceName>,
    #[schemars(with = "Option<String>")]
    asset: Option<AssetId>,
    reason: String,
    #[schemars(with = "Option<types::Time>")]
    review_at: Option<String>,
}

async fn place(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<NewHold>,
) -> Result<Response, Problem> {
    if new.id.contains('/') {
        return Err(Problem::new(ProblemCode::DocumentInvalid, "id: the name of a hold may not contain '/'"));
    }
    let moment = |text: String| text.parse::<Moment>();
    let review_at = new.review_at.map(moment).transpose();
    let review_at =
        review_at.map_err(|why| Problem::new(ProblemCode::DocumentInvalid, format!("review_at: {why}")))?;
    let scope = match (new.asset, new.workspace) {
        (Some(asset), workspace) => HoldScope::Asset { asset, workspace },
        (None, Some(workspace)) => HoldScope::Workspace(workspace),
        (None, None) => HoldScope::Tenant,
    };
    if let HoldScope::Asset { asset, .. } = &scope {
        require_asset(&app, &new.tenant, asset).await?;
    }
    let order = PlaceHold {
        tenant: new.tenant,
        id: new.id,
        kind: new.kind,
        scope,
        reason: new.reason,
        placed_by: caller.name.clone(),
        placed_from: own_provenance(&app, &caller).await?,
        review_at,
    };
    let place = |view: &mut View| {
        view.require::<Tenant>(order.tenant.as_str())?;
        if let Some(workspace) = order.scope.workspace() {
            view.require::<Workspace>(&workspace_key(&order.tenant, workspace))?;
        }
        order.place(view)
    };
    let placed = with_reason(&order.reason, app.engine.transact(true, place)).await?;
    let hold = placed.map_err(refused)?;
    tracing::info!(tenant = %order.tenant, hold = hold.id, by = caller.name, "hold placed");
    let location = [(header::LOCATION, format!("/v1/holds/{}/{}", order.tenant, hold.id))];
    let placed = stands(&app, &caller, order.tenant.as_str(), &hold.id).await?;
    Ok((StatusCode::CREATED, location, placed).into_response())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Why")]
struct ReleaseBody {
    #[serde(default)]
    reason: String,
}

async fn release(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path((tenant, id)): Path<(String, String)>,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReleaseBody>,
) -> Result<Response, Problem> {
    person(&caller)?;
    let missing = || Problem::not_found("hold", &format!("{tenant}/{id}"));
    let order = ReleaseHold {
        tenant: tenant.parse().map_err(|_| missing())?,
        id: id.clone(),
        released_by: caller.name.clone(),
        reason: why.reason,
    };
    let placed = get_visible::<Holds>(&app, &caller, &tenant).await?;
    let placed = placed.and_then(|holds| holds.open.into_iter().find(|hold| hold.id == id));
    if let Some(hold) = placed {
        let placed_by = recorded_person(&app, &hold.placed_by, hold.placed_from).await?;
        require_another_person(&app, &caller, vec![placed_by]).await?;
    }
    let waits = changing(&app, &tenant).await?;
    let release = |view: &mut View| {
        let released = order.release(view)?;
        if let (Ok(_), Some(waits)) = (&released, waits) {
            view.signal(waits, HOLD_RELEASED);
        }
        Ok(released)
    };
    let release = with_reason(&order.reason, app.engine.transact(true, release));
    bound.bind::<Holds, _>("the list of holds", &tenant, release).await?.map_err(refused)?;
    tracing::info!(tenant, hold = id, by = caller.name, "hold released");
    stands(&app, &caller, &tenant, &id).await
}

/// The problem of a hold that was not placed or released, with the destroyed and the remaining assets where they are the reason.
fn refused(refused: HoldRefused) -> Problem {
    let code = match &refused.error {
        HoldError::PastPivot { .. } => ProblemCode::HoldPastPivot,
        HoldError::OwnHold { .. } => ProblemCode::OwnHold,
        HoldError::NoSuchHold { .. } => ProblemCode::NotFound,
        HoldError::Text { .. } => ProblemCode::DocumentInvalid,
        HoldError::Held { .. } | HoldError::Taken { .. } | HoldError::TooMany { .. } => {
            ProblemCode::HoldRefused
        }
    };
    let problem = Problem::new(code, refused.to_string());
    let problem = match &refused.error {
        HoldError::PastPivot { pivot } => problem.with("execution", pivot.run.to_string()),
        HoldError::OwnHold { .. }
        | HoldError::NoSuchHold { .. }
        | HoldError::Text { .. }
        | HoldError::Held { .. }
        | HoldError::Taken { .. }
        | HoldError::TooMany { .. } => problem,
    };
    match refused.standing {
        Some(standing) => problem
            .with("destroyed", json!(standing.destroyed))
            .with("still_there", json!(standing.still_there)),
        None => problem,
    }
}
