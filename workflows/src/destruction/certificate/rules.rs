//! Rules between the fields of a certificate. They apply to every signer.

use super::{
    Certificate, CertificateEntry, CertificateKind, RecordedApproval,
    contents::{self, ListSummary},
    problem::Problem,
    sentences::{self, source_counts},
};
use crate::{
    destruction::{
        asset::AssetId,
        inventory::Inventory,
        sanitisation::{
            attribution::RecordedRepair,
            record::{SanitisationOutcome, SanitisationRecord},
        },
    },
    platform::VerifiedAs,
    signing::Moment,
};
use engine::{Ballot, Person, Plan, PlanDigest, Verdict, Vote};
use serde_json::Value;
use std::collections::BTreeSet;

/// The actor's name of the verifier in records.
const VERIFIER: &str = "tenure verifier";
/// The beginnings of caveats that certificates of each version have, if their assets require them.
const CAVEATS: [&str; 6] = [
    "It proves what was recorded",
    "Fields follow NIST",
    "GPU memory:",
    "LUKS volumes:",
    "Not looked at by a separate verifier",
    "Until ",
];

/// Returns every broken rule with the field that breaks it.
pub(super) fn broken(certificate: &Certificate, entries: &[CertificateEntry]) -> Vec<Problem> {
    let mut problems = of_cover(certificate, &ListSummary::of(entries));
    of_list(certificate, entries, &mut problems);
    problems.extend(of_entries(certificate, 0, entries));
    problems
}

/// Returns the broken rules of a cover whose entries have this summary.
pub(super) fn of_cover(certificate: &Certificate, summary: &ListSummary) -> Vec<Problem> {
    let mut problems = Vec::new();
    of_summary(certificate, summary, &mut problems);
    source_counts::of_cover(certificate, &summary.sources, &mut problems);
    for (place, approval) in certificate.approvals.iter().enumerate() {
        of_approval(certificate, place, approval, &mut problems);
    }
    of_times(certificate, &mut problems);
    of_repairs(certificate, &mut problems);
    of_limits(certificate, summary, &mut problems);
    of_supplement(certificate, &mut problems);
    problems.extend(sentences::cover_without_source(certificate));
    problems
}

/// Returns the broken rules of single entries, of which the first has the number `first` in the whole list.
pub(super) fn of_entries(
    certificate: &Certificate,
    first: usize,
    entries: &[CertificateEntry],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, entry) in (first..).zip(entries) {
        of_entry(certificate, place, entry, &mut problems);
        source_counts::of_entry(certificate, place, entry, &mut problems);
        of_record_times(certificate, place, entry, &mut problems);
        of_record_repairs(certificate, place, entry, &mut problems);
    }
    problems.extend(sentences::entries_without_source(certificate, first, entries));
    problems
}

/// A supplementary certificate names the first one, different from itself, in its title and caveats.
fn of_supplement(certificate: &Certificate, problems: &mut Vec<Problem>) {
    let says = certificate.title.starts_with("Supplementary certificate");
    let Some(first) = &certificate.supplements else {
        if says {
            problems
                .push(Problem::new("supplements", "is missing: the title says that it supplements another"));
        }
        return;
    };
    if first.id == certificate.id {
        problems.push(Problem::new("supplements.id", "is its own number"));
    }
    let hex = first.digest.0.strip_prefix("sha256:").unwrap_or_default();
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        problems.push(Problem::new("supplements.digest", "is not a SHA-256"));
    }
    if !says || !certificate.title.contains(&first.id.to_string()) {
        let other = format!("does not say that it supplements certificate {}", first.id);
        problems.push(Problem::new("title", other));
    }
    let caveat = contents::supplement_caveat(first);
    if !certificate.caveats.contains(&caveat) {
        problems.push(Problem::new("caveats", format!("lack: {caveat}")));
    }
}

/// Each repair names its author and was made before the issue, and no person seconded their own repair.
fn of_repairs(certificate: &Certificate, problems: &mut Vec<Problem>) {
    for (place, repair) in certificate.repairs.iter().enumerate() {
        if repair.seconded_by.as_ref().is_some_and(|second| second.trim() == repair.by.trim()) {
            let twice = format!("{} agreed to a repair of their own", repair.by);
            problems.push(Problem::new(format!("repairs[{place}].seconded_by"), twice));
        }
        if repair.by.trim().is_empty() {
            problems.push(Problem::new(format!("repairs[{place}].by"), "is empty: name a person"));
        }
        if repair.at > certificate.issued_at {
            let late = format!("{} is after the date of issue", repair.at);
            problems.push(Problem::new(format!("repairs[{place}].at"), late));
        }
    }
}

/// A record that rests on a statement is marked, and the cover lists the person.
fn of_record_repairs(
    certificate: &Certificate,
    place: usize,
    entry: &CertificateEntry,
    problems: &mut Vec<Problem>,
) {
    let Some(record) = &entry.record else { return };
    let mut wrong = |field: &str, problem: String| {
        problems.push(Problem::new(format!("assets[{place}].record.{field}"), problem));
    };
    match &record.stated {
        Some(repair) => {
            if !certificate.repairs.contains(repair) {
                wrong("stated", "is not a repair that the cover lists".into());
            }
            if record.result == SanitisationOutcome::SanitisedVerified {
                wrong("result", format!("claims to be verified, and {} merely stated it", repair.people()));
            }
        }
        None => {
            let is_about = |repair: &&RecordedRepair| {
                repair.claims_removal() && repair.things.contains(&entry.asset.locator)
            };
            if let Some(repair) =
                certificate.repairs.iter().find(is_about).filter(|_| entry.exception.is_none())
            {
                wrong("stated", format!("is missing: {} stated that it was done", repair.people()));
            }
        }
    }
    if let Some(verification) = &record.verification
        && let Some(VerifiedAs::Platform | VerifiedAs::Mixed) = verification.verified_as
        && verification.actor.name.trim() == VERIFIER
    {
        wrong("verification.actor", "names the verifier, but the check used other credentials".into());
    }
}

/// The required caveats are present.
fn of_limits(certificate: &Certificate, summary: &ListSummary, problems: &mut Vec<Problem>) {
    let required = summary.caveats();
    for caveat in required.iter().filter(|caveat| CAVEATS.iter().any(|known| caveat.starts_with(known))) {
        if !certificate.caveats.contains(caveat) {
            problems.push(Problem::new("caveats", format!("lack: {caveat}")));
        }
    }
    if certificate.not_checked.is_empty() {
        problems.push(Problem::new("not_checked", "is empty, but no certificate covers every place"));
    }
}

fn of_list(certificate: &Certificate, entries: &[CertificateEntry], problems: &mut Vec<Problem>) {
    let mut seen: BTreeSet<&AssetId> = BTreeSet::new();
    for (place, entry) in entries.iter().enumerate() {
        if !seen.insert(&entry.asset.id) {
            let twice = format!("{} is listed twice", entry.asset.id);
            problems.push(Problem::new(format!("assets[{place}].id"), twice));
        }
    }
    let listed = &certificate.inventory;
    if listed.assets != entries.len() {
        let count = format!("is {}, but {} are listed", listed.assets, entries.len());
        problems.push(Problem::new("inventory.assets", count));
    }
    let found = Inventory::exactly(entries.iter().map(|entry| entry.asset.clone())).digest();
    if found != listed.digest {
        problems.push(Problem::new("inventory.digest", format!("the assets listed have digest {found}")));
    }
}

fn of_entry(certificate: &Certificate, place: usize, entry: &CertificateEntry, problems: &mut Vec<Problem>) {
    let mut wrong = |field: &str, problem: String| {
        problems.push(Problem::new(format!("assets[{place}].{field}"), problem));
    };
    let asset = &entry.asset;
    if asset.id != AssetId::new(asset.kind, &asset.locator) {
        wrong("id", format!("is not the id of a {} at {}", <&str>::from(asset.kind), asset.locator));
    }
    if asset.tenant != certificate.tombstone.tenant {
        wrong("tenant", format!("is not {}", certificate.tombstone.tenant));
    }
    let hash = entry.record.as_ref().map(SanitisationRecord::hash);
    if hash != entry.record_hash {
        let hash = hash.map_or_else(|| "there is no record".into(), |hash| format!("the record has {hash}"));
        wrong("record_hash", hash);
    }
    let judged = contents::judge(asset, entry.record.as_ref(), certificate.id, certificate.pivot_at);
    match (judged, &entry.exception) {
        (Err(why), None) => wrong("record", format!("is not valid: {why}")),
        (Ok(()), Some(_)) => wrong("exception", "must be empty, because the record is valid".into()),
        (Ok(()), None) | (Err(_), Some(_)) => {}
    }
}

fn of_summary(certificate: &Certificate, summary: &ListSummary, problems: &mut Vec<Problem>) {
    let exceptions = summary.exceptions(&certificate.repairs);
    if certificate.exceptions != exceptions {
        problems.push(Problem::new(
            "exceptions",
            format!("is {}, but there are {exceptions}", certificate.exceptions),
        ));
    }
    let kind = if exceptions == 0 { CertificateKind::Complete } else { CertificateKind::WithExceptions };
    if certificate.kind != kind {
        problems.push(Problem::new("kind", format!("is {}, but must be {kind}", certificate.kind)));
    }
    if certificate.title.contains("EXCEPTIONS") != (kind == CertificateKind::WithExceptions) {
        problems.push(Problem::new("title", format!("does not say that it is {kind}")));
    }
    if certificate.results != summary.results {
        problems.push(Problem::new("results", "do not add up to the assets listed"));
    }
}

fn of_approval(
    certificate: &Certificate,
    place: usize,
    approval: &RecordedApproval,
    problems: &mut Vec<Problem>,
) {
    let mut wrong = |field: &str, problem: String| {
        problems.push(Problem::new(format!("approvals[{place}].{field}"), problem));
    };
    let plan = Plan { title: String::new(), decides: approval.plan.clone(), placement: Value::Null };
    let digest = plan.digest(&approval.workflow, approval.schema);
    if digest.0 != approval.plan_digest {
        wrong("plan_digest", format!("the plan has digest {digest}"));
    }
    let mut names = BTreeSet::new();
    for (vote, cast) in approval.votes.iter().enumerate() {
        if cast.name == approval.requested_by || cast.name == certificate.request.by {
            wrong(&format!("votes[{vote}].name"), format!("{} requested it and may not vote", cast.name));
        }
        if !names.insert(&cast.name) {
            wrong(&format!("votes[{vote}].name"), format!("{} voted twice", cast.name));
        }
        if let Some(other) = &cast.on_behalf_of {
            if *other == approval.requested_by || *other == certificate.request.by {
                wrong(
                    &format!("votes[{vote}].on_behalf_of"),
                    format!("{other} requested it and may not vote"),
                );
            }
            if !names.insert(other) {
                wrong(&format!("votes[{vote}].on_behalf_of"), format!("{other} voted twice"));
            }
        }
        if cast.verdict == Verdict::Refuse {
            wrong(&format!("votes[{vote}].verdict"), format!("{} refused", cast.name));
        }
        if cast.at < approval.opened_at || cast.at > approval.granted_at {
            wrong(&format!("votes[{vote}].at"), "is outside the time of the approval".into());
        }
    }
    let ballot = ballot(approval);
    // A single emergency vote needs a reason, which readers of the certificate see.
    let broken = approval.votes.iter().any(|vote| vote.break_glass && !vote.reason.trim().is_empty());
    if ballot.seats_required() == 0 || (ballot.seats_filled() < ballot.seats_required() && !broken) {
        wrong("votes", format!("fill {} of {} seats", ballot.seats_filled(), ballot.seats_required()));
    }
    if approval.granted_at < approval.opened_at {
        wrong("granted_at", "is before the approval was opened".into());
    }
    if approval.granted_at > certificate.pivot_at {
        wrong("granted_at", "is after the beginning of destruction".into());
    }
    if approval.opened_at < certificate.request.at {
        wrong("opened_at", "is before the request".into());
    }
}

fn ballot(approval: &RecordedApproval) -> Ballot {
    let vote = |vote: &super::RecordedVote| {
        let person = Person::new(&*vote.name, &vote.roles);
        Vote::new(person, vote.verdict, "", vote.at.into())
    };
    // More seats than possible votes are also a problem. The bound limits the cost of the check.
    let seats = approval.seats.iter().map(|seat| engine::Seat { count: seat.count.min(100), ..seat.clone() });
    let digest = PlanDigest(approval.plan_digest.clone());
    let mut ballot = Ballot::open(digest, seats.take(100).collect(), approval.opened_at.into(), None);
    ballot.votes = approval.votes.iter().take(1000).map(vote).collect();
    ballot
}

/// Returns a problem of `field` if `earlier` lies after `later`, the time of `what`.
fn in_order(field: String, earlier: Moment, later: Moment, what: &str) -> Option<Problem> {
    (earlier > later).then(|| Problem::new(field, format!("{earlier} is after {what}, {later}")))
}

fn of_times(certificate: &Certificate, problems: &mut Vec<Problem>) {
    let (pivot, issued) = (certificate.pivot_at, certificate.issued_at);
    problems.extend(in_order(
        "request.at".into(),
        certificate.request.at,
        pivot,
        "the beginning of destruction",
    ));
    problems.extend(in_order("pivot_at".into(), pivot, issued, "the date of issue"));
    let named = certificate
        .approvals
        .iter()
        .any(|approval| contents::names(&approval.plan, &certificate.inventory.digest));
    if !named {
        problems.push(Problem::new("approvals", "none of them names the destroyed inventory"));
    }
}

/// A record has no time after the issue.
fn of_record_times(
    certificate: &Certificate,
    place: usize,
    entry: &CertificateEntry,
    problems: &mut Vec<Problem>,
) {
    let Some(record) = &entry.record else { return };
    let verified = record.verification.as_ref().map(|verification| verification.at);
    let validated = record.validation.as_ref().map(|validation| validation.at);
    let times = [
        ("started_at", Some(record.started_at)),
        ("ended_at", record.ended_at),
        ("verification.at", verified),
        ("validation.at", validated),
    ];
    for (field, at) in times {
        let field = format!("assets[{place}].record.{field}");
        let at = at.unwrap_or(record.started_at);
        problems.extend(in_order(field, at, certificate.issued_at, "the date of issue"));
    }
}
