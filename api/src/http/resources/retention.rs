//! `/v1/retention`: finished executions whose retention period is over, and their removal.

use crate::{
    auth::Verb,
    http::{
        extract::{
            QueryParams,
            page::{ListPage, Paging},
        },
        problem::Problem,
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState, retention::batch},
    types::operations::{self, Forgotten},
};
use axum::{Json, extract::State};
use engine::ExpiredExecution;
use program::encoding::rfc3339::format_time;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/retention",
            Access::Staff(Verb::ReadRetention),
            show,
            doc(
                "listExpiring",
                "Lists finished executions that can be removed now, and the \
            reasons that keep others.",
            )
            .lists::<operations::Expiring>(),
        ),
        Route::post(
            "/v1/retention:run",
            Access::Staff(Verb::RunRetention),
            run,
            doc("forget", "Removes finished executions whose retention period is over.")
                .says::<Forgotten>(200),
        ),
    ]
}

fn seen(one: &ExpiredExecution) -> operations::Expiring {
    operations::Expiring {
        id: one.record.id.to_string(),
        workflow: one.record.workflow.clone(),
        tenant: one.record.tenant.clone(),
        subject: one.record.subject.clone(),
        outcome: one.record.reason.clone(),
        ended_at: format_time(one.record.updated_at),
        stays: one.kept_reason,
    }
}

/// Lists the executions to remove, and older executions that are kept, with the reason. Changes nothing.
async fn show(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<operations::Expiring>>, Problem> {
    let page = wanted.page()?;
    let mut after = page.after.as_deref().and_then(|text| text.parse().ok());
    let mut items = Vec::new();
    loop {
        let (found, next) = batch(&app, after, false).await?;
        items.extend(found.iter().map(seen));
        after = next;
        if after.is_none() || items.len() >= page.limit {
            return Ok(Json(ListPage::new(items, after.map(|id| id.to_string()))));
        }
    }
}

/// Removes all executions whose retention period is over. Returns the number removed and those kept.
async fn run(State(app): State<SharedState>) -> Result<Json<Forgotten>, Problem> {
    forget(&app).await.map(Json)
}

async fn forget(app: &ServerState) -> Result<Forgotten, Problem> {
    let (mut went, mut stays, mut after) = (0_u64, Vec::new(), None);
    loop {
        let (found, next) = batch(app, after, true).await?;
        for one in &found {
            match one.kept_reason {
                None => went = went.saturating_add(1),
                Some(_) if stays.len() < 100 => stays.push(seen(one)),
                Some(_) => {}
            }
        }
        after = next;
        if after.is_none() {
            return Ok(Forgotten { forgotten: went, stays });
        }
    }
}
