//! Shows a dry run: the decision of policy, and the changes as a diff.

use crate::output::{
    self,
    style::{Paint, Stream},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Returns true if policy or a ledger decision would reject the request.
pub(crate) fn refused(preview: &Value) -> bool {
    let says = |value: &Value, what: &[&str]| {
        value.get("verdict").and_then(Value::as_str).is_some_and(|verdict| what.contains(&verdict))
    };
    let reasons = preview.get("reasons").and_then(Value::as_array).into_iter().flatten();
    let none = Value::Null;
    says(preview.get("decision").unwrap_or(&none), &["rejected"])
        || says(preview, &["infeasible"])
        || reasons.into_iter().any(|reason| says(reason, &["rejected", "reject", "failed"]))
}

/// Returns true if something would change. A plan with `before` and `after` is compared, and a reclaim changes something if it evicts a
/// workload. Every other workflow changes something when it starts.
pub(crate) fn changes(preview: &Value) -> bool {
    let decides = preview.pointer("/plan/decides").unwrap_or(&Value::Null);
    if decides.get("kind").and_then(Value::as_str) == Some("reclaim") {
        return decides.get("evictions").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    }
    !says_both(decides) || diff(decides).iter().any(|(sign, _)| *sign != Sign::Stays)
}

/// Returns true if the value contains `before` and `after` at any depth.
fn says_both(value: &Value) -> bool {
    match value {
        Value::Object(fields) => both(fields).is_some() || fields.values().any(says_both),
        Value::Array(items) => items.iter().any(says_both),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns the preview as text: the decision, the changes, and all other fields of the answer.
pub(crate) fn page(preview: &Value) -> String {
    let part = |path: &str| preview.pointer(path).cloned().unwrap_or(Value::Null);
    let title = output::sanitize(part("/plan/title").as_str().unwrap_or_default());
    let mut text = format!("{}\n", Paint::Bold.on(Stream::Out, &title));
    for verdict in [part("/decision/verdict"), part("/verdict")] {
        if let Some(verdict) = verdict.as_str() {
            text.push_str(&format!("verdict: {verdict}\n"));
        }
    }
    if part("/decision/verdict").is_null() && part("/verdict").is_null() && refused(preview) {
        text.push_str("verdict: rejected\n");
    }
    for reasons in [part("/decision/reasons"), part("/reasons")] {
        for reason in reasons.as_array().into_iter().flatten() {
            let said =
                |name: &str| output::sanitize(reason.get(name).and_then(Value::as_str).unwrap_or_default());
            text.push_str(&format!("  {:12} {}: {}\n", said("verdict"), said("rule"), said("detail")));
        }
    }
    text.push_str("changes (+ added, - removed)\n");
    text.push_str(&drawn(&diff(&part("/plan/decides"))));
    let placement = part("/plan/placement");
    if !placement.is_null() {
        text.push_str("proposed placement\n");
        text.push_str(&output::outline(&brief_placement(placement)));
    }
    let told = ["plan", "decision", "reasons", "verdict", "digest"];
    for (name, more) in preview.as_object().into_iter().flatten() {
        if !told.contains(&name.as_str()) && !more.is_null() {
            text.push_str(&output::outline(&json!({ name.as_str(): more })));
        }
    }
    text.push_str("nothing was changed\n");
    text
}

/// Returns the placement without the list of nodes that were considered.
pub(crate) fn brief_placement(mut placement: Value) -> Value {
    for part in ["proposed", "short", "claimed"] {
        if let Some(fields) = placement.get_mut(part).and_then(Value::as_object_mut) {
            fields.remove("considered");
        }
    }
    if let Some(fields) = placement.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    placement
}

/// The sign of a line in a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Added.
    Plus,
    /// Removed.
    Minus,
    /// Unchanged.
    Stays,
}

/// Lines of a diff.
type Lines = Vec<(Sign, String)>;

/// Returns the lines as text, coloured on a terminal.
pub(crate) fn drawn(lines: &[(Sign, String)]) -> String {
    let line = |(sign, line): &(Sign, String)| match sign {
        Sign::Plus => format!("{}\n", Paint::Green.on(Stream::Out, &format!("+ {line}"))),
        Sign::Minus => format!("{}\n", Paint::Red.on(Stream::Out, &format!("- {line}"))),
        Sign::Stays => format!("  {line}\n"),
    };
    lines.iter().map(line).collect()
}

/// Returns the lines of a value that changes from `before` to `after` at `name`. Absent values have no line.
pub(crate) fn change(name: &str, before: &Value, after: &Value) -> Lines {
    let mut lines = Lines::new();
    if before == after {
        add(&mut lines, Sign::Stays, name, after);
        return lines;
    }
    if let (Value::Object(old), Value::Object(new)) = (before, after) {
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for field in names {
            let of = |fields: &Map<String, Value>| fields.get(field).cloned().unwrap_or(Value::Null);
            let path = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
            lines.extend(change(&path, &of(old), &of(new)));
        }
        return lines;
    }
    add(&mut lines, Sign::Minus, name, before);
    add(&mut lines, Sign::Plus, name, after);
    lines
}

fn add(lines: &mut Lines, sign: Sign, name: &str, value: &Value) {
    if value.is_null() {
        return;
    }
    let text = output::outline(&json!({ name: value }));
    lines.extend(text.lines().map(|line| (sign, line.to_owned())));
}

/// Returns the decision of a plan as a diff. A plan that changes a thing has `before` and `after`; a plan that creates or removes one
/// describes it once.
fn diff(decides: &Value) -> Lines {
    let kind = decides.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some(fields) = decides.as_object() else {
        return output::outline(decides).lines().map(|line| (Sign::Stays, line.to_owned())).collect();
    };
    let mut lines = Lines::new();
    for (name, value) in fields.iter().collect::<BTreeMap<_, _>>() {
        match (name.as_str(), both(fields)) {
            ("before", Some(_)) => {}
            ("after", Some((before, after))) => lines.extend(change("", before, after)),
            _ => lines.extend(field(sign(kind, name), name, value)),
        }
    }
    lines
}

/// Returns the old and the new value, if the object has both.
fn both(fields: &Map<String, Value>) -> Option<(&Value, &Value)> {
    Some((fields.get("before")?, fields.get("after")?))
}

fn field(sign: Sign, name: &str, value: &Value) -> Lines {
    let mut lines = Lines::new();
    match value {
        Value::Object(fields) if both(fields).is_some() => {
            let (before, after) = both(fields).unwrap_or((&Value::Null, &Value::Null));
            let rest = fields.iter().filter(|(name, _)| !["before", "after"].contains(&name.as_str()));
            for (more, value) in rest {
                add(&mut lines, Sign::Stays, &format!("{name}.{more}"), value);
            }
            lines.extend(change(name, before, after));
        }
        Value::Array(items)
            if items.iter().any(|item| item.as_object().is_some_and(|of| both(of).is_some())) =>
        {
            for (place, item) in items.iter().enumerate() {
                lines.extend(field(sign, &format!("{name}[{place}]"), item));
            }
        }
        _ => add(&mut lines, sign, name, value),
    }
    lines
}

/// Returns the sign of the field `name` in a plan of this kind.
fn sign(kind: &str, name: &str) -> Sign {
    // The authority and the approvals of a plan do not change.
    const BASIS: [&str; 8] =
        ["kind", "policy", "approvals", "simulated", "reason", "basis", "cluster", "cluster_kind"];
    match kind {
        _ if BASIS.contains(&name) => Sign::Stays,
        "onboarding" => Sign::Plus,
        "offboarding" if ["tenant", "workspaces", "nodes", "destroys"].contains(&name) => Sign::Minus,
        "reclaim" if name == "evictions" => Sign::Minus,
        _ => Sign::Stays,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(decides: Value) -> String {
        drawn(&diff(&decides))
    }

    #[test]
    fn a_plan_with_equal_values_before_and_after_changes_nothing() {
        let of = |decides: Value| changes(&json!({ "plan": { "decides": decides } }));
        let quota = |after: u32| json!({ "kind": "quota_decrease", "before": { "nominal": 4 }, "after": { "nominal": after } });
        assert!(of(quota(2)) && !of(quota(4)));
        let level = |after: &str| json!({ "kind": "sla_change", "workspaces": [{ "before": { "tier": "a" }, "after": { "tier": after } }] });
        assert!(of(level("b")) && !of(level("a")));
        assert!(of(json!({ "kind": "onboarding", "tenant": "acme" })) && of(json!({ "kind": "incident" })));
        assert!(
            of(json!({ "kind": "reclaim", "evictions": ["w"] }))
                && !of(json!({ "kind": "reclaim", "evictions": [] }))
        );
    }

    #[test]
    fn a_changed_value_is_shown_before_and_after() {
        let decides = json!({
            "kind": "quota_decrease", "workspace": "research",
            "before": { "nominal": 4, "lending_limit": null, "flavor": "H100" },
            "after": { "nominal": 2, "lending_limit": 1, "flavor": "H100" },
            "priority": { "before": 3, "after": 3 },
        });
        assert_eq!(
            text(decides),
            "  flavor: H100\n+ lending_limit: 1\n- nominal: 4\n+ nominal: 2\n  kind: quota_decrease\n  priority: 3\n  workspace: research\n"
        );
    }

    #[test]
    fn an_onboarding_adds_and_an_offboarding_removes() {
        let made = json!({ "kind": "onboarding", "tenant": "acme", "objects": [{ "key": "acme" }], "policy": { "version": 2 } });
        assert_eq!(
            text(made),
            "  kind: onboarding\n+ objects:\n+   - key: acme\n  policy:\n    version: 2\n+ tenant: acme\n"
        );
        let ended = json!({ "kind": "offboarding", "tenant": "acme", "nodes": [{ "node": "n-1" }] });
        assert_eq!(text(ended), "  kind: offboarding\n- nodes:\n-   - node: n-1\n- tenant: acme\n");
    }

    #[test]
    fn changes_of_each_workspace_are_shown_separately() {
        let decides = json!({ "kind": "sla_change", "workspaces": [
            { "name": "serving", "before": { "tier": "research" }, "after": { "tier": "enterprise" } },
        ] });
        assert_eq!(
            text(decides),
            "  kind: sla_change\n  workspaces[0].name: serving\n- workspaces[0].tier: research\n+ workspaces[0].tier: enterprise\n"
        );
    }
}
