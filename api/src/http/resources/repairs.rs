//! `/v1/executions/{id}:repair` and `/v1/proposals`: repairs of executions that cannot continue, and commands that wait for a second person.

use crate::{
    auth::{Caller, Verb},
    http::{
        another_person::{recorded_person, require_another_person},
        extract::{
            QueryParams, RawJsonBody,
            dry_run::DryRun,
            if_match::{IfMatch, tag, tagged},
            page::{ListPage, Paging},
        },
        problem::{Problem, code::ProblemCode},
        resources::{
            approvals::person,
            executions::{full, require_change, resolve},
        },
        route::{Access, Route},
        route_doc::{ORDERED, doc},
    },
    state::{ServerState, SharedState},
    types::{self, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use engine::{Attribution, CommandResult, Event, Proposal, Repair};
use serde_json::{Value, json};
use store::{ExecutionId, Read, Revision};

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, repair) = (Access::Tenant(Verb::ReadExecutions), Access::Tenant(Verb::Repair));
    vec![
        Route::post(
            "/v1/executions/{id}:repair",
            repair,
            repair_execution,
            doc("repairExecution", "Repairs an execution that cannot continue.")
                .takes_json::<types::stored_documents::Repair>()
                .ordered()
                .says::<types::executions::RepairPreview>(200),
        ),
        Route::get(
            "/v1/proposals",
            read,
            list,
            doc("listProposals", "Lists commands that wait for a second person.")
                .lists::<types::executions::Proposal>(),
        ),
        Route::get(
            "/v1/proposals/{id}",
            read,
            show,
            doc("showProposal", "Shows a command that waits for a second person.")
                .says::<types::executions::Proposal>(200)
                .tagged(),
        ),
        Route::post(
            "/v1/proposals/{id}:second",
            repair,
            second,
            doc("secondProposal", "Confirms another person's command, which then takes effect.")
                .says::<types::executions::Execution>(200)
                .tagged()
                .bound(ProblemCode::StaleTag)
                .may(ORDERED)
                .may(&[ProblemCode::NotSeparate]),
        ),
        Route::post(
            "/v1/proposals/{id}:withdraw",
            repair,
            withdraw,
            doc("withdrawProposal", "Withdraws a proposal.").nothing().bound(ProblemCode::StaleTag),
        ),
    ]
}

async fn repair_execution(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    bound: IfMatch,
    how: DryRun,
    RawJsonBody(mut sent): RawJsonBody<Value>,
) -> Result<Response, Problem> {
    let record = resolve(&app, &caller, &id).await?;
    let reason = sent.as_object_mut().and_then(|fields| fields.remove("reason"));
    let reason = reason.as_ref().and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    if reason.is_empty() {
        let detail = format!("reason: say why {} is repaired; its history records it", record.id);
        return Err(Problem::new(ProblemCode::ReasonMissing, detail));
    }
    let repair: Repair = serde_json::from_value(sent).map_err(|error| {
        let known = "kind: edit, mark_done, mark_not_done, skip or undo_with";
        Problem::new(
            ProblemCode::RepairInvalid,
            format!("{error}; {known}; the page operations of the manual has an example of each"),
        )
    })?;
    let event = Event::Repaired { repair, order: Attribution { by: caller.name.clone(), reason } };
    let bound = bound.revision(record.revision)?;
    if how.is_wanted() {
        let (_, before) = app.engine.execution(record.id).await?;
        let preview = app.engine.preview(record.id, event).await?;
        let mut changes = Vec::new();
        let stands = before.body.get("data").cloned().unwrap_or_default();
        differences("", &stands, &preview.data, &mut changes);
        let mut body = json!(preview);
        if let Some(fields) = body.as_object_mut() {
            fields.insert("changes".into(), Value::Array(changes));
        }
        return Ok(Json(body).into_response());
    }
    command(&app, record.id, event, bound).await
}

/// Lists changed fields with their old and new values. A list counts as one field.
fn differences(path: &str, from: &Value, to: &Value, changes: &mut Vec<Value>) {
    if from == to {
        return;
    }
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else {
        changes.push(json!({ "field": path, "from": from, "to": to }));
        return;
    };
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let of = |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
        differences(&inner, &of(old), &of(new), changes);
    }
}

/// Runs a command. A command that needs a second person becomes a proposal.
pub(in crate::http) async fn command(
    app: &ServerState,
    id: ExecutionId,
    event: Event,
    bound: Option<Revision>,
) -> Result<Response, Problem> {
    let given_from = if app.engine.needs_second_person(&event) {
        recorded_person(app, event.actor(), None).await?.provenance.map(|from| *from)
    } else {
        None
    };
    let taken = app.engine.command_from(id, event, bound, given_from).await;
    match if bound.is_some() { require_change(taken)? } else { taken? } {
        CommandResult::Done(_) => full(app, id, StatusCode::OK).await,
        CommandResult::Proposed(proposal) => {
            Ok((StatusCode::ACCEPTED, Json(shown(app, &proposal).await?)).into_response())
        }
    }
}

/// Returns a proposal, and whether it can still take effect.
async fn shown(app: &ServerState, proposal: &Proposal) -> Result<Value, Problem> {
    let stands = app.engine.record(proposal.execution).await?.revision;
    let mut value = mapping::readable(proposal, &["at"]);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("given_from");
        fields.insert("proposal".into(), json!(proposal.id));
        fields.insert("command".into(), json!(engine::command_name(&proposal.command)));
        fields.insert("event".into(), json!(proposal.command));
        fields.insert("void".into(), json!(stands != proposal.revision));
    }
    Ok(value)
}

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(which): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = which.page()?;
    let found = app.engine.proposals(page.after.as_deref(), page.limit).await?;
    let mut items = Vec::new();
    for proposal in found.items.iter().filter(|proposal| caller.sees(&proposal.tenant)) {
        items.push(shown(&app, proposal).await?);
    }
    Ok(Json(ListPage::new(items, found.next)))
}

/// Returns the proposal and the precondition of a change.
async fn find(app: &ServerState, caller: &Caller, id: &str) -> Result<(Proposal, Read), Problem> {
    let found = app.engine.proposal(id).await?;
    if caller.sees(&found.0.tenant) { Ok(found) } else { Err(Problem::not_found("proposal", id)) }
}

/// Returns the tag of a proposal.
fn tag_of(read: &Read) -> String {
    tag(read.version.unwrap_or_default())
}

async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (proposal, read) = find(&app, &caller, &id).await?;
    Ok(tagged(tag_of(&read), shown(&app, &proposal).await?))
}

async fn second(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    bound: IfMatch,
) -> Result<Response, Problem> {
    person(&caller)?;
    let (proposal, read) = find(&app, &caller, &id).await?;
    bound.check(ProblemCode::StaleTag, "the proposal", &tag_of(&read))?;
    let given = recorded_person(&app, &proposal.by, proposal.given_from.clone()).await?;
    require_another_person(&app, &caller, vec![given]).await?;
    let execution = proposal.execution;
    app.engine.approve_proposal_as_read((proposal, read), &caller.name).await?;
    tracing::info!(%execution, trace_id = %execution.trace_id(), by = caller.name, "a proposal was confirmed");
    full(&app, execution, StatusCode::OK).await
}

async fn withdraw(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    bound: IfMatch,
) -> Result<StatusCode, Problem> {
    let found = find(&app, &caller, &id).await?;
    bound.check(ProblemCode::StaleTag, "the proposal", &tag_of(&found.1))?;
    app.engine.drop_proposal(found).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_listed_by_field_with_old_and_new_values() {
        let from = json!({ "request": { "gpus": 16, "name": "acme" }, "nodes": ["a"], "gone": 1 });
        let to = json!({ "request": { "gpus": 8, "name": "acme" }, "nodes": ["a", "b"] });
        let mut changes = Vec::new();
        differences("", &from, &to, &mut changes);
        let wanted = [
            json!({ "field": "gone", "from": 1, "to": null }),
            json!({ "field": "nodes", "from": ["a"], "to": ["a", "b"] }),
            json!({ "field": "request.gpus", "from": 16, "to": 8 }),
        ];
        assert_eq!(changes, wanted);
    }
}
