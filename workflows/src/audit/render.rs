//! A journal entry as the audit tells it: whose it is, the sentence, and the fields. Pure.
//!
//! Only what is named here is taken over from the journal's detail, so that nothing an action was given or answered gets in.

use crate::{
    audit::{
        denial::{Denial, Denied},
        entry::{EffectivePlan, Entry, JournalRef, PlanSource},
    },
    policy::PolicyRef,
    signing::Digest,
};
use engine::{ApprovalRecord, AuditContext};
use serde_json::{Value, json};
use store::Record;

/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 2_000;

/// What is known of an execution beside its journal.
#[derive(Clone, Debug, Default)]
pub(super) struct ExecutionContext {
    /// Its record; `None` once it is gone, or where there never was one.
    pub(super) record: Option<Record>,
    /// What people were asked, the earliest first.
    pub(super) cases: Vec<ApprovalRecord>,
    /// The plan as it stands: its digest, and the policy it names.
    pub(super) current_plan: Option<(String, Option<PolicyRef>)>,
}

/// The entry without its place in a chain.
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
    let thing = match &workflow {
        Some(workflow) => format!("{workflow} of {subject}"),
        None => format!("execution {}", of.execution),
    };
    let mut says = format!("{} {}", of.actor, what.did.replace("{}", &thing));
    if of.from != of.to && !of.from.is_empty() && !of.to.is_empty() {
        says.push_str(&format!(", which went from {} to {}", of.from, of.to));
    }
    if let Some(ended) = &ended {
        says.push_str(&format!(" and ended: {ended}"));
    }
    if let Some(reason) = &what.reason {
        says.push_str(&format!("; because: {reason}"));
    }
    Entry {
        tenant: record.map_or_else(String::new, |record| record.tenant.clone()),
        roles: what.roles,
        says,
        execution: Some(of.execution.to_string()),
        workflow,
        subject,
        from: named(&of.from),
        to: named(&of.to),
        outcome: ended.or(what.outcome),
        reason: what.reason,
        plan,
        policy,
        ..bare(of, place)
    }
}

/// What every entry says alike.
fn bare(of: &store::Entry, place: u32) -> Entry {
    Entry {
        tenant: String::new(),
        number: 0,
        previous: None,
        at: of.at.into(),
        actor: of.actor.clone(),
        roles: Vec::new(),
        event: of.event.clone(),
        says: String::new(),
        execution: None,
        workflow: None,
        subject: String::new(),
        from: None,
        to: None,
        outcome: None,
        reason: None,
        plan: None,
        policy: None,
        wrote: Vec::new(),
        removed: Vec::new(),
        denied: None,
        journal: JournalRef { sequence: of.sequence.0, place, digest: journalled(of) },
    }
}

/// The digest of all that a journal entry says.
fn journalled(of: &store::Entry) -> Digest {
    Digest::from_content(
        "journal entry",
        &json!({
            "execution": of.execution.to_string(), "at": of.at.0, "actor": of.actor, "event": of.event,
            "from": of.from, "to": of.to, "detail": String::from_utf8_lossy(&of.detail),
        }),
    )
}

/// A change of documents without an execution.
fn asked(of: &store::Entry, place: u32, detail: &Value) -> Entry {
    let text = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (wrote, removed) = (texts(detail.get("wrote")), texts(detail.get("removed")));
    let count = detail.get("documents").and_then(Value::as_u64).unwrap_or_default();
    let changed = match (wrote.as_slice(), removed.as_slice()) {
        ([], []) => "which asked something of executions".to_owned(),
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
    Entry {
        tenant: whose(wrote.iter().chain(&removed)),
        says: format!("{} called {} at {}, {changed}{because}", of.actor, text("asked"), text("at")),
        subject: text("at"),
        outcome: Some("done".into()),
        reason,
        wrote,
        removed,
        ..bare(of, place)
    }
}

/// A request that was not let in.
fn denied(of: &store::Entry, place: u32, detail: &Value) -> Entry {
    let text = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (at, code) = (text("at"), text("code"));
    let denied: Option<Denied> = detail.get("denied").cloned().and_then(|it| serde_json::from_value(it).ok());
    let says = match &denied {
        Some(denied) => denied.describe(&of.actor, &at, &code),
        None => format!("{} was denied what was asked at {at}: {code}", of.actor),
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

/// A finished execution that was forgotten.
fn erased(of: &store::Entry, place: u32, detail: &Value) -> Entry {
    let text = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (id, workflow, subject) = (text("execution"), text("workflow"), text("subject"));
    Entry {
        tenant: text("tenant"),
        says: format!(
            "{} forgot execution {id}, {workflow} of {subject}, which had ended long ago: {}",
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

/// Collections whose documents' ids begin with the tenant they belong to.
const OF_TENANTS: &[&str] = &[
    "admissions",
    "asset-classifications",
    "cohorts",
    "earmarks",
    "entitlements",
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

/// The one tenant to whom these documents belong; the platform if there are several or none.
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

/// What happened, as a part of the sentence in which `{}` stands for the execution.
#[derive(Default)]
struct EventText {
    did: String,
    roles: Vec<String>,
    outcome: Option<String>,
    reason: Option<String>,
    digest: Option<String>,
}

fn what(of: &store::Entry, detail: &Value) -> EventText {
    let event = detail.pointer("/event").unwrap_or(detail);
    // A command that a second person agreed to is told as the command it is.
    let second = event.pointer("/seconded/by").and_then(Value::as_str);
    let event = event.pointer("/seconded/event").unwrap_or(event);
    let told = told_of(of, detail, event);
    match second {
        Some(second) => EventText { did: format!("{}, with the consent of {second}", told.did), ..told },
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
            Some(parent) => plain(&format!("started {{}} as a part of execution {parent}")),
            None => plain("asked for {}"),
        },
        "voted" => voted(inner),
        "cancel_requested" => order("asked to turn back {}"),
        "pause_requested" => order("paused {}"),
        "resume_requested" => order("resumed {}"),
        "retry_requested" => order("asked to try again in {}"),
        "terminate_requested" => order("closed by force {}"),
        "leftovers_released" => order("released what was left behind in {}"),
        "repaired" => repaired(inner),
        "settled" => settled(inner, of),
        "deadline_passed" => plain("saw a deadline pass in {}"),
        "overdue" => plain("saw the promised end pass of {}"),
        "signalled" => plain(&format!("told of {} to {{}}", text("/name").unwrap_or_default())),
        "fenced" => EventText {
            outcome: Some("refused".into()),
            ..plain("was refused a late result, its lease had ended, of {}")
        },
        "child_started" => {
            let child = detail.get("child").and_then(Value::as_str).unwrap_or_default();
            plain(&format!("started execution {child} as a part of {{}}"))
        }
        "passed" => {
            let by = detail.get("by").and_then(Value::as_str).unwrap_or("what its workflow says");
            plain(&format!("decided by {by:?} in {{}}"))
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

/// A repair by its kind; neither the patch nor an answer that was put in by hand.
fn repaired(inner: &Value) -> EventText {
    let text = |at: &str| inner.pointer(at).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("/repair/kind").unwrap_or("another way").replace('_', " ");
    let slot = inner.pointer("/repair/slot").and_then(Value::as_u64);
    let slot = slot.map(|slot| format!(" of slot {slot}")).unwrap_or_default();
    let words = [text("/order/reason"), text("/repair/evidence")];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    EventText {
        did: format!("repaired {{}} by {kind}{slot}"),
        reason: shortened(&words.join("; shown by: ")),
        ..EventText::default()
    }
}

fn settled(inner: &Value, of: &store::Entry) -> EventText {
    let code = inner.pointer("/result/Err/code").and_then(Value::as_str);
    let did = match code {
        None => format!("did a part of {} in {{}}", of.from),
        Some(code) => format!("failed at a part of {} ({code}) in {{}}", of.from),
    };
    EventText { did, outcome: Some(code.unwrap_or("done").to_owned()), ..EventText::default() }
}

/// How the execution ended, if this entry ended it.
fn ended(of: &store::Entry, detail: &Value, record: Option<&Record>) -> Option<String> {
    let turned = detail.get("phase").and_then(Value::as_str)?;
    let record = record.filter(|record| !record.open && record.updated_at == of.at)?;
    turned.ends_with("-> finished").then(|| record.reason.clone()).flatten()
}

/// The plan that it was done under, and the policy of that plan.
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

/// The policy that a plan names.
pub(super) fn policy_of(decides: &Value) -> Option<PolicyRef> {
    serde_json::from_value(decides.get("policy")?.clone()).ok()
}

fn texts(of: Option<&Value>) -> Vec<String> {
    let items = of.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

fn shortened(reason: &str) -> Option<String> {
    let text: String = reason.chars().take(LONGEST_REASON).collect();
    (!text.trim().is_empty()).then_some(text)
}

fn named(state: &str) -> Option<String> {
    (!state.is_empty()).then(|| state.to_owned())
}
