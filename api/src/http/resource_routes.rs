//! The list and show routes of resources with the same pattern.
//!
//! Invariant: no answer contains a document of a tenant that the caller may not see. A list reads only documents of the caller's tenant. A document by id is
//! returned only if it names that tenant.

use crate::{
    auth::Caller,
    http::{
        extract::{
            QueryParams,
            if_match::tag,
            page::{
                ListPage, Page,
                scope::{get_visible, get_visible_with_version, list_visible},
            },
        },
        problem::{Problem, code::ProblemCode},
        resource_kind::ResourceKind,
        route::{Access, Route},
        route_doc::RouteDoc,
    },
    state::{ServerState, SharedState},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::header,
    response::{IntoResponse as _, Response},
};
use serde_json::Value;
use std::collections::BTreeMap;
use store::{CompositeKey, Sequence};
use workflows::tenancy::Cohort;

/// Returns the two routes of a resource, with their documentation.
pub(super) fn read_routes<T: ResourceKind>(
    (list_at, listed): (&'static str, RouteDoc),
    (show_at, shown): (&'static str, RouteDoc),
    access: Access,
) -> Vec<Route> {
    let shown = if T::BOUND { shown.tagged() } else { shown };
    vec![
        Route::get(list_at, access, list::<T>, listed.filters::<T>()),
        Route::get(show_at, access, show::<T>, shown),
    ]
}

impl RouteDoc {
    /// Documents the filter parameters of the list.
    pub(super) fn filters<T: ResourceKind>(self) -> Self {
        let names = ALWAYS.iter().chain(T::FILTERS.iter().map(|(name, _)| name));
        names
            .fold(self, |told, name| told.asks(name, "Only items with this value."))
            .may(&[ProblemCode::QueryInvalid])
    }
}

/// The parameters of every list.
const ALWAYS: [&str; 3] = ["tenant", "limit", "cursor"];

pub(super) async fn list<T: ResourceKind>(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(mut wanted): QueryParams<BTreeMap<String, String>>,
) -> Result<Json<ListPage<Value>>, Problem> {
    if let Some(other) = wanted.keys().find(|name| !known::<T>(name)) {
        let names: Vec<_> = ALWAYS.iter().copied().chain(T::FILTERS.iter().map(|(name, _)| *name)).collect();
        let detail = format!("{other}: filter a list of {}s by {}", T::WORD, names.join(", "));
        return Err(Problem::new(ProblemCode::QueryInvalid, detail));
    }
    let limit = wanted.remove("limit").map(|text| {
        text.parse()
            .map_err(|_| Problem::new(ProblemCode::QueryInvalid, format!("limit: {text:?} is not a number")))
    });
    let page = Page::of(limit.transpose()?, wanted.remove("cursor").as_deref())?;
    let tenant = wanted.remove("tenant");
    if tenant.as_deref().is_some_and(|tenant| !caller.sees(tenant)) {
        return Ok(Json(ListPage::new(Vec::new(), None)));
    }
    let tenant = caller.tenant.clone().or(tenant);
    let prefix =
        tenant.as_deref().filter(|_| T::BY_TENANT).map(|tenant| CompositeKey::of(&[&tenant]).prefix());
    let meant = |item: &T| {
        tenant.as_deref().is_none_or(|tenant| tenant == item.tenant())
            && (wanted.is_empty() || matches_filters::<T>(&item.seen(None), &wanted))
    };
    let (found, next) = list_visible::<T>(&app, &caller, &prefix.unwrap_or_default(), &page, meant).await?;
    let accounts = accounts(&app, &caller, &found).await?;
    let items = found.iter().map(|item| item.seen(accounts.get(item.tenant())));
    Ok(Json(ListPage::new(items.collect(), next)))
}

fn known<T: ResourceKind>(name: &str) -> bool {
    ALWAYS.contains(&name) || T::FILTERS.iter().any(|(filter, _)| *filter == name)
}

/// Returns true if the answer has every wanted value.
fn matches_filters<T: ResourceKind>(shown: &Value, wanted: &BTreeMap<String, String>) -> bool {
    T::FILTERS.iter().all(|(name, place)| {
        let Some(wanted) = wanted.get(*name) else { return true };
        match shown.pointer(place) {
            Some(Value::String(text)) => text == wanted,
            Some(other) => serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| wanted == *other),
            None => false,
        }
    })
}

/// Returns the account of each tenant of a page.
async fn accounts<T: ResourceKind>(
    app: &ServerState,
    caller: &Caller,
    page: &[T],
) -> Result<BTreeMap<String, Cohort>, Problem> {
    let mut accounts = BTreeMap::new();
    for item in page {
        if !accounts.contains_key(item.tenant())
            && let Some(cohort) = get_visible::<Cohort>(app, caller, item.tenant()).await?
        {
            accounts.insert(item.tenant().to_owned(), cohort);
        }
    }
    Ok(accounts)
}

pub(super) async fn show<T: ResourceKind>(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(parts): Path<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let parts: Vec<&str> = parts.iter().map(|(_, part)| part.as_str()).collect();
    let (item, version) = find_as_read::<T>(&app, &caller, &parts).await?;
    let account = get_visible::<Cohort>(&app, &caller, item.tenant()).await?;
    let tag = T::BOUND.then(|| [(header::ETAG, tag(version))]);
    Ok((tag, Json(item.seen(account.as_ref()))).into_response())
}

/// Returns the document at the path, if the caller may see it.
pub(super) async fn find<T: ResourceKind>(
    app: &ServerState,
    caller: &Caller,
    parts: &[&str],
) -> Result<T, Problem> {
    Ok(find_as_read(app, caller, parts).await?.0)
}

async fn find_as_read<T: ResourceKind>(
    app: &ServerState,
    caller: &Caller,
    parts: &[&str],
) -> Result<(T, Sequence), Problem> {
    let found = get_visible_with_version::<T>(app, caller, &T::key(parts)).await?;
    found.ok_or_else(|| Problem::not_found(T::WORD, &parts.join("/")))
}
