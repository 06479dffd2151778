//! Reads withdrawals of a certificate with only the trusted public keys.
//!
//! Accepts any bytes and never panics. Invariant: a statement that does not verify is a problem. It withdraws nothing, but the certificate is not
//! confirmed either, because it may be a damaged genuine statement.

use super::{PAYLOAD_TYPE, SHEET, StatementEnvelope, WITHDRAWAL_FORMAT, WithdrawalStatement};
use crate::{
    destruction::certificate::{
        Verification, checked_json,
        problem::Problem,
        verify::{decoded, typed},
    },
    signing::{KeySuccession, KeySuccessions, PublicKey, dsse::pae},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;

/// The result of applying statements to a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReadWithdrawals {
    /// The number of statements.
    pub read: usize,
    /// The number of valid statements about other certificates.
    pub of_others: usize,
    /// The withdrawal of this certificate.
    pub withdrawn: Option<WithdrawalStatement>,
    /// The withdrawal of the certificate that this one supplements.
    pub first: Option<WithdrawalStatement>,
}

/// Applies a file with one statement on each line to a verified certificate. A matching withdrawal becomes a problem with its author and reason.
///
/// Lines that link a trusted key to its successor let the successor sign withdrawals in the same file.
pub fn apply_withdrawals(found: &mut Verification, file: &[u8], keys: &[PublicKey]) {
    let lines = || file.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let mut successions = KeySuccessions::default();
    for line in lines() {
        match KeySuccession::read(line.trim_ascii()) {
            Some(Ok(succession)) => successions.add(succession, line.trim_ascii()),
            Some(Err(why)) => found.problems.push(Problem::new("withdrawals.key_succession", why)),
            None => {}
        }
    }
    let keys = successions.successors(keys);
    for line in lines().filter(|line| KeySuccession::read(line.trim_ascii()).is_none()) {
        let place = format!("withdrawals[{}]", found.withdrawals.read);
        found.withdrawals.read = found.withdrawals.read.saturating_add(1);
        match statement(line, &keys) {
            Ok((statement, signers)) => apply(found, &place, statement, &signers, &successions),
            Err(problems) => {
                let named = |it: Problem| Problem::new(format!("{place}.{}", it.field), it.problem);
                found.problems.extend(problems.into_iter().map(named));
            }
        }
    }
    found.problems.sort();
    found.problems.dedup();
}

/// Compares a valid statement with the certificate.
fn apply(
    found: &mut Verification,
    place: &str,
    said: WithdrawalStatement,
    signers: &[String],
    successions: &KeySuccessions,
) {
    let mut wrong =
        |field: &str, problem: String| found.problems.push(Problem::new(format!("{place}.{field}"), problem));
    let certificate = found.certificate.as_ref();
    let same_digest = said.certificate.digest == found.digest;
    let same_number = certificate.is_some_and(|it| it.id == said.certificate.id);
    if !same_digest && !same_number {
        found.withdrawals.of_others = found.withdrawals.of_others.saturating_add(1);
        if certificate.is_some_and(|it| it.supplements.as_ref() == Some(&said.certificate)) {
            found.withdrawals.first = Some(said);
        }
        return;
    }
    let Some(certificate) = certificate else {
        return found.problems.push(Problem::new("withdrawn", said.describe()));
    };
    if !same_digest {
        let other = format!("names certificate {} with other content", said.certificate.id);
        return wrong("certificate.digest", other);
    }
    if !same_number {
        let other = format!("names certificate {}, but this is {}", said.certificate.id, certificate.id);
        return wrong("certificate.id", other);
    }
    if said.tenant != certificate.tombstone.tenant {
        return wrong("tenant", format!("is not {}", certificate.tombstone.tenant));
    }
    if said.issued_at != certificate.issued_at {
        return wrong(
            "issued_at",
            format!("is not {}, the date of issue of the certificate", certificate.issued_at),
        );
    }
    // The certificate's own key, or a key that succeeds it.
    let is_entitled =
        |signer: &String| found.signed_by.iter().any(|key| successions.chain(key, signer).is_some());
    if !found.signed_by.is_empty() && !signers.iter().any(is_entitled) {
        let other = format!(
            "is of key {}, but the certificate is signed with key {}",
            signers.join(", "),
            found.signed_by.join(", ")
        );
        return wrong("signatures", other);
    }
    found.problems.push(Problem::new("withdrawn", said.describe()));
    found.withdrawals.withdrawn = Some(said);
}

/// Returns the statement of one line with the ids of its signers, or its problems.
fn statement(line: &[u8], keys: &[PublicKey]) -> Result<(WithdrawalStatement, Vec<String>), Vec<Problem>> {
    let mut problems = Vec::new();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let envelope = serde_json::from_slice::<StatementEnvelope>(line)
        .map_err(|error| vec![Problem::new("envelope", format!("cannot be read: {error}"))])?;
    if envelope.payload_type != PAYLOAD_TYPE {
        problems.push(Problem::new("payloadType", format!("is not {PAYLOAD_TYPE:?}")));
    }
    if envelope.written().as_bytes() != line {
        problems.push(Problem::new("envelope", "differs from the signed form in spaces, order or escapes"));
    }
    let payload = decoded("payload", &envelope.payload, &mut problems);
    let signers = signers(&envelope, &payload, keys, &mut problems);
    let sheet = checked_json::read(SHEET, &payload);
    problems.extend(sheet.problems.into_iter().map(|(field, problem)| Problem { field, problem }));
    let said: Option<WithdrawalStatement> = typed(sheet.content.as_ref(), "statement", &mut problems);
    if let Some(said) = &said {
        rules(said, &mut problems);
    }
    match said {
        Some(said) if problems.is_empty() => Ok((said, signers)),
        Some(_) | None => Err(problems),
    }
}

/// Checks the rules between the fields of a statement. They apply to every signer.
fn rules(said: &WithdrawalStatement, problems: &mut Vec<Problem>) {
    if said.format != WITHDRAWAL_FORMAT {
        let other = format!("is {:?}: this program supports only {WITHDRAWAL_FORMAT:?}", said.format);
        problems.push(Problem::new("format", other));
    }
    for (field, text) in [("withdrawn_by", &said.withdrawn_by), ("reason", &said.reason)] {
        if text.trim().is_empty() {
            problems.push(Problem::new(field, "is missing"));
        }
    }
    if said.withdrawn_at < said.issued_at {
        let early = format!("{} is before the certificate was issued", said.withdrawn_at);
        problems.push(Problem::new("withdrawn_at", early));
    }
}

/// Returns the ids of the trusted keys that signed the payload. An invalid or untrusted signature is a problem.
fn signers(
    envelope: &StatementEnvelope,
    payload: &[u8],
    keys: &[PublicKey],
    problems: &mut Vec<Problem>,
) -> Vec<String> {
    if envelope.signatures.is_empty() {
        problems.push(Problem::new("signatures", "there is none"));
    }
    let message = pae(&envelope.payload_type, payload);
    let mut signers = Vec::new();
    for (place, signature) in envelope.signatures.iter().enumerate() {
        let Some(key) = keys.iter().find(|key| key.id() == signature.keyid) else {
            let other = "names a key that is not trusted: the statement has no effect";
            problems.push(Problem::new(format!("signatures[{place}].keyid"), other));
            continue;
        };
        let fits = STANDARD.decode(&signature.sig).is_ok_and(|sig| key.verifies(&message, &sig));
        if fits {
            signers.push(signature.keyid.clone());
        } else {
            let other = "does not match: it or the statement differs from the signed content";
            problems.push(Problem::new(format!("signatures[{place}].sig"), other));
        }
    }
    signers
}
