//! Converts stored documents to answers: times as RFC 3339, ids as text.

use crate::types::{
    approvals::{Approval, Cast},
    executions::{self, Asked, Attempt, Child, Execution, Limited, Line, Mark, Row},
};
use engine::{
    ApprovalChange, ApprovalHistoryEntry, ApprovalRecord, Ballot, Engine, ExecutionView, Provenance, Seat,
    Separation, Vote, WaitingAttempt,
};
use program::encoding::rfc3339::format_time;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Duration;
use store::{Entry, Record, Timestamp};
use workflows::{platform::Platform, policy::duration};

/// Returns a stored document as JSON, with its `times` as RFC 3339.
pub(crate) fn thing(item: &impl Serialize, times: &[&str]) -> Value {
    let mut value = json!(item);
    for name in times {
        if let Some(field) = value.get_mut(*name)
            && let Some(millis) = field.as_u64()
        {
            *field = Value::String(format_time(Timestamp(millis)));
        }
    }
    value
}

/// Returns a stored document for reading: fields named in `times` as RFC 3339 at any depth, durations as `15m`.
pub(crate) fn readable(item: &impl Serialize, times: &[&str]) -> Value {
    let mut value = json!(item);
    spell(&mut value, times);
    value
}

fn spell(value: &mut Value, times: &[&str]) {
    match value {
        Value::Object(fields) => {
            if let Some(span) = span(fields) {
                *value = Value::String(duration::show(span));
                return;
            }
            for (name, field) in fields {
                match field.as_u64().filter(|_| times.contains(&name.as_str())) {
                    Some(millis) => *field = Value::String(format_time(Timestamp(millis))),
                    None => spell(field, times),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| spell(item, times)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the duration in the form of serde.
fn span(fields: &Map<String, Value>) -> Option<Duration> {
    let (secs, nanos) = (fields.get("secs")?.as_u64()?, fields.get("nanos")?.as_u64()?);
    (fields.len() == 2).then(|| Duration::new(secs, u32::try_from(nanos).unwrap_or(0)))
}

/// Returns an execution for lists.
pub(crate) fn row(record: &Record) -> Row {
    let parents = record.attributes.get("parent");
    Row {
        id: record.id.to_string(),
        revision: record.revision.0,
        workflow: record.workflow.clone(),
        schema: record.schema,
        tenant: record.tenant.clone(),
        subject: record.subject.clone(),
        state: record.state.clone(),
        phase: record.phase.clone(),
        reason: record.reason.clone(),
        open: record.open,
        requested_by: record.requested_by.clone(),
        parent: parents.and_then(|parents| parents.first()).cloned(),
        labels: record.attributes.get("label").into_iter().flatten().cloned().collect(),
        created_at: format_time(record.created_at),
        updated_at: format_time(record.updated_at),
        progress: None,
    }
}

/// Returns an execution in full, with the reason of its state, its trail, and the conditions that it waits for.
pub(crate) async fn execution(
    engine: &Engine<Platform>,
    record: &Record,
    shown: &ExecutionView,
) -> Result<Execution, engine::Error> {
    let body = &shown.body;
    let part = |path: &str| body.pointer(path).cloned().unwrap_or(Value::Null);
    let parked = part("/phase/parked");
    let unwinding =
        [part("/phase/compensating"), part("/phase/parked/unwinding")].into_iter().find(|u| !u.is_null());
    let finished = part("/phase/finished");
    let cause = unwinding.as_ref().and_then(|u| u.get("cause")).or_else(|| finished.get("cause"));
    let parent = part("/parent/execution").as_str().map(ToOwned::to_owned);
    Ok(Execution {
        row: Row { parent, ..row(record) },
        since: format_time(Timestamp(part("/since").as_u64().unwrap_or(0))),
        plan: json!(shown.plan),
        digest: json!(shown.digest),
        cause: cause.cloned().unwrap_or(Value::Null),
        errors: parked.get("errors").cloned().unwrap_or(json!([])),
        last_failure: last_failure(body.get("last_failure")),
        attempts: attempts(body),
        trail: trail(body.get("trail")),
        left_behind: trail(finished.get("leaks")),
        pivot: part("/pivot"),
        authorisation: part("/authorisation"),
        paused_by: part("/paused"),
        cancelled_by: part("/cancelled"),
        children: shown.children.iter().map(child).collect(),
        waiting_for: waiting(engine, record).await?,
        data: part("/data"),
    })
}

/// Returns the last failure that was handled by another path, with its time as RFC 3339.
fn last_failure(kept: Option<&Value>) -> Value {
    let Some(mut kept) = kept.filter(|kept| !kept.is_null()).cloned() else { return Value::Null };
    let at = Timestamp(kept.get("at").and_then(Value::as_u64).unwrap_or(0));
    if let Some(fields) = kept.as_object_mut() {
        fields.insert("at".into(), json!(format_time(at)));
    }
    kept
}

/// Returns a child execution.
fn child(child: &engine::Child) -> Child {
    Child {
        execution: child.execution.to_string(),
        workflow: child.workflow.clone(),
        subject: child.subject.clone(),
        state: child.parent.state.clone(),
        slot: child.parent.slot,
        attempt: child.parent.attempt,
        started_at: format_time(child.started_at),
        outcome: json!(child.outcome),
    }
}

/// Returns the attempts of the current slots that have something to report.
fn attempts(body: &Value) -> Vec<Attempt> {
    let slots = body.get("slots").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let told = slots.iter().enumerate().filter(|(_, slot)| {
        let told = |name: &str| slot.get(name).is_some_and(|told| !told.is_null());
        told("last") || told("doubt") || told("edition") || slot.pointer("/settled/Err").is_some()
    });
    let one = |(i, slot): (usize, &Value)| {
        let last = slot.get("last").filter(|last| !last.is_null()).or_else(|| slot.pointer("/settled/Err"));
        Attempt {
            slot: i,
            failed: slot.get("failed").cloned().unwrap_or(json!(0)),
            doubt: slot.get("doubt").cloned().unwrap_or(json!(false)),
            edition: slot.get("edition").cloned().unwrap_or(json!(0)),
            last: last.cloned().unwrap_or_default(),
            beat: slot.get("beat").cloned().unwrap_or_default(),
        }
    };
    told.map(one).collect()
}

/// Returns the trail of an execution.
pub(crate) fn trail(marks: Option<&Value>) -> Vec<Mark> {
    let marks = marks.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |mark: &Value| {
        let part = |name: &str| mark.get(name).cloned().unwrap_or(Value::Null);
        Mark {
            state: part("state"),
            action: part("action"),
            undo: part("undo"),
            arguments: part("arguments"),
            fate: part("fate"),
        }
    };
    marks.iter().map(one).collect()
}

async fn waiting(
    engine: &Engine<Platform>,
    record: &Record,
) -> Result<Option<executions::Waiting>, engine::Error> {
    if !record.open {
        return Ok(None);
    }
    let asked = engine.approval(record.id).await?;
    let tasks = engine.store().tasks(record.id).await?;
    // A parked execution does nothing by itself: tasks that are still due, such as a timer, have no effect.
    let next = tasks.iter().map(|task| task.due).min().filter(|_| record.phase != "parked");
    Ok(Some(executions::Waiting {
        approval: asked.map(|case| Asked {
            wanted: wanted(&case.seats),
            deadline: case.deadline.map(format_time),
            takes_effect: takes_effect(&case),
            id: case.id,
            digest: case.digest.0,
            ruling: case.ruling,
        }),
        next_action_at: next.map(format_time),
        tasks: tasks.len(),
        limits: engine.waiting_attempts(record.id).iter().map(limited).collect(),
    }))
}

/// Returns the limit that an attempt waits for. Other waiters appear only as a number.
fn limited(waiting: &WaitingAttempt) -> Limited {
    Limited {
        key: waiting.key.clone(),
        slot: waiting.task.slot,
        code: waiting.reason.code(),
        why: format!("waits for the limit {}: {}", waiting.key, waiting.reason),
        since: format_time(waiting.since),
        looks_again_at: format_time(waiting.due),
    }
}

/// Describes the seats: `1 of platform_ops and 1 of finance`.
pub(crate) fn wanted(seats: &[Seat]) -> String {
    Ballot::open(engine::PlanDigest(String::new()), seats.to_vec(), Timestamp(0), None).describe_seats()
}

/// Returns an approval.
pub(crate) fn approval(case: &ApprovalRecord, separation: Separation) -> Approval {
    let counts_anyway = case.votes.iter().any(|vote| vote.tie.is_some());
    // A closed approval shows the rule at its time; an open one shows the present rule.
    let enforced = !counts_anyway && (case.closed_at.is_some() || separation.is_enforced());
    let separation = if enforced { Separation::Enforced } else { Separation::NotEnforced };
    let votes = case.votes.iter().map(|vote| Cast {
        person: vote.person.name.clone(),
        verdict: json!(vote.verdict),
        on_behalf_of: vote.on_behalf_of.as_ref().map(|person| person.name.clone()),
        break_glass: vote.break_glass,
        reason: vote.reason.clone(),
        at: format_time(vote.at),
        created_by: provenance(vote).and_then(|provenance| provenance.created_by.clone()),
        claim: provenance(vote).map(|provenance| provenance.claim.name()),
        issued_by: provenance(vote).and_then(|provenance| provenance.issued_by.clone()),
        not_separate: vote.tie.as_ref().map(|tie| tie.describe(&vote.person.name)),
        removed: false,
        removed_at: None,
    });
    Approval {
        id: case.id.clone(),
        execution: case.execution.to_string(),
        workflow: case.workflow.clone(),
        tenant: case.tenant.clone(),
        subject: case.subject.clone(),
        state: case.state.clone(),
        title: case.plan.title.clone(),
        plan: json!(case.plan),
        digest: case.digest.0.clone(),
        seats: json!(case.seats),
        wanted: wanted(&case.seats),
        votes: votes.collect(),
        requested_by: case.requested_by.clone(),
        opened_at: format_time(case.opened_at),
        deadline: case.deadline.map(format_time),
        ruling: case.ruling.clone(),
        takes_effect: takes_effect(case),
        closed_at: case.closed_at.map(format_time),
        separation: separation.name(),
        broken_by: case.break_glass_vote().map(|vote| vote.person.name.clone()),
        procedure: readable(&case.procedure, &[]),
        history: case.history.iter().map(happened).collect(),
    }
}

fn provenance(vote: &Vote) -> Option<&Provenance> {
    vote.person.provenance.as_deref()
}

/// Returns when a decision takes effect, if it has not yet: only a paused execution keeps a decided approval open.
fn takes_effect(case: &ApprovalRecord) -> Option<&'static str> {
    (case.ruling.is_some() && case.closed_at.is_none()).then_some("when it is resumed")
}

/// Returns an entry of an approval's history: one word with its details.
fn happened(happened: &ApprovalHistoryEntry) -> Value {
    let (event, more) = match &happened.what {
        ApprovalChange::Reminded => ("reminded", json!({})),
        ApprovalChange::Escalated { from, to } => {
            ("escalated", json!({ "from": wanted(from), "to": wanted(to) }))
        }
        ApprovalChange::Extended { from, until } => {
            ("extended", json!({ "from": format_time(*from), "until": format_time(*until) }))
        }
        ApprovalChange::Withdrawn { vote, by, reason } => (
            "withdrawn",
            json!({
                "by": by,
                "reason": reason,
                "person": vote.person.name,
                "on_behalf_of": vote.on_behalf_of.as_ref().map(|person| &person.name),
                "verdict": vote.verdict,
            }),
        ),
        ApprovalChange::Voided { digest, votes } => {
            let people: Vec<_> = votes.iter().map(|vote| &vote.person.name).collect();
            ("voided", json!({ "digest": digest, "people": people }))
        }
    };
    let mut value = json!({ "at": format_time(happened.at), "event": event });
    if let (Some(fields), Value::Object(more)) = (value.as_object_mut(), more) {
        fields.extend(more);
    }
    value
}

/// Returns a journal entry.
pub(crate) fn entry(entry: &Entry) -> Line {
    Line {
        sequence: entry.sequence.0,
        at: format_time(entry.at),
        actor: entry.actor.clone(),
        event: entry.event.clone(),
        from: entry.from.clone(),
        to: entry.to.clone(),
        detail: serde_json::from_slice(&entry.detail).unwrap_or(Value::Null),
    }
}
