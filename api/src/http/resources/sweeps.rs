//! `/v1/sweeps`: scheduled checks, their findings, and immediate runs.

use crate::{
    auth::{Caller, Verb},
    http::{
        problem::Problem,
        resource_kind::ResourceKind,
        resource_routes::list,
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
use engine::Entity as _;
use serde_json::{Value, json};
use strum::VariantArray as _;
use workflows::{
    policy::Sweep,
    sweeps::{self, SweepReport},
    tenancy::Cohort,
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Staff(Verb::ReadSweeps);
    vec![
        Route::get(
            "/v1/sweeps",
            read,
            list::<SweepReport>,
            doc("listSweeps", "Lists the findings of sweeps.")
                .lists::<types::schedules::Swept>()
                .filters::<SweepReport>(),
        ),
        Route::post(
            "/v1/sweeps/{name}:run",
            Access::Staff(Verb::RunSweeps),
            run,
            doc("runSweep", "Runs a sweep now.").says::<types::schedules::Swept>(200),
        ),
    ]
}

/// Sweeps check all tenants, so their reports belong to the platform.
impl ResourceKind for SweepReport {
    const WORD: &'static str = "sweep";
    const FILTERS: &'static [(&'static str, &'static str)] = &[("sweep", "/sweep"), ("by", "/by")];
    const TIMES: &'static [&'static str] = &["at", "nominal"];
    const BY_TENANT: bool = false;

    fn tenant(&self) -> &str {
        ""
    }

    fn seen(&self, _: Option<&Cohort>) -> Value {
        let mut value = mapping::readable(self, Self::TIMES);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("id".into(), json!(self.id()));
        }
        value
    }
}

async fn run(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let sweep = name.parse::<Sweep>().map_err(|_| {
        let known: Vec<&str> = Sweep::VARIANTS.iter().map(|sweep| (*sweep).into()).collect();
        Problem::not_found("sweep", &format!("{name}; use one of: {}", known.join(", ")))
    })?;
    let swept = sweeps::run(&app.engine, sweep, None, &caller.name).await?;
    Ok(Json(swept.seen(None)))
}
