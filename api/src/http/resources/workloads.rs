//! `POST /v1/workloads`: requests GPUs for a workload; the answer is admitted, queued or rejected. Also ends workloads.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{TextBody, page::scope::get_visible, understood},
        problem::{Problem, code::ProblemCode},
        resource_kind::ResourceKind as _,
        resource_routes::find,
        resources::workflow_start::{document, own},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{self, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use engine::{Undecided, View, Workflow as _};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::{Epoch, Filter};
use workflows::{
    platform::{ANSWER_WITHIN, CallMetadata, WorkloadRef},
    quota_change::decrease::{self, QuotaDecrease},
    reclaim::ledger::{start_command, start_reclaims},
    scheduling::admission::{self, AdmissionEffects, SubmitOutcome, WorkloadRequest},
    sla_change::{self, SlaChange},
    tenancy::{AdmissionVerdict, Amounts, Checkpoint, TenantId, Workload, WorkloadClass, WorkspaceName},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let submit_access = Access::Tenant(Verb::Submit);
    vec![
        Route::post(
            "/v1/workloads",
            submit_access,
            submit,
            doc("submitWorkload", "Requests GPUs for a workload: 200 if admitted, 202 if queued, 422 if it can never be admitted.")
                .takes::<NewWorkload>()
                .says::<types::workspaces::Submitted>(200)
                .located()
                .says::<types::workspaces::Submitted>(202)
                .located()
                .may(&[
                    ProblemCode::WorkloadRejected,
                    ProblemCode::WorkloadDiffers,
                    ProblemCode::LineFull,
                    ProblemCode::TenantLeaves,
                ]),
        ),
        Route::post(
            "/v1/workloads:plan",
            submit_access,
            plan,
            doc(
                "planWorkload",
                "Previews the admission decision for a workload, with its reasons. Changes nothing.",
            )
            .takes::<NewWorkload>()
            .says::<types::workspaces::Submitted>(200)
            .may(&[
                ProblemCode::WorkloadDiffers,
                ProblemCode::LineFull,
                ProblemCode::TenantLeaves,
            ]),
        ),
        Route::post(
            "/v1/workloads/{tenant}/{workload}:finish",
            submit_access,
            finish,
            doc("finishWorkload", "Ends a workload that has finished or is no longer needed.")
                .says::<types::workspaces::Finished>(200),
        ),
    ]
}

/// A new workload.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct NewWorkload {
    #[schemars(with = "String")]
    tenant: TenantId,
    #[schemars(with = "String")]
    workspace: WorkspaceName,
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// `batch`, `service` or `interactive`.
    #[serde(default = "batch")]
    #[schemars(with = "String")]
    class: WorkloadClass,
    #[serde(default)]
    priority: i32,
    /// True if the workload may be evicted. Other workloads never borrow.
    #[serde(default = "yes")]
    preemptible: bool,
    /// `none`, `signal` or `api`.
    #[serde(default)]
    #[schemars(with = "String")]
    checkpoint: Checkpoint,
    /// Whole numbers by resource, such as `gpu/H100`.
    #[serde(deserialize_with = "admission::parse_amounts")]
    #[schemars(with = "std::collections::BTreeMap<String, u64>")]
    requests: Amounts,
    #[serde(default)]
    together: u64,
    #[serde(default)]
    labels: BTreeSet<String>,
}

fn batch() -> WorkloadClass {
    WorkloadClass::Batch
}

fn yes() -> bool {
    true
}

impl NewWorkload {
    pub(in crate::http) fn checked(self) -> Result<WorkloadRequest, Problem> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(allowed) {
            let detail = "name: use 1 to 64 letters, digits, '-', '_' and '.'";
            return Err(Problem::new(ProblemCode::DocumentInvalid, detail));
        }
        if self.requests.values().all(|amount| *amount == 0) {
            let detail = "requests: name the requested resources, such as `gpu/H100: 4`";
            return Err(Problem::new(ProblemCode::DocumentInvalid, detail));
        }
        Ok(WorkloadRequest {
            tenant: self.tenant,
            workspace: self.workspace,
            name: self.name,
            class: self.class,
            priority: self.priority,
            preemptible: self.preemptible,
            checkpoint: self.checkpoint,
            requests: self.requests,
            together: self.together,
            labels: self.labels,
        })
    }
}

/// Changes the account of a tenant, and starts the resulting executions in the same commit. Then admits queued workloads that now fit, before it returns.
pub(in crate::http) async fn change<T>(
    app: &ServerState,
    tenant: &TenantId,
    mut change: impl FnMut(&mut View) -> Result<(T, AdmissionEffects), Undecided>,
) -> Result<T, Problem> {
    let announced = |view: &mut View, news: AdmissionEffects| start_reclaims(view, &news).map(|()| news.more);
    let (done, mut more) = app
        .engine
        .transact(true, |view| {
            let (done, news) = change(view)?;
            Ok((done, announced(view, news)?))
        })
        .await?;
    while more {
        more = app
            .engine
            .transact(true, |view| {
                let news = admission::admit_queued(view, tenant)?;
                announced(view, news)
            })
            .await?;
    }
    Ok(done)
}

async fn submit(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    body: TextBody,
) -> Result<Response, Problem> {
    let request = understood(&app, &caller, body, |body| document::<NewWorkload>(body)?.checked()).await?;
    ask(&app, &caller, &request).await
}

/// Dry run of a request. A rejection is a valid answer.
async fn plan(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    body: TextBody,
) -> Result<Json<Value>, Problem> {
    let request = understood(&app, &caller, body, |body| document::<NewWorkload>(body)?.checked()).await?;
    own(&caller, request.tenant.as_str())?;
    let submitted = app.engine.transact(false, |view| admission::submit(view, &request)).await?;
    Ok(Json(shown(&submitted)))
}

/// Requests GPUs: 200 if admitted, 202 if queued, 422 with all reasons if the workload can never be admitted.
pub(in crate::http) async fn ask(
    app: &ServerState,
    caller: &Caller,
    request: &WorkloadRequest,
) -> Result<Response, Problem> {
    own(caller, request.tenant.as_str())?;
    let submitted = change(app, &request.tenant, |view| {
        let submitted = admission::submit(view, request)?;
        let news = submitted.news.clone();
        Ok((submitted, news))
    })
    .await?;
    let status = match submitted.admission.answer {
        AdmissionVerdict::Admit => StatusCode::OK,
        AdmissionVerdict::Queue => StatusCode::ACCEPTED,
        AdmissionVerdict::Reject => {
            let decision = submitted.admission.seen(None);
            let reasons: Vec<_> =
                submitted.admission.weighed.iter().filter(|w| w.answer != AdmissionVerdict::Admit).collect();
            let told: Vec<_> = reasons.iter().map(|weighed| weighed.why.as_str()).collect();
            let problem = Problem::new(ProblemCode::WorkloadRejected, told.join("; "));
            return Err(problem
                .with("weighed", json!(reasons))
                .with("decision", decision.get("id").cloned().unwrap_or_default()));
        }
    };
    let location = format!("/v1/workloads/{}", Workload::key(&request.tenant, &request.name));
    Ok((status, [(header::LOCATION, location)], Json(shown(&submitted))).into_response())
}

fn shown(submitted: &SubmitOutcome) -> Value {
    json!({
        "answer": submitted.admission.answer,
        "decision": submitted.admission.seen(None),
        "placed": submitted.placed,
        "reclaims_for": submitted.news.demands.iter().map(|demand| mapping::readable(demand, &["since", "deadline"]))
            .collect::<Vec<_>>(),
    })
}

async fn finish(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let workload = find::<Workload>(&app, &caller, &[&tenant, &name]).await?;
    end(&app, &caller, &workload.tenant, &workload.name).await.map(Json)
}

/// Ends a workload. Returns it with the workloads that were admitted as a result.
pub(in crate::http) async fn end(
    app: &ServerState,
    caller: &Caller,
    tenant: &TenantId,
    name: &str,
) -> Result<Value, Problem> {
    let (admitted, ran) = change(app, tenant, |view| {
        let ran = start_command(view, tenant, name)?.map(|start| start.workload);
        let news = admission::finish(view, tenant, name)?.news;
        let admitted: Vec<String> = news.admitted.iter().map(|one| one.workload.clone()).collect();
        Ok(((admitted, ran), news))
    })
    .await?;
    if let Some(ran) = ran {
        clear_away(app, &ran).await;
    }
    admit_next(app, tenant).await?;
    let stands = get_visible::<Workload>(app, caller, &Workload::key(tenant, name)).await?;
    let mut shown = stands.map(|workload| workload.seen(None)).unwrap_or_default();
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("admitted_by_that".into(), json!(admitted));
    }
    Ok(shown)
}

/// Reports the end of a workload to its cluster. The cluster usually knows it already, and its answer changes nothing.
async fn clear_away(app: &ServerState, ran: &WorkloadRef) {
    let key = format!("ended/{}", ran.full_name());
    let step = key.clone();
    let stamp = CallMetadata {
        action: "EndWorkload",
        step,
        key,
        epoch: Epoch(0),
        undo: false,
        deadline: ANSWER_WITHIN,
        dry_run: false,
    };
    if let Err(error) = app.engine.platform().workloads.notify_ended(ran, &stamp).await {
        tracing::warn!(%error, workload = ran.full_name(), "cannot report the end of a workload to its cluster");
    }
}

/// Wakes executions that wait for free quota, so that they check again now.
async fn admit_next(app: &ServerState, tenant: &TenantId) -> Result<(), Problem> {
    let waiting = [
        (QuotaDecrease::NAME, "DrainingExcess", decrease::USE_FELL),
        (SlaChange::NAME, "AwaitingConformance", sla_change::CONFORMS),
    ];
    for (workflow, state, signal) in waiting {
        let filter = Filter {
            workflow: Some(workflow.into()),
            tenant: Some(tenant.to_string()),
            state: Some(state.into()),
            ..Filter::default()
        };
        let page = app.engine.list(&filter, None, 100).await?;
        for record in &page.items {
            match app.engine.signal(record.id, signal).await {
                Ok(_) | Err(engine::Error::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
