//! Converts a journal entry to the parts of its audit text: the verb, the roles, the outcome and the reason. Pure.
//!
//! Only the fields named here are copied from the journal's detail, so that no argument or result of an action is included.

use serde_json::Value;

/// The maximum length of a reason, in characters.
const LONGEST_REASON: usize = 2_000;

/// The parts of the text. `{}` in the verb phrase is replaced by the execution.
#[derive(Default)]
pub(super) struct EventText {
    pub(super) did: String,
    pub(super) roles: Vec<String>,
    pub(super) outcome: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) digest: Option<String>,
}

pub(super) fn what(of: &store::Entry, detail: &Value) -> EventText {
    let event = detail.pointer("/event").unwrap_or(detail);
    // A command that a second person approved has the text of the command itself.
    let second = event.pointer("/seconded/by").and_then(Value::as_str);
    let event = event.pointer("/seconded/event").unwrap_or(event);
    let told = told_of(of, detail, event);
    match second {
        Some(second) => EventText { did: format!("{}, confirmed by {second}", told.did), ..told },
        None => told,
    }
}

fn told_of(of: &store::Entry, detail: &Value, event: &Value) -> EventText {
    let inner = event.get(&of.event).unwrap_or(&Value::Null);
    let text = |at: &str| inner.pointer(at).and_then(Value::as_str).map(ToOwned::to_owned);
    let plain = |did: &str| EventText { did: did.into(), ..EventText::default() };
    let order =
        |did: &str| EventText { reason: text("/reason").as_deref().and_then(shortened), ..plain(did) };
    match of.event.as_str() {
        "started" => match text("/parent/execution") {
            Some(parent) => plain(&format!("started {{}} as a child of execution {parent}")),
            None => plain("requested {}"),
        },
        "voted" => voted(inner),
        "cancel_requested" => order("cancelled {}"),
        "pause_requested" => order("paused {}"),
        "resume_requested" => order("resumed {}"),
        "retry_requested" => order("retried {}"),
        "terminate_requested" => order("terminated {}"),
        "leftovers_released" => order("released the effects left behind by {}"),
        "repaired" => repaired(inner),
        "settled" => settled(inner, of),
        "deadline_passed" => plain("recorded a missed deadline of {}"),
        "overdue" => plain("recorded the missed promised end of {}"),
        "signalled" => plain(&format!("sent signal {} to {{}}", text("/name").unwrap_or_default())),
        "fenced" => EventText {
            outcome: Some("refused".into()),
            ..plain("was refused a late result, because its lease had ended, of {}")
        },
        "child_started" => {
            let child = detail.get("child").and_then(Value::as_str).unwrap_or_default();
            plain(&format!("started execution {child} as a child of {{}}"))
        }
        "passed" => {
            let by = detail.get("by").and_then(Value::as_str).unwrap_or("of the workflow");
            plain(&format!("decided by rule {by:?} in {{}}"))
        }
        other => order(&format!("noted {} in {{}}", other.replace('_', " "))),
    }
}

fn voted(inner: &Value) -> EventText {
    let text = |at: &str| inner.pointer(at).and_then(Value::as_str).map(ToOwned::to_owned);
    let roles = texts(inner.pointer("/vote/person/roles"));
    let (did, outcome) = match text("/vote/verdict").as_deref() {
        Some("approve") => ("approved", "approved"),
        Some("refuse") => ("refused", "refused"),
        Some(_) | None => ("voted on", "voted"),
    };
    let acting = if roles.is_empty() { String::new() } else { format!(", as {},", roles.join(" and ")) };
    EventText {
        did: format!("{did}{acting} the plan of {{}}"),
        roles,
        outcome: Some(outcome.into()),
        reason: text("/vote/reason").as_deref().and_then(shortened),
        digest: text("/digest"),
    }
}

/// Returns the text of a repair by its kind. It includes neither the patch nor a result that the operator entered.
fn repaired(inner: &Value) -> EventText {
    let text = |at: &str| inner.pointer(at).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("/repair/kind").unwrap_or("another way").replace('_', " ");
    let slot = inner.pointer("/repair/slot").and_then(Value::as_u64);
    let slot = slot.map(|slot| format!(" of slot {slot}")).unwrap_or_default();
    let words = [text("/order/reason"), text("/repair/evidence")];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    EventText {
        did: format!("repaired {{}} by {kind}{slot}"),
        reason: shortened(&words.join("; evidence: ")),
        ..EventText::default()
    }
}

fn settled(inner: &Value, of: &store::Entry) -> EventText {
    let code = inner.pointer("/result/Err/code").and_then(Value::as_str);
    let did = match code {
        None => format!("completed an action of {} in {{}}", of.from),
        Some(code) => format!("failed an action of {} ({code}) in {{}}", of.from),
    };
    EventText { did, outcome: Some(code.unwrap_or("done").to_owned()), ..EventText::default() }
}

pub(super) fn texts(of: Option<&Value>) -> Vec<String> {
    let items = of.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

pub(super) fn shortened(reason: &str) -> Option<String> {
    let text: String = reason.chars().take(LONGEST_REASON).collect();
    (!text.trim().is_empty()).then_some(text)
}
