//! The sources of the records: the cover counts the records that name observations, so that a record cannot lose its references.
//!
//! Invariant: a cover with these counts has no record of an earlier version. A record without references then needs no observation.

use crate::destruction::{
    certificate::{Certificate, CertificateEntry, Problem},
    sanitisation::{
        parts::{Device, Technique},
        record::{SanitisationOutcome, SanitisationRecord},
    },
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

fn is_bare(record: &SanitisationRecord) -> bool {
    record.stated.is_none() && record.observed.is_empty()
}

/// The counts of a list. Records are added in any number of parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceCounts {
    counts: RecordSources,
    /// Records that claim an observation and name none, as records of earlier versions do.
    not_recorded: usize,
}

impl SourceCounts {
    /// Returns the counts of a whole list.
    pub(crate) fn of(entries: &[CertificateEntry]) -> Self {
        let mut counts = Self::default();
        entries.iter().filter_map(|entry| entry.record.as_ref()).for_each(|record| counts.add(record));
        counts
    }

    /// Adds a record.
    pub(crate) fn add(&mut self, record: &SanitisationRecord) {
        let count = match (&record.stated, record.observed.is_empty()) {
            (Some(_), _) => &mut self.counts.stated,
            (None, false) => &mut self.counts.observed,
            (None, true) => &mut self.counts.neither,
        };
        *count = count.saturating_add(1);
        let is_old = is_bare(record) && claims_observation(record);
        self.not_recorded = self.not_recorded.saturating_add(usize::from(is_old));
    }

    /// Returns the counts for a new cover. `None` with a record of an earlier version.
    pub(crate) fn for_cover(&self) -> Option<RecordSources> {
        (self.not_recorded == 0).then_some(self.counts)
    }
}

/// Compares the counts of the cover with the records.
pub(in crate::destruction::certificate) fn of_cover(
    certificate: &Certificate,
    found: &SourceCounts,
    problems: &mut Vec<Problem>,
) {
    let Some(stated) = certificate.sources else { return };
    let found = found.counts;
    if stated != found {
        let differ = format!(
            "count {} records with observations, {} with statements and {} with neither, and the records have {}, {} and {}",
            stated.observed, stated.stated, stated.neither, found.observed, found.stated, found.neither
        );
        problems.push(Problem::new("sources", differ));
    }
}

/// Under a cover with counts, a record that claims an observation names one.
pub(in crate::destruction::certificate) fn of_entry(
    certificate: &Certificate,
    place: usize,
    entry: &CertificateEntry,
    problems: &mut Vec<Problem>,
) {
    let record = entry.record.as_ref().filter(|record| is_bare(record) && claims_observation(record));
    if record.is_some() && certificate.sources.is_some() {
        let lacks = "are missing: the cover says that each record names the observations that it claims";
        problems.push(Problem::new(format!("assets[{place}].record.observed"), lacks));
    }
}

/// Returns the number of records that claim an observation and name none. Only covers without counts have such records.
pub(in crate::destruction::certificate) fn not_recorded(entries: &[CertificateEntry]) -> usize {
    SourceCounts::of(entries).not_recorded
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
        certificate.sources = SourceCounts::of(&entries).for_cover();
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
                certificate.sources = Some(SourceCounts::of(&entries).counts);
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
        assert_eq!(SourceCounts::of(&entries).for_cover(), None);

        let (certificate, entries) = with_sources(false);
        let limits = verified(certificate, entries).await.limitations().join("\n");
        assert!(!limits.contains("On which observations"), "{limits}");
    }
}
