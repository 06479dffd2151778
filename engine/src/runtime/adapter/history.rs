//! The journal entries of one event.
//!
//! Invariant: every edge that an event takes has an entry; the first entry describes the event.

use super::abridge::abridged;
use crate::{Edge, Event, Execution, Phase, TrailEntry, Workflow};
use serde_json::{Value, json};
use store::{Entry, Record, Sequence, Timestamp};

/// Returns the event as the journal stores it. The start of a child names its parent.
pub(super) fn event_detail<W: Workflow>(before: &Execution<W>, event: &Event) -> Value {
    match (event, &before.parent) {
        (Event::Started, Some(parent)) => json!({ "started": { "parent": parent } }),
        _ => abridged(serde_json::to_value(event).unwrap_or(Value::Null)),
    }
}

/// Returns true for a repair. Its history contains the execution before and after.
pub(super) fn is_repair(event: &Event) -> bool {
    match event {
        Event::Seconded { event, .. } => is_repair(event),
        event => matches!(event, Event::Repaired { .. }),
    }
}

/// Returns the execution as the history of a repair stores it.
pub(super) fn repair_snapshot<W: Workflow>(execution: &Execution<W>) -> Value {
    abridged(json!({
        "state": execution.state_name(),
        "phase": execution.phase,
        "slots": execution.slots,
        "data": execution.data,
    }))
}

/// Returns the effects of a finished execution that were not undone.
pub(super) fn leaks_detail<W: Workflow>(execution: &Execution<W>) -> Option<Value> {
    let Phase::Finished { leaks, .. } = &execution.phase else { return None };
    let leak = |mark: &TrailEntry| json!({ "state": mark.state, "slot": mark.slot, "action": mark.action, "arguments": mark.arguments, "output": mark.output });
    (!leaks.is_empty()).then(|| abridged(leaks.iter().map(leak).collect()))
}

/// Returns one entry for each edge, so that every change of state has a line. The first describes the event.
pub(super) fn journal_entries(
    next: &Record,
    at: Timestamp,
    (event, actor, described): (&str, String, Value),
    from: &str,
    edges: &[Edge],
    (turned, left, mended): (Option<&str>, Option<Value>, Option<Value>),
) -> Vec<Entry> {
    let entry = |event: &str, from: &str, to: &str, detail: Value| Entry {
        sequence: Sequence(0),
        execution: next.id,
        at,
        actor: actor.clone(),
        event: event.into(),
        from: from.into(),
        to: to.into(),
        detail: serde_json::to_vec(&detail).unwrap_or_default(),
    };
    let detail = |by: Option<&str>| {
        let mut detail = json!({ "event": described, "phase": turned });
        if let Some(fields) = detail.as_object_mut() {
            fields.extend(by.map(|by| ("by".into(), by.into())));
            fields.extend(left.map(|left| ("left_behind".into(), left)));
            fields.extend(mended.map(|mended| ("mended".into(), mended)));
        }
        detail
    };
    let Some((first, rest)) = edges.split_first() else {
        return vec![entry(event, from, &next.state, detail(None))];
    };
    let first = entry(event, &first.from, &first.to, detail(Some(&first.label)));
    let rest = rest.iter().map(|edge| entry("passed", &edge.from, &edge.to, json!({ "by": edge.label })));
    std::iter::once(first).chain(rest).collect()
}
