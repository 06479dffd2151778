//! Derived content of a certificate. Issuing and verifying both compute it here.
//!
//! Invariant: a [`ListSummary`] is equal for equal entries, in however many parts they are added.

use crate::{
    destruction::{
        asset::{Asset, AssetId, AssetType},
        certificate::{
            CertificateEntry, CertificateKind, CertificateRef, FormerTenant,
            sentences::source_counts::SourceCounts,
        },
        inventory::open_question,
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
use serde::{Deserialize, Serialize};
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

/// Judges an asset and its record for a certificate of `run`, which began to destroy at `pivot_at`.
pub(crate) fn judge(
    asset: &Asset,
    record: Option<&SanitisationRecord>,
    run: ExecutionId,
    pivot_at: Moment,
) -> Result<(), NotClean> {
    if let Some(open) = open_question(asset) {
        return Err(NotClean::Open(open));
    }
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

/// The most reasons for exceptions that a summary keeps.
const REASONS: usize = 20;

/// The facts about the entries of a certificate that its cover states. Entries are added in parts, in any number of commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListSummary {
    /// The number of entries.
    pub(crate) assets: usize,
    /// The number of entries by result.
    pub(crate) results: BTreeMap<String, usize>,
    /// The number of entries without a valid record.
    pub(crate) excepted: usize,
    /// The first of these, with the reasons.
    pub(crate) first_exceptions: BTreeMap<AssetId, String>,
    /// The latest moment in a record.
    pub(crate) last_moment: Option<Moment>,
    /// The different repairs that records depend on.
    pub(crate) statements: Vec<RecordedRepair>,
    /// The number of records by their sources.
    #[serde(default)]
    pub(crate) sources: SourceCounts,
    has_gpus: bool,
    has_luks: bool,
    /// The number of entries that were not verified by the verifier alone, by kind of asset.
    own_looks: BTreeMap<String, usize>,
    snapshots_until: Option<Moment>,
}

impl ListSummary {
    /// Returns the summary of a whole list.
    pub(crate) fn of(entries: &[CertificateEntry]) -> Self {
        let mut summary = Self::default();
        entries.iter().for_each(|entry| summary.add(entry));
        summary
    }

    /// Adds the next entry.
    pub(crate) fn add(&mut self, entry: &CertificateEntry) {
        self.assets = self.assets.saturating_add(1);
        let result = entry.record.as_ref().map_or("no_record", |record| (&record.result).into());
        add_one(&mut self.results, result);
        if let Some(why) = &entry.exception {
            self.excepted = self.excepted.saturating_add(1);
            if self.first_exceptions.len() < REASONS {
                self.first_exceptions.insert(entry.asset.id.clone(), why.clone());
            }
        }
        let Some(record) = &entry.record else { return };
        self.sources.add(record);
        self.last_moment = self.last_moment.max(record.last_moment());
        if let Some(repair) = record.stated.as_ref().filter(|repair| !self.statements.contains(repair)) {
            self.statements.push(repair.clone());
        }
        self.has_gpus |= record.kind == AssetType::Gpu;
        self.has_luks |= record.technique == Technique::LuksErase;
        match record.verification.as_ref().and_then(|verification| verification.verified_as) {
            Some(VerifiedAs::Platform | VerifiedAs::Mixed) => {
                add_one(&mut self.own_looks, entry.asset.kind.into());
            }
            Some(VerifiedAs::Verifier) | None => {}
        }
        let until = record.key.as_ref().and_then(|key| key.snapshots_until);
        self.snapshots_until = self.snapshots_until.max(until);
    }

    /// Returns the number of exceptions: assets without a valid record, and steps that were skipped by a repair.
    pub(crate) fn exceptions(&self, repairs: &[RecordedRepair]) -> usize {
        self.excepted.saturating_add(repairs.iter().filter(|repair| repair.is_exception()).count())
    }

    /// Returns the caveats of a certificate: the limits of its claims.
    pub(crate) fn caveats(&self) -> Vec<String> {
        let mut said = vec![
            "It proves what was recorded, by whom and in which order; it does not prove that nothing else existed.".to_owned(),
            "Fields follow NIST SP 800-88 Rev.1 App. G, with verification and validation apart; conformance with the form of Rev.2 is not claimed.".to_owned(),
        ];
        if self.has_gpus {
            said.push(
                "GPU memory: what was observed is said per GPU (driver setting, bytes filled and read back). No maker gives a receipt that memory was cleared, and none is claimed.".into(),
            );
        }
        if self.has_luks {
            said.push(
                "LUKS volumes: the key slots in the volume's own header were erased. A copy of the header that was made before opens it as long as the medium keeps the ciphertext; none was looked for.".into(),
            );
        }
        said.extend(self.own_looks());
        if let Some(last) = self.snapshots_until {
            said.push(format!(
                "Until {last} there are snapshots of the key store; restoring one would bring destroyed keys back."
            ));
        }
        said
    }

    /// Returns a caveat about observations that the verifier did not make, by kind of asset. `None` if the verifier made all of them.
    fn own_looks(&self) -> Option<String> {
        if self.own_looks.is_empty() {
            return None;
        }
        let named: Vec<_> = self.own_looks.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        Some(format!(
            "Not looked at by a separate verifier: {}. Whether these are gone or clean was looked at with the platform's own credentials, which also did the work.",
            named.join(", ")
        ))
    }
}

fn add_one(counts: &mut BTreeMap<String, usize>, name: &str) {
    let count = counts.entry(name.to_owned()).or_default();
    *count = count.saturating_add(1);
}

/// Returns the caveat of a supplementary certificate.
pub(crate) fn supplement_caveat(first: &CertificateRef) -> String {
    format!(
        "It supplements certificate {} ({}), and lists only what was excepted there or was found after it was issued.",
        first.id, first.digest
    )
}
