//! Verifies a certificate with only the public key: its bytes are as signed, and its content is consistent.
//!
//! Accepts any bytes and never panics. It continues after the first problem, so that all changes are located.

use super::{
    Certificate, CertificateEntry, FORMAT, ReadWithdrawals, checked_json, envelope::Envelope,
    problem::Problem, rules, sentences::source_counts,
};
use crate::{
    destruction::sanitisation::record::SanitisationOutcome,
    platform::VerifiedAs,
    signing::{Digest, Moment, PublicKey, canonical::value, dsse::pae},
};
use base64::{
    Engine as _,
    engine::general_purpose::{GeneralPurpose, STANDARD},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use store::Timestamp;

/// Result of a verification.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// All problems. A certificate without problems is valid.
    pub problems: Vec<Problem>,
    /// The ids of the keys with a valid signature.
    pub signed_by: Vec<String>,
    /// The fingerprints of all keys that its signatures name, valid or not.
    pub named_keys: Vec<String>,
    /// The cover, if it can be parsed.
    pub certificate: Option<Certificate>,
    /// The assets that can be parsed.
    pub assets: Vec<CertificateEntry>,
    /// The SHA-256 of the cover in the file, as withdrawals reference it.
    pub digest: Digest,
    /// The withdrawals that were applied.
    pub withdrawals: ReadWithdrawals,
}

/// How far the issuer's clock may be ahead of the verifier's clock.
pub const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// As [`verify`], and rejects a certificate that was issued after `now` by more than [`CLOCK_SKEW`].
#[must_use]
pub fn verify_at(file: &[u8], keys: &[PublicKey], now: Moment) -> Verification {
    let mut found = verify(file, keys);
    let latest = Moment::from(Timestamp::from(now).after(CLOCK_SKEW));
    if let Some(certificate) = found.certificate.as_ref().filter(|certificate| certificate.issued_at > latest)
    {
        let at = certificate.issued_at;
        let minutes = CLOCK_SKEW.as_secs() / 60;
        let late = format!(
            "{at} is in the future: it is {now} here, and a difference of {minutes} minutes is allowed"
        );
        found.problems.push(Problem::new("issued_at", late));
    }
    found
}

/// Verifies a certificate's file with the trusted keys, without a clock. Every changed byte is a problem that names its field.
#[must_use]
pub fn verify(file: &[u8], keys: &[PublicKey]) -> Verification {
    let mut problems = Vec::new();
    let parts = Parts::parse(file, &mut problems);
    let cover = checked_json::read("certificate", &parts.cover);
    problems.extend(cover.problems.into_iter().map(|(field, problem)| Problem { field, problem }));
    let cover_changed = !problems.is_empty();
    let signed_by = signatures(&parts, keys, cover_changed, &mut problems);
    let named = parts.envelope.iter().flat_map(|envelope| &envelope.signatures);
    let named_keys = named.map(|signature| signature.keyid.clone()).collect();
    let certificate: Option<Certificate> = typed(cover.content.as_ref(), "the cover", &mut problems);
    let mut assets = Vec::new();
    let mut all_read = true;
    for (place, page) in parts.pages.iter().enumerate() {
        let read = page_of(place, page, assets.len(), certificate.as_ref(), &mut problems);
        all_read &= read.is_some();
        assets.extend(read.unwrap_or_default());
    }
    if let Some(certificate) = &certificate {
        if certificate.format != FORMAT {
            let other = format!("is {:?}: this program supports only {FORMAT:?}", certificate.format);
            problems.push(Problem::new("format", other));
        }
        let pages = certificate.inventory.pages.len();
        if pages != parts.pages.len() {
            let count = format!("the cover names {pages}, but there are {}", parts.pages.len());
            problems.push(Problem::new("pages", count));
        } else if all_read {
            problems.extend(rules::broken(certificate, &assets));
        }
    }
    problems.sort();
    problems.dedup();
    let digest = Digest::from_bytes(&parts.cover);
    let withdrawals = ReadWithdrawals::default();
    Verification { problems, signed_by, named_keys, certificate, assets, digest, withdrawals }
}

/// The decoded parts of an envelope.
struct Parts {
    cover: Vec<u8>,
    pages: Vec<Vec<u8>>,
    envelope: Option<Envelope>,
}

impl Parts {
    fn parse(file: &[u8], problems: &mut Vec<Problem>) -> Self {
        match serde_json::from_slice::<Envelope>(file) {
            Ok(envelope) => {
                if envelope.payload_type != checked_json::PAYLOAD_TYPE {
                    let other = format!("is not {:?}", checked_json::PAYLOAD_TYPE);
                    problems.push(Problem::new("payloadType", other));
                }
                if envelope.written().as_bytes() != file {
                    problems.push(Problem::new(
                        "envelope",
                        "differs from the signed form in spaces, order or escapes",
                    ));
                }
                let cover = decoded("payload", &envelope.payload, problems);
                let page =
                    |(place, page): (usize, &String)| decoded(&format!("pages[{place}]"), page, problems);
                let pages = envelope.pages.iter().enumerate().map(page).collect();
                Self { cover, pages, envelope: Some(envelope) }
            }
            Err(error) => {
                problems.push(Problem::new("envelope", format!("cannot be read: {error}")));
                // The damaged file is searched for its parts, to locate the damage.
                let text = String::from_utf8_lossy(file);
                let cover = between(&text, "{\"payload\":\"", "\",\"payloadType\":").unwrap_or_default();
                let pages = between(&text, "\"pages\":[\"", "\"]}").unwrap_or_default();
                let pages = pages.split("\",\"").filter(|page| !page.is_empty()).map(lenient).collect();
                Self { cover: lenient(cover), pages, envelope: None }
            }
        }
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

pub(super) fn decoded(field: &str, text: &str, problems: &mut Vec<Problem>) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_else(|error| {
        problems.push(Problem::new(field, format!("is not base64: {error}")));
        lenient(text)
    })
}

/// Decodes base64 and replaces invalid letters with `A`, so that the text around the damage can be read.
fn lenient(text: &str) -> Vec<u8> {
    use base64::{alphabet, engine::DecodePaddingMode, engine::general_purpose::GeneralPurposeConfig};
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&alphabet::STANDARD, config);
    let letters = text.trim_end_matches('=').chars();
    let letters = letters.map(|c| if c.is_ascii_alphanumeric() || c == '+' || c == '/' { c } else { 'A' });
    let mut letters: String = letters.collect();
    if letters.len() % 4 == 1 {
        letters.pop();
    }
    engine.decode(letters).unwrap_or_default()
}

fn signatures(
    parts: &Parts,
    keys: &[PublicKey],
    cover_changed: bool,
    problems: &mut Vec<Problem>,
) -> Vec<String> {
    let Some(envelope) = &parts.envelope else { return Vec::new() };
    if envelope.signatures.is_empty() {
        problems.push(Problem::new("signatures", "there is none"));
    }
    let message = pae(&envelope.payload_type, &parts.cover);
    let mut fitting = Vec::new();
    for (place, signature) in envelope.signatures.iter().enumerate() {
        let Some(key) = keys.iter().find(|key| key.id() == signature.keyid) else {
            let known: Vec<_> = keys.iter().map(PublicKey::id).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            let problem = format!("names a key that is not trusted; trusted: {known}");
            problems.push(Problem::new(format!("signatures[{place}].keyid"), problem));
            continue;
        };
        let field = format!("signatures[{place}].sig");
        match STANDARD.decode(&signature.sig) {
            Err(error) => problems.push(Problem::new(field, format!("is not base64: {error}"))),
            Ok(bytes) if key.verifies(&message, &bytes) => fitting.push(signature.keyid.clone()),
            Ok(_) if cover_changed => {
                problems.push(Problem::new(field, "does not match the cover, which was changed"));
            }
            Ok(_) => {
                problems.push(Problem::new(
                    field,
                    "does not match: it or the cover differs from the signed content",
                ));
            }
        }
    }
    fitting
}

/// Returns the content in its type, if this program knows all its fields.
pub(super) fn typed<T: Serialize + DeserializeOwned>(
    content: Option<&Value>,
    field: &str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let Some(content) = content else {
        problems.push(Problem::new(field, "cannot be read"));
        return None;
    };
    match T::deserialize(content) {
        Err(error) => {
            problems.push(Problem::new(field, format!("has missing or invalid fields: {error}")));
            None
        }
        Ok(read) if value(&read) == *content => Some(read),
        Ok(_) => {
            problems.push(Problem::new(field, "has fields that this program does not know"));
            None
        }
    }
}

fn page_of(
    place: usize,
    page: &[u8],
    before: usize,
    certificate: Option<&Certificate>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<CertificateEntry>> {
    let sheet = checked_json::read("assets", page);
    let field = format!("pages[{place}]");
    let unchanged = sheet.problems.is_empty();
    let moved = |field: &str| moved(field, before).unwrap_or_else(|| format!("pages[{place}].{field}"));
    problems.extend(sheet.problems.iter().map(|(at, problem)| Problem::new(moved(at), problem)));
    let named = certificate.and_then(|certificate| certificate.inventory.pages.get(place));
    if unchanged && named.is_some_and(|named| named.digest != Digest::from_bytes(page)) {
        problems.push(Problem::new(&field, "differs from the page that the cover names"));
    }
    let entries: Vec<CertificateEntry> = typed(sheet.content.as_ref(), &field, problems)?;
    if named.is_some_and(|named| named.assets != entries.len()) {
        problems.push(Problem::new(
            &field,
            format!("lists {} assets, but the cover has another number", entries.len()),
        ));
    }
    Some(entries)
}

/// Converts `assets[3].serial` of a page to the index in the whole list.
fn moved(field: &str, before: usize) -> Option<String> {
    let (place, rest) = field.strip_prefix("assets[")?.split_once(']')?;
    Some(format!("assets[{}]{rest}", place.parse::<usize>().ok()?.saturating_add(before)))
}

/// Returns sentences about votes that are not independent of the requester or of other voters.
fn not_separate(approval: &super::RecordedApproval) -> impl Iterator<Item = String> {
    approval.votes.iter().filter_map(|vote| {
        let why = vote.not_separate.as_ref()?.describe(&vote.name);
        Some(format!("Separation not enforced in {}: {why}.", approval.gate))
    })
}

/// Returns sentences about voters whose users were removed before the certificate was issued.
fn removed_since(approval: &super::RecordedApproval) -> impl Iterator<Item = String> {
    approval.votes.iter().filter_map(|vote| {
        let day = vote.removed_on?;
        Some(format!("{} voted in {} at {}, and was removed on {day}.", vote.name, approval.gate, vote.at))
    })
}

/// Returns sentences about voters whose enrolment code was created by the requester or another voter, who could have used it themselves.
fn codes_of_parties(approval: &super::RecordedApproval) -> impl Iterator<Item = String> {
    let is_party = |name: &String| {
        *name == approval.requested_by || approval.votes.iter().any(|vote| vote.name == *name)
    };
    approval.votes.iter().filter(|vote| vote.claim == Some(engine::Claim::Enrolled)).filter_map(move |vote| {
        let by = vote.issued_by.as_ref().filter(|by| is_party(by))?;
        let (name, gate) = (&vote.name, &approval.gate);
        Some(format!("{name} voted in {gate} with a credential from a code that {by} created, who also requested or voted."))
    })
}

impl Verification {
    /// Returns true if there are no problems.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns sentences about the proven facts. Empty if there are problems.
    #[must_use]
    pub fn proves(&self) -> Vec<String> {
        let Some(certificate) = self.certificate.as_ref().filter(|_| self.is_valid()) else {
            return Vec::new();
        };
        let tenant = &certificate.tombstone.tenant;
        let people = |approval: &super::RecordedApproval| {
            approval.votes.iter().map(|vote| vote.name.as_str()).collect::<Vec<_>>().join(" and ")
        };
        let mut proves = vec![
            format!("Every byte is unchanged since it was signed with key {}.", self.signed_by.join(" and ")),
            format!(
                "It lists {} assets of tenant {tenant}, each once. The digest of the list is {}.",
                self.assets.len(),
                certificate.inventory.digest
            ),
        ];
        proves.extend(certificate.approvals.iter().map(|approval| {
            let asked = &approval.requested_by;
            format!(
                "{} approved in {} (granted at {}) the plan with digest {}; the requester {asked} did not vote.",
                people(approval),
                approval.gate,
                approval.granted_at,
                approval.plan_digest
            )
        }));
        proves.extend(certificate.approvals.iter().flat_map(not_separate));
        proves.extend(certificate.approvals.iter().flat_map(codes_of_parties));
        proves.extend(certificate.approvals.iter().flat_map(removed_since));
        proves.extend(certificate.repairs.iter().map(|repair| format!("{}.", repair.describe())));
        let lacking = self.assets.iter().filter(|entry| entry.exception.is_some()).count();
        let sound = self.assets.len().saturating_sub(lacking);
        proves.push(format!(
            "{sound} of {} assets have a valid record{}.",
            self.assets.len(),
            self.counted()
        ));
        if lacking > 0 {
            proves.push(format!("{lacking} assets have NO valid record; each has its reason."));
        }
        proves
    }

    /// Returns a sentence about each group of valid records, by their own results.
    fn counted(&self) -> String {
        let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
        let sound = self.assets.iter().filter(|entry| entry.exception.is_none());
        for record in sound.filter_map(|entry| entry.record.as_ref()) {
            let verified = record.verification.as_ref().and_then(|verification| verification.verified_as);
            let group = match (&record.result, verified) {
                (SanitisationOutcome::PhysicallyDestroyed { .. }, _) => "destroyed before two witnesses",
                (SanitisationOutcome::NotApplicable { .. }, _) => "exempt by a named rule",
                (_, Some(VerifiedAs::Verifier)) => "sanitised, and checked with other credentials",
                (_, Some(VerifiedAs::Platform)) => {
                    "sanitised, and checked with the platform's own credentials"
                }
                (_, Some(VerifiedAs::Mixed)) => {
                    "sanitised, and checked partly with other credentials, partly with the platform's own"
                }
                (_, None) => "sanitised and verified; the credentials are not recorded",
            };
            *groups.entry(group).or_default() += 1;
        }
        let named: Vec<_> = groups.iter().map(|(group, count)| format!("{count} {group}")).collect();
        if named.is_empty() { String::new() } else { format!(": {}", named.join("; ")) }
    }

    /// Returns sentences about facts that the certificate does not prove.
    #[must_use]
    pub fn limitations(&self) -> Vec<String> {
        let Some(certificate) = &self.certificate else { return Vec::new() };
        let mut not = certificate.caveats.clone();
        let bare = source_counts::not_recorded(&self.assets);
        if bare > 0 {
            not.push(format!(
                "On which observations {bare} of its records rest: they name none, as records of earlier versions do, and the cover does not count them."
            ));
        }
        not.push(
            "The owner of the key: get the key's id from the issuer in another way than this file, and compare.".into(),
        );
        not.extend(certificate.not_checked.iter().map(|place| {
            format!("Anything about {}, which was not checked: {}.", place.location, place.why)
        }));
        not.extend(certificate.retained.iter().map(|kept| {
            let until = kept.destroy_by.map_or_else(|| "permanently".into(), |day| format!("until {day}"));
            format!("That {} is gone: it is kept {until} by rule {} ({}).", kept.what, kept.rule, kept.reason)
        }));
        not
    }
}
