//! Renders a certificate as a printable page and as terminal text. Both contain every field.
//!
//! The page is one HTML file without scripts or links, laid out for A4; browsers print it to PDF. All content of a certificate is escaped.

use crate::{
    destruction::{
        certificate::{Certificate, CertificateEntry, RecordedVote, Verification},
        sanitisation::{
            parts::{Actor, ValidationVerdict},
            record::{SanitisationOutcome, SanitisationRecord},
        },
    },
    foreign_text,
    signing::canonical::value,
};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write as _};

const STYLE: &str = "
@page { size: A4; margin: 18mm 15mm; }
body { font: 10pt/1.4 Georgia, 'Times New Roman', serif; color: #111; max-width: 180mm; margin: 1em auto; }
h1 { font-size: 17pt; margin: 0 0 .2em; } h2 { font-size: 12pt; margin: 1.6em 0 .4em; border-bottom: .5pt solid #888; }
h3 { font-size: 10.5pt; margin: 1.2em 0 .2em; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; } .asset { break-inside: avoid; }
th, td { text-align: left; vertical-align: top; padding: 1pt 6pt 1pt 0; overflow-wrap: anywhere; font-size: 9pt; }
th { font-weight: normal; color: #555; width: 34%; } .no { color: #a00000; font-weight: bold; }
.exceptions { border: 2pt solid #a00000; padding: .5em 1em; } ul { margin: .2em 0; padding-left: 1.2em; }
.sign td { border-bottom: .5pt solid #888; height: 12mm; } small { color: #555; }
";

/// Returns the certificate as a printable page, which includes the result of its verification.
#[must_use]
pub fn html(verification: &Verification) -> Option<String> {
    let certificate = verification.certificate.as_ref()?;
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    let title = escape(&certificate.title);
    let _ = write!(page, "<title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n");
    let _ = writeln!(
        page,
        "<p><small>No. {} · issued {} by {}</small></p>",
        certificate.id,
        certificate.issued_at,
        escape(&certificate.issuer)
    );
    if let Some(withdrawn) = &verification.withdrawals.withdrawn {
        let _ = writeln!(
            page,
            "<p class=\"exceptions\"><span class=\"no\">This certificate is WITHDRAWN.</span> It was {}.</p>",
            escape(&withdrawn.describe())
        );
    }
    if certificate.exceptions > 0 {
        let _ = writeln!(
            page,
            "<p class=\"exceptions\"><span class=\"no\">This certificate has exceptions.</span> {} exceptions among {} assets and the steps that operators skipped; each has its reason.</p>",
            certificate.exceptions, certificate.inventory.assets
        );
    }
    cover(&mut page, certificate, verification);
    page.push_str("<h2>Assets</h2>\n");
    for (place, entry) in verification.assets.iter().enumerate() {
        asset(&mut page, place, entry);
    }
    signatures(&mut page, verification);
    page.push_str("</body></html>\n");
    Some(page)
}

fn cover(page: &mut String, certificate: &Certificate, verification: &Verification) {
    let mut rest = value(certificate);
    let lists = ["caveats", "not_checked", "retained", "approvals", "repairs", "title", "issuer"];
    if let Some(fields) = rest.as_object_mut() {
        for list in lists {
            fields.remove(list);
        }
    }
    section(page, "Destroyed", &rest);
    section(page, "Who agreed", &value(&certificate.approvals));
    if !certificate.repairs.is_empty() {
        page.push_str("<h2>Repaired or stated by operators</h2>\n<ul>\n");
        for repair in &certificate.repairs {
            let _ = writeln!(page, "<li>{}</li>", escape(&repair.describe()));
        }
        page.push_str("</ul>\n");
        table(page, &value(&certificate.repairs));
    }
    section(page, "Retained", &value(&certificate.retained));
    section(page, "Not checked", &value(&certificate.not_checked));
    page.push_str("<h2>Not proved by this certificate</h2>\n<ul>\n");
    for line in verification.limitations() {
        let _ = writeln!(page, "<li>{}</li>", escape(&line));
    }
    page.push_str("</ul>\n");
}

fn section(page: &mut String, title: &str, content: &Value) {
    let _ = writeln!(page, "<h2>{title}</h2>");
    table(page, content);
}

/// Writes every leaf with its path in a table row.
fn table(page: &mut String, content: &Value) {
    let mut leaves = Vec::new();
    gather(content, String::new(), &mut leaves);
    if leaves.is_empty() {
        page.push_str("<p>Nothing.</p>\n");
        return;
    }
    page.push_str("<table>\n");
    for (name, text) in leaves {
        let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(&name), escape(&text));
    }
    page.push_str("</table>\n");
}

fn gather(content: &Value, path: String, leaves: &mut Vec<(String, String)>) {
    match content {
        Value::Object(fields) => {
            for (name, field) in fields.iter().collect::<BTreeMap<_, _>>() {
                let name = name.replace('_', " ");
                gather(field, if path.is_empty() { name } else { format!("{path} · {name}") }, leaves);
            }
        }
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            if !items.is_empty() {
                leaves.push((path, items.iter().map(leaf).collect::<Vec<_>>().join(", ")));
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                gather(item, format!("{path} {}", place + 1).trim_start().to_owned(), leaves);
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => leaves.push((path, leaf(content))),
    }
}

fn leaf(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn asset(page: &mut String, place: usize, entry: &CertificateEntry) {
    let _ =
        writeln!(page, "<div class=\"asset\"><h3>{}. {}</h3>", place + 1, escape(entry.asset.id.as_str()));
    let _ = writeln!(page, "<p>{}</p>", escape(&summary(entry)));
    if let Some(exception) = &entry.exception {
        let _ = writeln!(page, "<p class=\"no\">Exception: {}.</p>", escape(exception));
    }
    table(page, &value(entry));
    page.push_str("</div>\n");
}

fn signatures(page: &mut String, verification: &Verification) {
    page.push_str("<h2>Signatures</h2>\n");
    let said = if verification.is_valid() {
        format!(
            "This page was created from a file with a verified signature of key {}.",
            verification.signed_by.join(" and ")
        )
    } else {
        "This page was created from a file whose signature was NOT verified.".to_owned()
    };
    let _ = writeln!(
        page,
        "<p>{} Only the signed file is a proof, not this page. Verify it with <code>tenure certificate verify</code>.</p>",
        escape(&said)
    );
    for line in fingerprints(verification) {
        let _ = writeln!(page, "<p>{}</p>", escape(&line));
    }
    page.push_str("<table class=\"sign\"><tr><th>Filed by (name, position)</th><td></td></tr><tr><th>Date, place</th><td></td></tr><tr><th>Signature</th><td></td></tr></table>\n");
}

/// Returns the key of each signature, and if the signature was verified with it.
fn fingerprints(verification: &Verification) -> Vec<String> {
    let line = |key: &String| {
        let verified = if verification.signed_by.contains(key) { "verified" } else { "NOT verified here" };
        format!(
            "Signed with the key of fingerprint {key}: {verified}. Compare the fingerprint with the issuer's."
        )
    };
    verification.named_keys.iter().map(line).collect()
}

/// Returns one sentence about the outcome for an asset. It claims only what was observed.
#[must_use]
pub fn summary(entry: &CertificateEntry) -> String {
    let Some(record) = &entry.record else { return "It has no record.".into() };
    let done =
        |verb: &str| format!("{verb} {} ({}) by {}", method(record), record.technique, actor(&record.actor));
    let what = match &record.result {
        SanitisationOutcome::SanitisedVerified => done("Treated:"),
        SanitisationOutcome::SanitisedUnverified => done("Treated, but not verified:"),
        SanitisationOutcome::Failed { reason } => format!("Failed: {reason}"),
        SanitisationOutcome::Skipped { reason } => format!("Skipped: {reason}"),
        SanitisationOutcome::NotApplicable { rule, reason, .. } => {
            format!("Not applicable by rule {rule}: {reason}")
        }
        SanitisationOutcome::PhysicallyDestroyed { witnesses } => {
            let names: Vec<_> = witnesses.iter().map(|witness| witness.name.as_str()).collect();
            format!("The medium was destroyed before {}", names.join(" and "))
        }
        SanitisationOutcome::Unknown => "The outcome is unknown".into(),
    };
    let mut said = vec![what];
    said.extend(record.stated.as_ref().map(|repair| format!("Stated, not observed: {}", repair.people())));
    said.extend(record.scrub.as_ref().map(|scrub| format!("GPU memory: {}", scrub.claim())));
    said.extend(record.verification.as_ref().map(|verified| {
        let (checked, wrong) = (verified.checked, verified.mismatches + verified.unreadable);
        let credentials = verified.verified_as.map(|by| format!(" {}", by.phrase())).unwrap_or_default();
        format!(
            "Verified by {} ({}){credentials}: {checked} checked, {wrong} wrong or unreadable",
            actor(&verified.actor),
            verified.method
        )
    }));
    said.extend(record.validation.as_ref().map(|validation| {
        let verb = match validation.decision {
            ValidationVerdict::Accept => "Accepted",
            ValidationVerdict::Reject => "REJECTED",
        };
        format!("{verb} by {}: {}", actor(&validation.actor), validation.reason)
    }));
    format!("{}.", said.join(". "))
}

fn method(record: &SanitisationRecord) -> String {
    record.method.map_or_else(|| "removed".into(), |method| method.to_string())
}

fn actor(actor: &Actor) -> String {
    format!("{}, {}", actor.name, actor.position)
}

/// Returns the certificate as text for a terminal. The caller must escape control characters.
#[must_use]
pub fn text(verification: &Verification) -> Option<String> {
    let certificate = verification.certificate.as_ref()?;
    let mut text = format!(
        "{}\nno. {}, issued {} by {}\n",
        certificate.title, certificate.id, certificate.issued_at, certificate.issuer
    );
    if let Some(withdrawn) = &verification.withdrawals.withdrawn {
        let _ = writeln!(text, "WITHDRAWN: {}", withdrawn.describe());
    }
    let _ = writeln!(
        text,
        "request: {} on {}: {}",
        certificate.request.by, certificate.request.at, certificate.request.reason
    );
    let _ = writeln!(text, "basis: {}, {}", certificate.legal_basis.basis, certificate.legal_basis.reference);
    for approval in &certificate.approvals {
        let names: Vec<_> = approval.votes.iter().map(voter).collect();
        let _ = writeln!(
            text,
            "approved in {} on {} by {}: {}",
            approval.gate,
            approval.granted_at,
            names.join(" and "),
            approval.plan_digest
        );
    }
    for repair in &certificate.repairs {
        let _ = writeln!(text, "repair: {}", repair.describe());
    }
    for line in fingerprints(verification) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "destruction began {}", certificate.pivot_at);
    let _ =
        writeln!(text, "inventory {}: {} assets", certificate.inventory.digest, certificate.inventory.assets);
    for (result, count) in &certificate.results {
        let _ = writeln!(text, "  {count} {result}");
    }
    for (place, entry) in verification.assets.iter().enumerate() {
        let _ = writeln!(text, "{}. {}: {}", place + 1, entry.asset.id, summary(entry));
        if let Some(exception) = &entry.exception {
            let _ = writeln!(text, "   EXCEPTION: {exception}");
        }
    }
    Some(text)
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in foreign_text::one_line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Describes a voter: roles, credential, delegator, emergency vote, and any missing independence.
fn voter(vote: &RecordedVote) -> String {
    let whose = vote.on_behalf_of.as_ref().map(|other| format!(" for {other}")).unwrap_or_default();
    let alone = if vote.break_glass { ", without other approvers, in an emergency" } else { "" };
    let by = vote.issued_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let claim = vote.claim.map(|claim| format!(", credential {}{by}", claim.name())).unwrap_or_default();
    let tie = vote.not_separate.as_ref();
    let tie = tie.map(|tie| format!(", separation not enforced: {}", tie.describe(&vote.name)));
    let removed = vote.removed_on.map(|day| format!(", removed on {day}")).unwrap_or_default();
    let tie = tie.unwrap_or_default();
    format!("{}{whose} ({}){claim}{alone}{tie}{removed}", vote.name, vote.roles.join(", "))
}
