//! Where an execution stands, as the server tells it: for people in words, for scripts as an exit code.

use crate::{
    common::{Common, Format},
    output,
};
use program::exit::{Exit, Failure};
use serde_json::Value;

/// Where the execution stands, in one line.
pub(crate) fn progress(item: &Value) -> String {
    let part = |name: &str| output::sanitize(item.get(name).and_then(Value::as_str).unwrap_or_default());
    let mut line = format!("{} {}", part("updated_at"), part("state"));
    if part("phase") != "forward" {
        line.push_str(&format!(" ({})", part("phase")));
    }
    if !part("reason").is_empty() {
        line.push_str(&format!(": {}", part("reason")));
    }
    line
}

/// What an open execution last ran into, a line for each error; and what it waits for at limited keys.
pub(crate) fn why(item: &Value) -> Vec<String> {
    let limits = item.pointer("/waiting_for/limits").and_then(Value::as_array).into_iter().flatten();
    let waits = limits.filter_map(|limit| limit.get("why").and_then(Value::as_str).map(output::sanitize));
    last_errors(item).into_iter().chain(waits).chain(paused_ruling(item)).collect()
}

/// That people have decided, and that nothing follows from it while the execution is paused.
pub(crate) fn paused_ruling(item: &Value) -> Option<String> {
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    let approval = item.pointer("/waiting_for/approval")?;
    let said = |name: &str| approval.get(name).and_then(Value::as_str).map(output::sanitize);
    let (ruling, effect) = (said("ruling")?, said("takes_effect")?);
    Some(format!("{ruling}; takes effect {effect}: `tenure executions resume {id} --reason …`"))
}

fn last_errors(item: &Value) -> Vec<String> {
    let failure = item.get("last_failure").filter(|failure| !failure.is_null());
    let open = item.get("open").and_then(Value::as_bool) == Some(true);
    let Some(failure) = failure.filter(|_| open) else { return Vec::new() };
    let text =
        |of: &Value, name: &str| output::sanitize(of.get(name).and_then(Value::as_str).unwrap_or_default());
    let place = format!("{} in {}", text(failure, "at"), text(failure, "state"));
    let errors = failure.get("errors").and_then(Value::as_array).into_iter().flatten();
    errors.map(|error| format!("{place}: {}: {}", text(error, "code"), text(error, "message"))).collect()
}

/// Why an execution was rejected: the rules that refused, and what an action refused with.
pub(crate) fn refusals(item: &Value) -> Vec<String> {
    let said =
        |of: &Value, name: &str| output::sanitize(of.get(name).and_then(Value::as_str).unwrap_or_default());
    let list = |path: &str| item.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let rules = list("/data/reasons").filter(|reason| said(reason, "verdict") == "failed");
    let rules = rules.map(|reason| format!("{}: {}", said(reason, "rule"), said(reason, "detail")));
    let errors = list("/last_failure/errors");
    let errors = errors.map(|error| format!("{}: {}", said(error, "code"), said(error, "message")));
    let plan = item.pointer("/data/planned").filter(|plan| said(plan, "verdict") == "infeasible");
    let plan = plan.map(|plan| format!("the plan: {}", said(plan, "why")));
    rules.chain(errors).chain(plan).collect()
}

/// What it means to a script that an execution stands where it does; `None` while it moves.
pub(crate) fn rest(item: &Value) -> Option<Exit> {
    let part = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    match (part("phase"), part("reason")) {
        ("finished", "completed") => Some(Exit::Done),
        ("finished", "rejected" | "refused" | "expired") => Some(Exit::Refused),
        ("finished", _) => Some(Exit::TakenBack),
        ("parked", _) => Some(Exit::Failed),
        _ => {
            let case = item.pointer("/waiting_for/approval").filter(|case| !case.is_null());
            let asked = case.is_some_and(|case| case.get("ruling").is_none_or(Value::is_null));
            asked.then_some(Exit::AwaitsApproval)
        }
    }
}

/// What a person should know or do about an execution at rest.
pub(crate) fn hint(item: &Value, exit: Exit) -> Option<String> {
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    match exit {
        Exit::AwaitsApproval => {
            let wanted = item.pointer("/waiting_for/approval/wanted").and_then(Value::as_str);
            Some(format!(
                "it waits for {}: `tenure approvals show {id}`, then `tenure approvals approve {id}` as another person",
                wanted.unwrap_or("people")
            ))
        }
        Exit::Failed => Some(format!(
            "it is parked and waits for an operator: `tenure executions show {id}`, the manual, page operations"
        )),
        Exit::TakenBack => Some(format!("it was turned back: `tenure executions show {id}` says why")),
        Exit::Refused => {
            Some(format!("it did not become what was asked for: `tenure executions show {id}` says why"))
        }
        _ => None,
    }
}

/// Shows an execution that has come to rest, and what to do about it.
pub(crate) fn print_at_rest(common: &Common, item: &Value, exit: Exit) -> Result<Exit, Failure> {
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, item)?,
        Format::Table => {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            output::say(&format!("{id} {}\n", progress(item)))?;
        }
    }
    if exit == Exit::Refused {
        refusals(item).iter().for_each(|why| output::note(&format!("refused by {why}")));
    }
    if let Some(hint) = hint(item, exit) {
        output::note(&hint);
    }
    Ok(exit)
}

/// Shows where an execution stands.
pub(crate) fn print_status(common: &Common, item: &Value) -> Result<Exit, Failure> {
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, item)?,
        Format::Table => {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            output::say(&format!("{id} {}\n", progress(item)))?;
        }
    }
    Ok(Exit::Done)
}

/// Shows what became of a command: where the execution stands, or that a second person is waited for.
pub(crate) fn print_accepted(common: &Common, item: &Value) -> Result<Exit, Failure> {
    let Some(proposal) = item.get("proposal").and_then(Value::as_str) else {
        return print_status(common, item);
    };
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, item)?,
        Format::Table => output::say(&format!("{proposal} waits for a second person\n"))?,
    }
    output::note(&format!("as another person: `tenure proposals second {proposal}`"));
    Ok(Exit::AwaitsApproval)
}
