//! The sources of the records: the cover counts the records that name observations, so that a record cannot lose its references.
//!
//! Invariant: a cover with these counts has no record of an earlier version. A record without references then needs no observation.

use super::{Certificate, CertificateEntry, problem::Problem};
use crate::destruction::sanitisation::{
    parts::{Device, Technique},
    record::{SanitisationOutcome, SanitisationRecord},
};
use serde::{Deserialize, Serialize};

/// The number of records by their sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSources {
    /// Records that name observations in the journal.
    pub observed: usize,
    /// Records that rest on the statement of a person.
    pub stated: usize,
    /// Records that only report a decision, such as a skipped node. None of them claims that something was done.
    pub neither: usize,
}

/// Returns true if a field of the record claims an observation. The sources of sentences need one for the same fields.
fn claims_observation(record: &SanitisationRecord) -> bool {
    let claims = match &record.result {
        SanitisationOutcome::SanitisedVerified | SanitisationOutcome::SanitisedUnverified => true,
        SanitisationOutcome::NotApplicable { rule, .. } => rule != "holds_no_data",
        SanitisationOutcome::Failed { .. }
        | SanitisationOutcome::Skipped { .. }
        | SanitisationOutcome::PhysicallyDestroyed { .. }
        | SanitisationOutcome::Unknown => false,
    };
    claims
        || record.technique != Technique::Nothing
        || record.device != Device::default()
        || record.scrub.is_some()
        || record.firmware.is_some()
        || record.key.is_some()
        || record.verification.is_some()
        || record.validation.is_some()
        || !record.evidence.is_empty()
}

/// Returns the counts of a new certificate. `None` if a record claims an observation and names none, as records of earlier versions do.
pub(super) fn of(entries: &[CertificateEntry]) -> Option<RecordSources> {
    let records = || entries.iter().filter_map(|entry| entry.record.as_ref());
    let is_old = |record: &SanitisationRecord| is_bare(record) && claims_observation(record);
    (!records().any(is_old)).then(|| count(entries))
}

fn is_bare(record: &SanitisationRecord) -> bool {
    record.stated.is_none() && record.observed.is_empty()
}

fn count(entries: &[CertificateEntry]) -> RecordSources {
    let mut counts = RecordSources::default();
    for record in entries.iter().filter_map(|entry| entry.record.as_ref()) {
        let count = match (&record.stated, record.observed.is_empty()) {
            (Some(_), _) => &mut counts.stated,
            (None, false) => &mut counts.observed,
            (None, true) => &mut counts.neither,
        };
        *count = count.saturating_add(1);
    }
    counts
}

/// Compares the counts of the cover with the records.
pub(super) fn check(certificate: &Certificate, entries: &[CertificateEntry], problems: &mut Vec<Problem>) {
    let Some(stated) = certificate.sources else { return };
    let found = count(entries);
    if stated != found {
        let differ = format!(
            "count {} records with observations, {} with statements and {} with neither, and the records have {}, {} and {}",
            stated.observed, stated.stated, stated.neither, found.observed, found.stated, found.neither
        );
        problems.push(Problem::new("sources", differ));
    }
    for (place, entry) in entries.iter().enumerate() {
        let Some(record) = entry.record.as_ref().filter(|record| is_bare(record)) else { continue };
        if claims_observation(record) {
            let lacks = "are missing: the cover says that each record names the observations that it claims";
            problems.push(Problem::new(format!("assets[{place}].record.observed"), lacks));
        }
    }
}

/// Returns the number of records that claim an observation and name none. Only covers without counts have such records.
pub(super) fn not_recorded(entries: &[CertificateEntry]) -> usize {
    let records = entries.iter().filter_map(|entry| entry.record.as_ref());
    records.filter(|record| is_bare(record) && claims_observation(record)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destruction::{
        Aspect, ObservationRef,
        certificate::{
            Verification,
            forgeries::{at, issued, key, sealed},
            verify_at,
        },
    };
    use serde_json::json;

    /// Returns a certificate whose records name their observations. If `stated` is true, one record rests on a statement.
    fn with_sources(stated: bool) -> (Certificate, Vec<CertificateEntry>) {
        let (mut certificate, mut entries) = issued(stated);
        let answer = |action: &str| -> ObservationRef {
            serde_json::from_value(json!({ "action": action, "about": "a resource" })).unwrap()
        };
        for record in entries.iter_mut().filter_map(|entry| entry.record.as_mut()) {
            if record.stated.is_none() {
                record.observed.insert(Aspect::Device, answer("ReadDevices"));
                record.observed.insert(Aspect::Done, answer("RemoveThing"));
                record.observed.insert(Aspect::Looked, answer("VerifyAbsent"));
            }
        }
        certificate.sources = of(&entries);
        (certificate, entries)
    }

    async fn verified(certificate: Certificate, entries: Vec<CertificateEntry>) -> Verification {
        verify_at(sealed(certificate, entries).await.as_bytes(), &[key().public_key()], at(3_600))
    }

    fn names(found: &Verification, field: &str) -> bool {
        found.problems.iter().any(|problem| problem.field == field)
    }

    #[tokio::test]
    async fn a_record_that_lost_all_its_observations_is_refused_if_the_cover_counts_them() {
        for stated in [false, true] {
            let (certificate, entries) = with_sources(stated);
            let counts = certificate.sources.unwrap();
            assert_eq!((counts.stated, counts.neither), (usize::from(stated), 0));
            assert_eq!(verified(certificate, entries.clone()).await.problems, [], "the genuine one");

            for place in 0..entries.len() {
                let (mut certificate, mut entries) = with_sources(stated);
                let record = entries[place].record.as_mut().unwrap();
                if record.stated.is_some() {
                    continue;
                }
                record.observed.clear();
                let found = verified(certificate.clone(), entries.clone()).await;
                assert!(names(&found, "sources"), "{place}: {:?}", found.problems);

                // The counts are changed with the record.
                let counts = count(&entries);
                certificate.sources = Some(counts);
                let found = verified(certificate, entries).await;
                assert!(names(&found, &format!("assets[{place}].record.observed")), "{:?}", found.problems);
            }
        }
    }

    #[tokio::test]
    async fn counts_that_do_not_fit_the_records_are_refused() {
        let (certificate, entries) = with_sources(true);
        let genuine = certificate.sources.unwrap();
        for wrong in [
            RecordSources { observed: genuine.observed + 1, ..genuine },
            RecordSources { stated: 0, neither: 1, ..genuine },
            RecordSources::default(),
        ] {
            let certificate = Certificate { sources: Some(wrong), ..certificate.clone() };
            let found = verified(certificate, entries.clone()).await;
            assert!(names(&found, "sources"), "{wrong:?}: {:?}", found.problems);
        }
    }

    #[tokio::test]
    async fn a_certificate_of_an_earlier_version_is_valid_and_says_that_its_records_name_no_observations() {
        let (certificate, entries) = issued(false);
        assert_eq!(certificate.sources, None, "its records claim observations and name none");
        let bare = entries.len();
        let found = verified(certificate, entries).await;
        assert_eq!(found.problems, []);
        let limits = found.limitations().join("\n");
        assert!(limits.contains(&format!("On which observations {bare} of its records rest")), "{limits}");

        // An offboarding that an earlier version began has records of both versions.
        let (_, mut entries) = with_sources(false);
        entries[0].record.as_mut().unwrap().observed.clear();
        assert_eq!(of(&entries), None);

        let (certificate, entries) = with_sources(false);
        let limits = verified(certificate, entries).await.limitations().join("\n");
        assert!(!limits.contains("On which observations"), "{limits}");
    }
}
