//! One check of one closed tenant.

use super::{
    certified::ClosedTenant,
    sources::{Answers, LOOK_WITHIN, SilentSources, ask},
};
use crate::{
    destruction::{ClosedTenantLook, SeenRemains},
    platform::{ObservedResource, Platform, TenantResource},
    signing::{Digest, Moment},
    tenancy::{Tenant, TenantId, TenantState},
};
use engine::{AuditContext, DAY, Engine, Error, Notification, Undecided, View, with_actor, with_reason};
use std::{collections::BTreeSet, time::Duration};
use store::Timestamp;

/// The maximum number of certified resources that one check reads by name, in addition to those found before.
const NAMES_PER_LOOK: usize = 100;
/// A source without an answer for this time is notified.
const SILENT_FOR: Duration = DAY;

/// A stored check, with the changes since the previous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookReport {
    /// The check.
    pub look: ClosedTenantLook,
    /// Findings that the previous check did not have.
    pub new: Vec<SeenRemains>,
}

/// Checks a closed tenant and stores the result. Returns `None` for a tenant that is not closed. `by` is the actor of the findings if no user
/// requested the check.
///
/// # Errors
/// The errors of the store. A source that does not answer is no error; the check records it.
pub async fn look_at(
    engine: &Engine<Platform>,
    tenant: &TenantId,
    silent: &mut SilentSources,
    by: Option<&str>,
) -> Result<Option<LookReport>, Error> {
    let closed = engine.transact(false, |view| ClosedTenant::read(view, tenant)).await?;
    let Some(mut closed) = closed else { return Ok(None) };
    // One part at a time, because a certificate can list tens of thousands of assets. It never changes.
    while let Some(part) = closed.next_part() {
        closed.add(engine.transact(false, |view| part.entries(view)).await?);
    }
    let at = Moment::from(engine.clock().now());
    let from = closed.before.as_ref().map_or(0, |before| before.next_name);
    let (named, next_name) = closed.names(from, NAMES_PER_LOOK);
    let earlier = closed.before.iter().flat_map(|before| &before.remains);
    let names: BTreeSet<TenantResource> =
        named.into_iter().chain(earlier.map(|seen| seen.thing.clone())).collect();
    let resources = &*engine.platform().tenant_resources;
    let answers = ask(resources, &closed, &names, (at, LOOK_WITHIN), silent).await;
    let look = merged(&closed, answers, at, next_name);
    let new = new_findings(closed.before.as_ref(), &look);
    let report = LookReport { look, new };
    let keep = engine.transact(true, |view| keep(view, closed.before.as_ref(), &report));
    let kept = match by.filter(|_| !report.new.is_empty()) {
        Some(by) => {
            let context = AuditContext {
                by: by.to_owned(),
                operation: "look at closed tenants".to_owned(),
                path: format!("/v1/closed-tenants/{tenant}"),
            };
            with_actor(context, with_reason(&report.look.describe(), keep)).await?
        }
        None => keep.await?,
    };
    Ok(kept.then_some(report))
}

/// Returns the check from the answers and the previous check.
pub(super) fn merged(
    closed: &ClosedTenant,
    answers: Answers,
    at: Moment,
    next_name: usize,
) -> ClosedTenantLook {
    let before = closed.before.as_ref();
    let first_seen = |seen: &ObservedResource| {
        let same = |it: &&SeenRemains| it.thing == seen.thing && it.uid == seen.uid;
        before.and_then(|before| before.remains.iter().find(same)).map_or(at, |it| it.first_seen)
    };
    let mut remains: Vec<SeenRemains> = answers
        .seen
        .values()
        .map(|seen| SeenRemains {
            thing: seen.thing.clone(),
            uid: seen.uid.clone(),
            standing: closed.standing(seen, at),
            class: closed.class(seen),
            certified: closed.is_certified(&seen.thing),
            first_seen: first_seen(seen),
            last_seen: at,
        })
        .collect();
    let is_gone = |it: &SeenRemains| {
        answers.seen.contains_key(&it.thing)
            || (answers.surveyed.contains(&it.thing.system) && answers.absent.contains(&it.thing))
    };
    let not_known = before.iter().flat_map(|before| &before.remains).filter(|it| !is_gone(it)).cloned();
    remains.extend(not_known);
    remains.sort_by(|a, b| (!a.standing.is_finding(), &a.thing).cmp(&(!b.standing.is_finding(), &b.thing)));
    let more = remains.len().saturating_sub(ClosedTenantLook::MOST_REMAINS);
    remains.truncate(ClosedTenantLook::MOST_REMAINS);
    let has_findings = remains.iter().any(|seen| seen.standing.is_finding());
    let is_complete = answers.unanswered.is_empty();
    let since = |is: bool, earlier: Option<Moment>| is.then(|| earlier.unwrap_or(at));
    ClosedTenantLook {
        tenant: closed.tenant.clone(),
        at,
        complete_at: if is_complete { Some(at) } else { before.and_then(|before| before.complete_at) },
        remains,
        more,
        found_since: since(has_findings, before.and_then(|before| before.found_since)),
        unanswered: answers.unanswered.into_iter().collect(),
        unanswered_since: since(!is_complete, before.and_then(|before| before.unanswered_since)),
        next_name,
    }
}

fn new_findings(before: Option<&ClosedTenantLook>, look: &ClosedTenantLook) -> Vec<SeenRemains> {
    let known: BTreeSet<_> =
        before.iter().flat_map(|before| before.findings()).map(|seen| (&seen.thing, &seen.uid)).collect();
    look.findings().filter(|seen| !known.contains(&(&seen.thing, &seen.uid))).cloned().collect()
}

/// Stores a check with a notification of its changes. Returns false if the tenant is not closed, or if another check was stored in between.
fn keep(view: &mut View, before: Option<&ClosedTenantLook>, report: &LookReport) -> Result<bool, Undecided> {
    let look = &report.look;
    let tenant = view.get::<Tenant>(look.tenant.as_str())?;
    let standing = view.get::<ClosedTenantLook>(look.tenant.as_str())?;
    let is_closed = tenant.is_some_and(|tenant| tenant.state == TenantState::Closed);
    if !is_closed || standing.as_ref() != before {
        return Ok(false);
    }
    if !report.new.is_empty() {
        let new: Vec<String> = report.new.iter().take(10).map(SeenRemains::describe).collect();
        let more = report.new.len().saturating_sub(new.len());
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let text = format!("closed tenant {}: {}{more}", look.tenant, new.join("; "));
        view.put(&notification("closed_tenant.found", look, text))?;
    }
    if became_silent(before, look) {
        view.put(&notification("closed_tenant.unanswered", look, look.describe()))?;
    }
    view.put(look)?;
    Ok(true)
}

/// Returns true if a source has now been silent for [`SILENT_FOR`], and was not yet at the previous check.
fn became_silent(before: Option<&ClosedTenantLook>, look: &ClosedTenantLook) -> bool {
    let Some(since) = look.unanswered_since.map(Timestamp::from) else { return false };
    let silent = |at: Moment| Timestamp::from(at).since(since) >= SILENT_FOR;
    silent(look.at) && !before.is_some_and(|before| silent(before.at))
}

fn notification(kind: &str, look: &ClosedTenantLook, text: String) -> Notification {
    // Two checks at the same time with different findings have separate notifications.
    let about = Digest::from_content("look at a closed tenant", &text);
    Notification {
        id: format!("{kind}.{}.{}.{}", look.tenant, look.at.millis(), about.short()),
        kind: kind.into(),
        reason: None,
        about: look.tenant.to_string(),
        tenant: look.tenant.to_string(),
        to: vec!["compliance".into(), "dpo".into(), "platform_ops".into()],
        text: format!("{text}; `tenure closed-tenants show {}`", look.tenant),
        at: look.at.into(),
    }
}
