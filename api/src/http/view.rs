//! Things as callers see them: times as RFC 3339, ids as text.

use chrono::{DateTime, SecondsFormat};
use engine::{ApprovalCase, Ballot, Child, Engine, Happening, Seat, Shown, Waiting, What};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Duration;
use store::{Entry, Record, Timestamp};
use workflows::{platform::Platform, policy::duration};

/// `at` as RFC 3339, in UTC and to the millisecond.
pub(crate) fn time(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(DateTime::from_timestamp_millis);
    at.unwrap_or(DateTime::UNIX_EPOCH).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A stored thing as JSON, with its `times` as RFC 3339.
pub(super) fn thing(item: &impl Serialize, times: &[&str]) -> Value {
    let mut value = json!(item);
    for name in times {
        if let Some(field) = value.get_mut(*name)
            && let Some(millis) = field.as_u64()
        {
            *field = Value::String(time(Timestamp(millis)));
        }
    }
    value
}

/// A stored thing for reading: fields named in `times` as RFC 3339 wherever they stand, spans as `15m`.
pub(super) fn readable(item: &impl Serialize, times: &[&str]) -> Value {
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
                    Some(millis) => *field = Value::String(time(Timestamp(millis))),
                    None => spell(field, times),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| spell(item, times)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A span, as serde writes one.
fn span(fields: &Map<String, Value>) -> Option<Duration> {
    let (secs, nanos) = (fields.get("secs")?.as_u64()?, fields.get("nanos")?.as_u64()?);
    (fields.len() == 2).then(|| Duration::new(secs, u32::try_from(nanos).unwrap_or(0)))
}

/// An execution in lists.
pub(super) fn row(record: &Record) -> Map<String, Value> {
    let value = json!({
        "id": record.id.to_string(),
        "revision": record.revision.0,
        "workflow": record.workflow,
        "schema": record.schema,
        "tenant": record.tenant,
        "subject": record.subject,
        "state": record.state,
        "phase": record.phase,
        "reason": record.reason,
        "open": record.open,
        "requested_by": record.requested_by,
        "parent": record.attributes.get("parent").and_then(|parents| parents.first()),
        "labels": record.attributes.get("label").into_iter().flatten().collect::<Vec<_>>(),
        "created_at": time(record.created_at),
        "updated_at": time(record.updated_at),
    });
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// An execution in full: also why it stands where it stands, what it has done, and what it waits for.
pub(super) async fn execution(
    engine: &Engine<Platform>,
    record: &Record,
    shown: &Shown,
) -> Result<Value, engine::Error> {
    let mut fields = row(record);
    let body = &shown.body;
    let part = |path: &str| body.pointer(path).cloned().unwrap_or(Value::Null);
    let parked = part("/phase/parked");
    let unwinding =
        [part("/phase/compensating"), part("/phase/parked/unwinding")].into_iter().find(|u| !u.is_null());
    let finished = part("/phase/finished");
    let cause = unwinding.as_ref().and_then(|u| u.get("cause")).or_else(|| finished.get("cause"));
    fields.insert("since".into(), json!(time(Timestamp(part("/since").as_u64().unwrap_or(0)))));
    fields.insert("plan".into(), json!(shown.plan));
    fields.insert("digest".into(), json!(shown.digest));
    fields.insert("cause".into(), cause.cloned().unwrap_or(Value::Null));
    fields.insert("errors".into(), parked.get("errors").cloned().unwrap_or(json!([])));
    fields.insert("last_failure".into(), last_failure(body.get("last_failure")));
    fields.insert("attempts".into(), attempts(body));
    fields.insert("trail".into(), trail(body.get("trail")));
    fields.insert("left_behind".into(), trail(finished.get("leaks")));
    fields.insert("pivot".into(), part("/pivot"));
    fields.insert("authorisation".into(), part("/authorisation"));
    fields.insert("paused_by".into(), part("/paused"));
    fields.insert("cancelled_by".into(), part("/cancelled"));
    fields.insert("parent".into(), part("/parent/execution"));
    fields.insert("children".into(), shown.children.iter().map(child).collect());
    fields.insert("waiting_for".into(), waiting(engine, record).await?);
    fields.insert("data".into(), part("/data"));
    Ok(Value::Object(fields))
}

/// What last went wrong and was led elsewhere, with its time as people read it.
fn last_failure(kept: Option<&Value>) -> Value {
    let Some(mut kept) = kept.filter(|kept| !kept.is_null()).cloned() else { return Value::Null };
    let at = Timestamp(kept.get("at").and_then(Value::as_u64).unwrap_or(0));
    if let Some(fields) = kept.as_object_mut() {
        fields.insert("at".into(), json!(time(at)));
    }
    kept
}

/// An execution that another one has started.
fn child(child: &Child) -> Value {
    json!({
        "execution": child.execution.to_string(),
        "workflow": child.workflow,
        "subject": child.subject,
        "state": child.parent.state,
        "slot": child.parent.slot,
        "attempt": child.parent.attempt,
        "started_at": time(child.started_at),
        "outcome": child.outcome,
    })
}

/// What the current slots have been through, those alone that have something to tell.
fn attempts(body: &Value) -> Value {
    let slots = body.get("slots").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let told = slots.iter().enumerate().filter(|(_, slot)| {
        let told = |name: &str| slot.get(name).is_some_and(|told| !told.is_null());
        told("last") || told("doubt") || told("edition") || slot.pointer("/settled/Err").is_some()
    });
    let one = |(i, slot): (usize, &Value)| {
        json!({
            "slot": i,
            "failed": slot.get("failed").cloned().unwrap_or(json!(0)),
            "doubt": slot.get("doubt").cloned().unwrap_or(json!(false)),
            "edition": slot.get("edition").cloned().unwrap_or(json!(0)),
            "last": slot.get("last").filter(|last| !last.is_null()).or_else(|| slot.pointer("/settled/Err")),
            "beat": slot.get("beat"),
        })
    };
    told.map(one).collect()
}

fn trail(marks: Option<&Value>) -> Value {
    let marks = marks.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |mark: &Value| {
        let part = |name: &str| mark.get(name).cloned().unwrap_or(Value::Null);
        json!({
            "state": part("state"),
            "action": part("action"),
            "undo": part("undo"),
            "arguments": part("arguments"),
            "fate": part("fate"),
        })
    };
    marks.iter().map(one).collect()
}

async fn waiting(engine: &Engine<Platform>, record: &Record) -> Result<Value, engine::Error> {
    if !record.open {
        return Ok(Value::Null);
    }
    let asked = engine.approval(record.id).await?;
    let tasks = engine.store().tasks(record.id).await?;
    // One that is parked does nothing by itself: what is still due, such as an alarm, finds it as it stands.
    let next = tasks.iter().map(|task| task.due).min().filter(|_| record.phase != "parked");
    Ok(json!({
        "approval": asked.as_ref().map(|case| json!({
            "id": case.id,
            "digest": case.digest,
            "wanted": wanted(&case.seats),
            "deadline": case.deadline.map(time),
            "ruling": case.ruling,
            "takes_effect": takes_effect(case),
        })),
        "next_action_at": next.map(time),
        "tasks": tasks.len(),
        "limits": engine.waits_at(record.id).iter().map(limited).collect::<Vec<_>>(),
    }))
}

/// What an attempt waits for at a key. Of others it says how many they are, and nothing else.
fn limited(waiting: &Waiting) -> Value {
    json!({
        "key": waiting.key,
        "slot": waiting.task.slot,
        "code": waiting.why.code(),
        "why": format!("waits for a place at {}: {}", waiting.key, waiting.why),
        "since": time(waiting.since),
        "looks_again_at": time(waiting.due),
    })
}

/// Seats for people: `1 of platform_ops and 1 of finance`.
pub(super) fn wanted(seats: &[Seat]) -> String {
    Ballot::open(engine::PlanDigest(String::new()), seats.to_vec(), Timestamp(0), None).wanted()
}

/// An approval.
pub(super) fn approval(case: &ApprovalCase) -> Value {
    let votes = case.votes.iter().map(|vote| {
        json!({
            "person": vote.person.name,
            "verdict": vote.verdict,
            "on_behalf_of": vote.on_behalf_of.as_ref().map(|person| &person.name),
            "break_glass": vote.break_glass,
            "reason": vote.reason,
            "at": time(vote.at),
        })
    });
    json!({
        "id": case.id,
        "execution": case.execution.to_string(),
        "workflow": case.workflow,
        "tenant": case.tenant,
        "subject": case.subject,
        "state": case.state,
        "title": case.plan.title,
        "plan": case.plan,
        "digest": case.digest,
        "seats": case.seats,
        "wanted": wanted(&case.seats),
        "votes": votes.collect::<Vec<_>>(),
        "requested_by": case.requested_by,
        "opened_at": time(case.opened_at),
        "deadline": case.deadline.map(time),
        "ruling": case.ruling,
        "takes_effect": takes_effect(case),
        "closed_at": case.closed_at.map(time),
        "broken_by": case.broken_by().map(|vote| &vote.person.name),
        "procedure": readable(&case.procedure, &[]),
        "history": case.history.iter().map(happened).collect::<Vec<_>>(),
    })
}

/// When a ruling is followed that is not yet: only a pause keeps an approval open that is decided.
fn takes_effect(case: &ApprovalCase) -> Option<&'static str> {
    (case.ruling.is_some() && case.closed_at.is_none()).then_some("when it is resumed")
}

/// Something that happened to an approval, in one word and with what belongs to it.
fn happened(happened: &Happening) -> Value {
    let (event, more) = match &happened.what {
        What::Reminded => ("reminded", json!({})),
        What::Escalated { from, to } => ("escalated", json!({ "from": wanted(from), "to": wanted(to) })),
        What::Extended { from, until } => ("extended", json!({ "from": time(*from), "until": time(*until) })),
        What::Withdrawn { vote, by, reason } => (
            "withdrawn",
            json!({
                "by": by,
                "reason": reason,
                "person": vote.person.name,
                "on_behalf_of": vote.on_behalf_of.as_ref().map(|person| &person.name),
                "verdict": vote.verdict,
            }),
        ),
        What::Voided { digest, votes } => {
            let people: Vec<_> = votes.iter().map(|vote| &vote.person.name).collect();
            ("voided", json!({ "digest": digest, "people": people }))
        }
    };
    let mut value = json!({ "at": time(happened.at), "event": event });
    if let (Some(fields), Value::Object(more)) = (value.as_object_mut(), more) {
        fields.extend(more);
    }
    value
}

/// One line of history.
pub(super) fn entry(entry: &Entry) -> Value {
    json!({
        "sequence": entry.sequence.0,
        "at": time(entry.at),
        "actor": entry.actor,
        "event": entry.event,
        "from": entry.from,
        "to": entry.to,
        "detail": serde_json::from_slice::<Value>(&entry.detail).unwrap_or(Value::Null),
    })
}
