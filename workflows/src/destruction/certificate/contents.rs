//! Derived content of a certificate. Issuing and verifying both compute it here.

use crate::{
    destruction::{
        asset::{Asset, AssetType},
        certificate::{CertificateEntry, CertificateKind, CertificateRef, FormerTenant},
        legal_hold::HoldScope,
        sanitisation::{
            attribution::RecordedRepair,
            parts::Technique,
            record::{SanitisationOutcome, SanitisationRecord, check},
            rejection::NotClean,
        },
    },
    platform::VerifiedAs,
    signing::{Digest, Moment},
};
use std::collections::BTreeMap;
use store::ExecutionId;

/// Returns true if a plan contains this inventory digest.
pub(crate) fn names(plan: &serde_json::Value, digest: &Digest) -> bool {
    match plan {
        serde_json::Value::String(text) => *text == digest.0,
        serde_json::Value::Array(items) => items.iter().any(|item| names(item, digest)),
        serde_json::Value::Object(fields) => fields.values().any(|field| names(field, digest)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => false,
    }
}

/// Judges the record of an asset for a certificate of `run`, which began to destroy at `pivot_at`.
pub(crate) fn judge(
    asset: &Asset,
    record: Option<&SanitisationRecord>,
    run: ExecutionId,
    pivot_at: Moment,
) -> Result<(), NotClean> {
    let record = check(asset, record)?;
    if record.run != run {
        return Err(NotClean::OtherRun { run: record.run });
    }
    if matches!(record.result, SanitisationOutcome::NotApplicable { .. }) {
        return record.passes();
    }
    record.passes_since(pivot_at)
}

/// Returns the title of a certificate.
pub(crate) fn title(
    of: &FormerTenant,
    scope: &HoldScope,
    kind: CertificateKind,
    exceptions: usize,
    supplements: Option<&CertificateRef>,
) -> String {
    if let Some(first) = supplements {
        let of = format!("of remaining data of tenant {}, supplements certificate {}", of.tenant, first.id);
        return match kind {
            CertificateKind::Complete => format!("Supplementary certificate of destruction {of}"),
            CertificateKind::WithExceptions => {
                format!("Supplementary certificate WITH {exceptions} EXCEPTIONS: incomplete destruction {of}")
            }
        };
    }
    let of = format!("of data of tenant {}: {scope}", of.tenant);
    match kind {
        CertificateKind::Complete => format!("Certificate of destruction {of}"),
        CertificateKind::WithExceptions => {
            format!("Certificate WITH {exceptions} EXCEPTIONS: incomplete destruction {of}")
        }
    }
}

/// Returns the number of assets by result.
pub(crate) fn results(entries: &[CertificateEntry]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        let name = entry.record.as_ref().map_or("no_record", |record| (&record.result).into());
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

/// Returns the caveats of a certificate: the limits of its claims.
pub(crate) fn caveats(entries: &[CertificateEntry]) -> Vec<String> {
    let mut said = vec![
        "It proves what was recorded, by whom and in which order; it does not prove that nothing else existed.".to_owned(),
        "Fields follow NIST SP 800-88 Rev.1 App. G, with verification and validation apart; conformance with the form of Rev.2 is not claimed.".to_owned(),
    ];
    let records = || entries.iter().filter_map(|entry| entry.record.as_ref());
    if records().any(|record| record.kind == AssetType::Gpu) {
        said.push(
            "GPU memory: what was observed is said per GPU (driver setting, bytes filled and read back). No maker gives a receipt that memory was cleared, and none is claimed.".into(),
        );
    }
    if records().any(|record| record.technique == Technique::LuksErase) {
        said.push(
            "LUKS volumes: the key slots in the volume's own header were erased. A copy of the header that was made before opens it as long as the medium keeps the ciphertext; none was looked for.".into(),
        );
    }
    said.extend(own_looks(entries));
    let until = |record: &SanitisationRecord| record.key.as_ref().and_then(|key| key.snapshots_until);
    if let Some(last) = records().filter_map(until).max() {
        said.push(format!(
            "Until {last} there are snapshots of the key store; restoring one would bring destroyed keys back."
        ));
    }
    said
}

/// Returns the caveat of a supplementary certificate.
pub(crate) fn supplement_caveat(first: &CertificateRef) -> String {
    format!(
        "It supplements certificate {} ({}), and lists only what was excepted there or was found after it was issued.",
        first.id, first.digest
    )
}

/// Returns a caveat about observations that the verifier did not make, by kind of asset. `None` if the verifier made all of them.
fn own_looks(entries: &[CertificateEntry]) -> Option<String> {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries {
        let verification = entry.record.as_ref().and_then(|record| record.verification.as_ref());
        match verification.and_then(|verification| verification.verified_as) {
            Some(VerifiedAs::Platform | VerifiedAs::Mixed) => {
                *kinds.entry(<&str>::from(entry.asset.kind).to_owned()).or_default() += 1;
            }
            Some(VerifiedAs::Verifier) | None => {}
        }
    }
    if kinds.is_empty() {
        return None;
    }
    let named: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    Some(format!(
        "Not looked at by a separate verifier: {}. Whether these are gone or clean was looked at with the platform's own credentials, which also did the work.",
        named.join(", ")
    ))
}

/// Returns the number of exceptions: assets without a valid record, and steps that were skipped by a repair.
pub(crate) fn exceptions(entries: &[CertificateEntry], repairs: &[RecordedRepair]) -> usize {
    let excepted = entries.iter().filter(|entry| entry.exception.is_some()).count();
    excepted.saturating_add(repairs.iter().filter(|repair| repair.is_exception()).count())
}
