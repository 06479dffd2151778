//! Renders the sentence of an execution's entry from its fields. Pure.

use crate::audit::{entry::Entry, whereabouts::Whereabouts};
use std::fmt::Write as _;

/// Returns the sentence of an entry. `did` is the verb phrase, with `{}` for the execution. `ended` is the outcome, if this entry ended the
/// execution.
pub(super) fn sentence(entry: &Entry, did: &str, ended: Option<&str>) -> String {
    let thing = format!("{}{}", object(entry), whereabouts(entry));
    let mut says = format!("{} {}", entry.actor, did.replace("{}", &thing));
    // A write to a string does not fail.
    if let (Some(from), Some(to)) = (&entry.from, &entry.to)
        && from != to
    {
        let _ = write!(says, ", which went from {from} to {to}");
    }
    if let Some(ended) = ended {
        let _ = write!(says, " and ended: {ended}");
    }
    if let Some(reason) = &entry.reason {
        let _ = write!(says, "; because: {reason}");
    }
    for approved in approvals(entry) {
        let _ = write!(says, "; {approved}");
    }
    says
}

/// Returns a sentence for each granted approval: the approvers, the place, the time of effect, and the outcome.
pub(super) fn approvals(entry: &Entry) -> Vec<String> {
    let consent = |consent: &crate::audit::entry::Consent| {
        let people: Vec<_> =
            consent.by.iter().map(|one| format!("{} {}", one.roles.join(" and "), one.name)).collect();
        let actuated = match &entry.actuated_at {
            Some(at) => format!("actuated at {at}"),
            None => "not actuated".to_owned(),
        };
        format!(
            "{}{} approved {}{} at {}, {actuated}, outcome {}",
            people.join(" and ").trim(),
            entry.workspace.as_ref().map(|name| format!(" in workspace {name}")).unwrap_or_default(),
            object(entry),
            entry.cluster.as_ref().map(|name| format!(" for cluster {name}")).unwrap_or_default(),
            consent.at,
            entry.outcome.as_deref().unwrap_or("unknown")
        )
    };
    entry.approved.iter().filter(|one| !one.by.is_empty()).map(consent).collect()
}

fn object(entry: &Entry) -> String {
    match (&entry.workflow, &entry.execution) {
        (Some(workflow), _) => format!("{workflow} of {}", entry.subject),
        (None, Some(execution)) => format!("execution {execution}"),
        (None, None) => entry.subject.clone(),
    }
}

fn whereabouts(entry: &Entry) -> Whereabouts {
    Whereabouts { cluster: entry.cluster.clone(), workspace: entry.workspace.clone() }
}
