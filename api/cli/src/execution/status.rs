//! The status of an execution: as text, and as an exit code for scripts.

use crate::{
    common::{Common, Format},
    output,
};
use program::exit::{Exit, Failure};
use serde_json::Value;

/// Returns the status as one line.
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

/// Returns the last errors of an open execution, the limits that it waits for, and a decision that a pause holds back.
pub(crate) fn why(item: &Value) -> Vec<String> {
    let limits = item.pointer("/waiting_for/limits").and_then(Value::as_array).into_iter().flatten();
    let waits = limits.filter_map(|limit| limit.get("why").and_then(Value::as_str).map(output::sanitize));
    last_errors(item).into_iter().chain(waits).chain(paused_ruling(item)).collect()
}

/// Returns a note on an approval that was decided and has no effect while the execution is paused.
pub(crate) fn paused_ruling(item: &Value) -> Option<String> {
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    let approval = item.pointer("/waiting_for/approval")?;
    let said = |name: &str| approval.get(name).and_then(Value::as_str).map(output::sanitize);
    let (ruling, effect) = (said("ruling")?, said("takes_effect")?);
    Some(format!(
        "{ruling}; takes effect {effect}: to continue, run `tenure executions resume {id} --reason …`"
    ))
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

/// Returns the reasons of a rejection: failed policy rules, errors of actions, and an infeasible plan.
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

/// Returns the exit code of an execution that stopped or waits, or `None` while it runs.
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

/// Returns the seats of an approval in words. The server sends them as `2 of security or admin and 1 of finance`.
pub(crate) fn required_approvals(seats: &str) -> String {
    let seat = |seat: &str| {
        let (count, roles) = seat.split_once(" of ")?;
        let approvals = if count == "1" { "approval" } else { "approvals" };
        let roles: Vec<&str> = roles.split(" or ").collect();
        let (last, others) = roles.split_last()?;
        let roles =
            if others.is_empty() { (*last).to_owned() } else { format!("{} or {last}", others.join(", ")) };
        Some(format!("{count} {approvals} from {roles}"))
    };
    let words: Option<Vec<String>> = seats.split(" and ").map(seat).collect();
    words.map_or_else(|| seats.to_owned(), |words| words.join(" and "))
}

/// Returns a hint for an execution that stopped or waits.
pub(crate) fn hint(item: &Value, exit: Exit) -> Option<String> {
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    match exit {
        Exit::AwaitsApproval => {
            let wanted = item.pointer("/waiting_for/approval/wanted").and_then(Value::as_str);
            Some(format!(
                "waiting for {}: `tenure approvals show {id}`, then `tenure approvals approve {id}` as another person",
                wanted.map_or_else(|| "an approval".into(), required_approvals)
            ))
        }
        Exit::Failed => Some(format!(
            "parked until an operator acts: `tenure executions show {id}` lists the errors and remedies"
        )),
        Exit::TakenBack => Some(format!("rolled back: `tenure executions show {id}` shows the reason")),
        Exit::Refused => Some(format!("rejected: `tenure executions show {id}` shows the reason")),
        _ => None,
    }
}

/// Shows an execution that stopped or waits, and a hint.
pub(crate) fn print_at_rest(common: &Common, item: &Value, exit: Exit) -> Result<Exit, Failure> {
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, item)?,
        Format::Table => {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            output::say(&format!("{id} {}\n", progress(item)))?;
        }
    }
    if exit == Exit::Refused {
        refusals(item).iter().for_each(|why| output::note(&format!("reason: {why}")));
    }
    if let Some(hint) = hint(item, exit) {
        output::note(&hint);
    }
    Ok(exit)
}

/// Shows the status of an execution.
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

/// Shows the result of a command: the status of the execution, or the proposal that a second person must confirm.
pub(crate) fn print_accepted(common: &Common, item: &Value) -> Result<Exit, Failure> {
    let Some(proposal) = item.get("proposal").and_then(Value::as_str) else {
        return print_status(common, item);
    };
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, item)?,
        Format::Table => output::say(&format!("{proposal} needs a second person\n"))?,
    }
    output::note(&format!("another person can confirm it: `tenure proposals second {proposal}`"));
    Ok(Exit::AwaitsApproval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_shown_as_a_number_of_approvals_and_their_roles() {
        assert_eq!(required_approvals("1 of security"), "1 approval from security");
        assert_eq!(
            required_approvals("2 of compliance or security or admin and 1 of finance"),
            "2 approvals from compliance, security or admin and 1 approval from finance"
        );
        assert_eq!(required_approvals("no seats"), "no seats");
    }
}
