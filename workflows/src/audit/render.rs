//! Converts a journal entry to an audit entry: its tenant, its sentence and its fields. Pure.
//!
//! Only the fields named here are copied from the journal's detail, so that no argument or result of an action is included.

use crate::{
    audit::{
        denial::{Denial, Denied},
        entry::{Approver, Consent, EffectivePlan, Entry, JournalRef, PlanSource},
        event_text::{EventText, shortened, texts, what},
        sentence::sentence,
        whereabouts::Whereabouts,
    },
    policy::PolicyRef,
    signing::Digest,
};
use engine::{ApprovalRecord, AuditContext, Verdict};
use serde_json::{Value, json};
use store::Record;

/// The data of an execution apart from its journal.
#[derive(Clone, Debug, Default)]
pub(super) struct ExecutionContext {
    /// Its record. `None` if it was removed or never existed.
    pub(super) record: Option<Record>,
    /// The approvals of the execution, the earliest first.
    pub(super) cases: Vec<ApprovalRecord>,
    /// The digest of its current plan, and the policy that the plan names.
    pub(super) current_plan: Option<(String, Option<PolicyRef>)>,
    /// The place of its work, from that plan.
    pub(super) whereabouts: Whereabouts,
}

/// Returns the entry without its place in a chain.
pub(super) fn audit_entry(of: &store::Entry, place: u32, known: &ExecutionContext) -> Entry {
    let detail: Value = serde_json::from_slice(&of.detail).unwrap_or_default();
    if of.execution == AuditContext::no_execution() {
        return match of.event.as_str() {
            AuditContext::ERASED => erased(of, place, &detail),
            Denial::EVENT => denied(of, place, &detail),
            _ => asked(of, place, &detail),
        };
    }
    let record = known.record.as_ref();
    let what = what(of, &detail);
    let (plan, policy) = under(of, &what, known);
    let subject = record.map_or_else(String::new, |record| record.subject.clone());
    let workflow = record.map(|record| record.workflow.clone());
    let ended = ended(of, &detail, record);
    let took_effect = match &ended {
        Some(ended) => ended == COMPLETED,
        None => of.event == "settled" && what.outcome.as_deref() == Some("done"),
    };
    let approved = if ended.is_some() { consents(of, known) } else { Vec::new() };
    let approval = voted_on(&what, known).map(|case| case.id.clone());
    let entry = Entry {
        tenant: record.map_or_else(String::new, |record| record.tenant.clone()),
        roles: what.roles,
        execution: Some(of.execution.to_string()),
        workflow,
        subject,
        cluster: known.whereabouts.cluster.clone(),
        workspace: known.whereabouts.workspace.clone(),
        from: named(&of.from),
        to: named(&of.to),
        outcome: ended.clone().or(what.outcome),
        actuated_at: took_effect.then(|| of.at.into()),
        approval,
        approved,
        reason: what.reason,
        plan,
        policy,
        ..bare(of, place)
    };
    Entry { says: sentence(&entry, &what.did, ended.as_deref()), ..entry }
}

/// The outcome of a successful execution.
const COMPLETED: &str = "completed";

/// Returns the approval of a vote.
fn voted_on<'a>(what: &EventText, known: &'a ExecutionContext) -> Option<&'a ApprovalRecord> {
    let digest = what.digest.as_ref()?;
    known.cases.iter().find(|case| case.digest.0 == *digest)
}

/// Returns the approvals granted by then, each with its approvers.
fn consents(of: &store::Entry, known: &ExecutionContext) -> Vec<Consent> {
    let granted = known.cases.iter().filter(|case| case.ruling.as_deref() == Some("granted"));
    let by_then = granted.filter(|case| case.opened_at <= of.at);
    by_then
        .map(|case| Consent {
            approval: case.id.clone(),
            by: case
                .votes
                .iter()
                .filter(|vote| vote.verdict == Verdict::Approve)
                .map(|vote| Approver {
                    name: vote.person.name.clone(),
                    roles: vote.principal().roles.clone(),
                })
                .collect(),
            at: case.closed_at.unwrap_or(of.at).into(),
        })
        .collect()
}

/// Returns the fields that every entry has.
fn bare(of: &store::Entry, place: u32) -> Entry {
    Entry {
        tenant: String::new(),
        number: 0,
        previous: None,
        at: of.at.into(),
        actor: of.actor.clone(),
        kind: None,
        roles: Vec::new(),
        event: of.event.clone(),
        says: String::new(),
        execution: None,
        workflow: None,
        subject: String::new(),
        cluster: None,
        workspace: None,
        from: None,
        to: None,
        outcome: None,
        actuated_at: None,
        approval: None,
        approved: Vec::new(),
        reason: None,
        plan: None,
        policy: None,
        wrote: Vec::new(),
        removed: Vec::new(),
        denied: None,
        journal: JournalRef { sequence: of.sequence.0, place, digest: journalled(of) },
    }
}

/// Returns the digest of a whole journal entry.
fn journalled(of: &store::Entry) -> Digest {
    Digest::from_content(
        "journal entry",
        &json!({
            "execution": of.execution.to_string(), "at": of.at.0, "actor": of.actor, "event": of.event,
            "from": of.from, "to": of.to, "detail": String::from_utf8_lossy(&of.detail),
        }),
    )
}

/// Returns the entry for a change of documents without an execution.
fn asked(of: &store::Entry, place: u32, detail: &Value) -> Entry {
    let text = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (wrote, removed) = (texts(detail.get("wrote")), texts(detail.get("removed")));
    let count = detail.get("documents").and_then(Value::as_u64).unwrap_or_default();
    let changed = match (wrote.as_slice(), removed.as_slice()) {
        ([], []) => "which sent commands to executions".to_owned(),
        ([], gone) => format!("which removed {}", listed(gone, count)),
        (kept, []) => format!("which wrote {}", listed(kept, count)),
        (kept, gone) => {
            let named = u64::try_from(gone.len()).unwrap_or_default();
            format!(
                "which wrote {} and removed {}",
                listed(kept, count.saturating_sub(named)),
                gone.join(", ")
            )
        }
    };
    let reason = shortened(&text("reason"));
    let because = reason.as_ref().map(|why| format!("; because: {why}")).unwrap_or_default();
    let whereabouts = Whereabouts::of_documents(wrote.iter().chain(&removed));
    Entry {
        tenant: whose(wrote.iter().chain(&removed)),
        says: format!(
            "{} called {} at {}{whereabouts}, {changed}{because}",
            of.actor,
            text("asked"),
            text("at")
        ),
        subject: text("at"),
        cluster: whereabouts.cluster,
        workspace: whereabouts.workspace,
        outcome: Some("done".into()),
        actuated_at: Some(of.at.into()),
        reason,
        wrote,
        removed,
        ..bare(of, place)
    }
}

/// Returns the entry for a denied request.
fn denied(of: &store::Entry, place: u32, detail: &Value) -> Entry {
    let text = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (at, code) = (text("at"), text("code"));
    let denied: Option<Denied> = detail.get("denied").cloned().and_then(|it| serde_json::from_value(it).ok());
    let says = match &denied {
        Some(denied) => denied.describe(&of.actor, &at, &code),
        None => format!("{} was denied the request to {at}: {code}", of.actor),
    };
    Entry {
        tenant: text("tenant"),
        says,
        subject: at,
        outcome: named(&code),
        reason: shortened(&text("why")),
        denied,
        ..bare(of, place)
    }
}

/// Returns the entry for a completed execution that was removed.
fn erased(of: &store::Entry, place: u32, detail: &Value) -> Entry {
    let text = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (id, workflow, subject) = (text("execution"), text("workflow"), text("subject"));
    Entry {
        tenant: text("tenant"),
        says: format!(
            "{} removed the finished execution {id}, {workflow} of {subject}, with the outcome {}",
            of.actor,
            text("outcome")
        ),
        execution: named(&id),
        workflow: named(&workflow),
        subject,
        outcome: Some("forgotten".into()),
        ..bare(of, place)
    }
}

fn listed(names: &[String], all: u64) -> String {
    let named = u64::try_from(names.len()).unwrap_or(u64::MAX);
    match all.saturating_sub(named) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Collections whose document ids begin with the tenant's id.
const OF_TENANTS: &[&str] = &[
    "admissions",
    "asset-classifications",
    "certificate-withdrawals",
    "closed-tenants",
    "cohorts",
    "earmarks",
    "entitlements",
    "failed-starts",
    "holdings",
    "holds",
    "inventories",
    "lines",
    "loans",
    "occupancies",
    "open-loans",
    "quotas",
    "released-holds",
    "reservations",
    "rosters",
    "sightings",
    "tenants",
    "usages",
    "workloads",
    "workspaces",
];

/// Returns the tenant of these documents. Empty (the platform) if there are several or none.
fn whose<'a>(documents: impl Iterator<Item = &'a String>) -> String {
    let of_tenant = |name: &'a String| {
        let (collection, id) = name.split_once('/')?;
        OF_TENANTS.contains(&collection).then(|| id.split('/').next()).flatten()
    };
    let mut tenants: Vec<&str> = documents.filter_map(of_tenant).collect();
    tenants.sort_unstable();
    tenants.dedup();
    match tenants[..] {
        [one] => one.to_owned(),
        _ => String::new(),
    }
}

/// Returns the outcome of the execution, if this entry ended it.
fn ended(of: &store::Entry, detail: &Value, record: Option<&Record>) -> Option<String> {
    let turned = detail.get("phase").and_then(Value::as_str)?;
    let record = record.filter(|record| !record.open && record.updated_at == of.at)?;
    turned.ends_with("-> finished").then(|| record.reason.clone()).flatten()
}

/// Returns the plan of the entry and the policy of that plan.
fn under(
    of: &store::Entry,
    what: &EventText,
    known: &ExecutionContext,
) -> (Option<EffectivePlan>, Option<PolicyRef>) {
    let by_vote =
        |case: &&ApprovalRecord| what.digest.as_ref().is_some_and(|digest| case.digest.0 == *digest);
    let by_then = |case: &&ApprovalRecord| case.opened_at <= of.at;
    if let Some(digest) = &what.digest {
        let policy = known.cases.iter().find(by_vote).and_then(|case| policy_of(&case.plan.decides));
        return (Some(EffectivePlan { digest: digest.clone(), by: PlanSource::Vote }), policy);
    }
    if let Some(case) = known.cases.iter().rev().find(by_then) {
        let plan = EffectivePlan { digest: case.digest.0.clone(), by: PlanSource::Approval };
        return (Some(plan), policy_of(&case.plan.decides));
    }
    let Some((digest, policy)) = &known.current_plan else { return (None, None) };
    (Some(EffectivePlan { digest: digest.clone(), by: PlanSource::Sealing }), policy.clone())
}

/// Returns the policy that a plan names.
pub(super) fn policy_of(decides: &Value) -> Option<PolicyRef> {
    serde_json::from_value(decides.get("policy")?.clone()).ok()
}

fn named(state: &str) -> Option<String> {
    (!state.is_empty()).then(|| state.to_owned())
}
