//! `/v1/clusters`, `/v1/regions` and `/v1/fleet:import`: the hardware.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams, TextBody,
            page::{ListPage, Page, document, documents},
            understood,
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState, targets},
    types::{self, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use engine::{Undecided, View};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::str::FromStr;
use workflows::{
    fleet::{Import, import_nodes, import_sites, parse_inventory, parse_sites},
    tenancy::{Cluster, ClusterId, FreePool, Region},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Staff(Verb::ReadFleet);
    vec![
        Route::get(
            "/v1/clusters",
            read,
            clusters,
            doc("listClusters", "Lists clusters with their GPUs, by region.")
                .lists::<types::fleet::Cluster>(),
        ),
        Route::get(
            "/v1/clusters/{id}",
            read,
            cluster,
            doc("showCluster", "Shows a cluster with its GPUs.").says::<types::fleet::Cluster>(200),
        ),
        Route::get(
            "/v1/regions",
            read,
            regions,
            doc("listRegions", "Lists regions.").lists::<types::fleet::Region>(),
        ),
        Route::get(
            "/v1/regions/{id}",
            read,
            region,
            doc("showRegion", "A region.").says::<types::fleet::Region>(200),
        ),
        Route::post(
            "/v1/fleet:import",
            Access::Staff(Verb::ImportFleet),
            import,
            doc(
                "importFleet",
                "Imports nodes as CSV, or regions and clusters as YAML: the whole file or nothing.",
            )
            .reads(&["text/csv", "application/yaml"], None)
            .says::<types::fleet::Imported>(200)
            .may(&[ProblemCode::MediaType, ProblemCode::QueryInvalid]),
        ),
        Route::post(
            "/v1/fleet:plan",
            Access::Staff(Verb::ImportFleet),
            plan,
            doc("planFleet", "Lists the changes that an import would make. Changes nothing.")
                .reads(&["text/csv", "application/yaml"], None)
                .says::<types::fleet::Imported>(200)
                .may(&[ProblemCode::MediaType, ProblemCode::QueryInvalid]),
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ListParams {
    region: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Returns a cluster with its total and free GPUs of each model.
async fn seen(app: &ServerState, cluster: &Cluster) -> Result<Value, Problem> {
    let mut gpus = Map::new();
    for model in &cluster.models {
        let pool = document::<FreePool>(app, &FreePool::key(&cluster.id, model)).await?;
        let (total, free, nodes) =
            pool.map_or((0, 0, 0), |pool| (pool.gpus().0, pool.free().0, pool.nodes()));
        gpus.insert(model.to_string(), json!({ "nodes": nodes, "gpus": total, "free": free }));
    }
    let mut value = mapping::thing(cluster, &[]);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("gpus".into(), Value::Object(gpus));
        fields.insert("simulated".into(), Value::Bool(cluster.is_simulated()));
    }
    Ok(value)
}

async fn clusters(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let meant =
        |cluster: &Cluster| wanted.region.as_deref().is_none_or(|region| region == cluster.region.as_str());
    let (found, next) = documents::<Cluster>(&app, "", &page, meant).await?;
    let mut items = Vec::new();
    for cluster in &found {
        items.push(seen(&app, cluster).await?);
    }
    Ok(Json(ListPage::new(items, next)))
}

async fn cluster(State(app): State<SharedState>, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let found = document::<Cluster>(&app, &id).await?;
    let found = found.ok_or_else(|| Problem::not_found("cluster", &id))?;
    Ok(Json(seen(&app, &found).await?))
}

async fn regions(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let (found, next) = documents::<Region>(&app, "", &page, |_| true).await?;
    Ok(Json(ListPage::new(found.iter().map(|region| mapping::thing(region, &[])).collect(), next)))
}

async fn region(State(app): State<SharedState>, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let found = document::<Region>(&app, &id).await?;
    found.map(|found| Json(mapping::thing(&found, &[]))).ok_or_else(|| Problem::not_found("region", &id))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Target")]
struct ImportParams {
    cluster: Option<String>,
    region: Option<String>,
}

/// Imports nodes as CSV into a cluster, or regions and clusters as YAML: the whole file or nothing.
async fn import(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(target): QueryParams<ImportParams>,
    body: TextBody,
) -> Result<Json<Value>, Problem> {
    let report = read(&app, &caller, target, body, true).await?;
    app.freed.notify_one();
    Ok(Json(report))
}

/// Dry run of an import.
async fn plan(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(target): QueryParams<ImportParams>,
    body: TextBody,
) -> Result<Json<Value>, Problem> {
    read(&app, &caller, target, body, false).await.map(Json)
}

async fn read(
    app: &ServerState,
    caller: &Caller,
    target: ImportParams,
    body: TextBody,
    keep: bool,
) -> Result<Value, Problem> {
    if body.media == "text/csv" {
        let parsed =
            |body: &TextBody| parse_inventory(&body.text).map_err(|invalid| Problem::invalid(&invalid));
        let inventory = understood(app, caller, body, parsed).await?;
        let cluster = name("cluster", target.cluster.as_deref())?;
        let region = name("region", target.region.as_deref())?;
        let platform = app.engine.platform();
        let imported = app.engine.transact(keep, |view| {
            let mut report = import_nodes(view, &inventory.rows, &cluster, &region)?;
            report.notes.extend(inventory.notes.iter().cloned());
            targets::record_backend(view, platform, &cluster)?;
            let simulated = simulated(view, &cluster)?;
            Ok(Import { without_gpus: inventory.without_gpus, simulated, ..report })
        });
        let report = imported.await?;
        Ok(json!({ "kind": "nodes", "report": report }))
    } else if body.is_yaml() {
        let sites = |body: &TextBody| parse_sites(&body.text).map_err(|invalid| Problem::invalid(&invalid));
        let sites = understood(app, caller, body, sites).await?;
        let sites = targets::with_backends(sites, app.engine.platform());
        let platform = app.engine.platform();
        let imported = app.engine.transact(keep, |view| {
            let mut report = import_sites(view, &sites)?;
            report.simulated.clear();
            for row in &sites.clusters {
                targets::record_backend(view, platform, &row.id)?;
                report.simulated.extend(simulated(view, &row.id)?.then(|| row.id.clone()));
            }
            Ok(report)
        });
        let report = imported.await?;
        Ok(json!({ "kind": "sites", "report": report }))
    } else {
        let detail = format!(
            "{:?} is not a supported inventory type: send nodes as text/csv, or regions and clusters as application/yaml",
            body.media
        );
        Err(Problem::new(ProblemCode::MediaType, detail))
    }
}

/// Returns true if the document of the cluster records a simulated backend, as the list of clusters shows.
fn simulated(view: &mut View, cluster: &ClusterId) -> Result<bool, Undecided> {
    Ok(view.get::<Cluster>(cluster.as_str())?.is_some_and(|cluster| cluster.is_simulated()))
}

fn name<T: FromStr<Err: ToString>>(what: &str, text: Option<&str>) -> Result<T, Problem> {
    let text = text.ok_or_else(|| {
        Problem::new(ProblemCode::QueryInvalid, format!("{what}: nodes need one; add the parameter"))
    })?;
    text.parse().map_err(|error: T::Err| {
        Problem::new(ProblemCode::QueryInvalid, format!("{what}: {}", error.to_string()))
    })
}
