//! Updates records after a verification: verified if the resource was not found, and reverted if it was.

use super::{BEYOND_USE, lost_with, tool};
use crate::{
    destruction::{
        Actor, Aspect, AssetId, AssetType, KeyFacts, Look, ObservationRef, SanitisationOutcome,
        SanitisationRecord, Validation, ValidationVerdict, Verification, VerificationMethod, statement_about,
    },
    offboarding::Offboarding,
    platform::{
        ObserveAbsence, ObservedAbsence, RemainingThing, TenantResource, VerifiedAs, VerifiedSystems,
    },
    signing::Moment,
    tenancy::TenantId,
};
use engine::{Call, LedgerAction, MadeRepair, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Records on unverified records that the resource was not found, by which observer, and that this is accepted.
///
/// Some records stay unchanged: records of retained resources, of a statement, and of a system without observations. A record of a resource that was
/// found again is no longer verified. Data do not count as lost with a key that may exist. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ValidateRecords {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The resources that were not found.
    pub things: Vec<(AssetType, TenantResource)>,
    /// The credentials, by system, as the backends reported them.
    #[serde(default)]
    pub verified: VerifiedSystems,
    /// The action that made the observations.
    #[serde(default)]
    pub look: Look,
    /// Resources that were looked for and not observed to be gone.
    #[serde(default)]
    pub remains: Vec<RemainingThing>,
    /// The remaining resources with data, with their types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found_again: Vec<(AssetType, TenantResource)>,
    /// The resources that their store keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<(AssetType, TenantResource)>,
    /// The repairs made by operators so far.
    #[serde(default)]
    pub repairs: Vec<MadeRepair>,
}

impl LedgerAction for ValidateRecords {
    const NAME: &'static str = "ValidateRecords";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let now = Moment::from(view.now());
        let all = self.things.iter().chain(&self.found_again).chain(&self.kept);
        view.prefetch::<SanitisationRecord>(all.map(|named| key_of(call, named)))?;
        for thing in &self.things {
            let record = view.get::<SanitisationRecord>(&key_of(call, thing))?;
            let Some(record) =
                record.filter(|record| record.result == SanitisationOutcome::SanitisedUnverified)
            else {
                continue;
            };
            if let Some(record) = self.unverified(&record, &thing.1, call) {
                view.put(&record)?;
                continue;
            }
            let Some(verified) = self.verified.get(&thing.1.system).copied() else { continue };
            let (verification, validation) =
                looked_for(&record, verified, record.ended_at.max(Some(now)).unwrap_or(now));
            let mut observed = record.observed.clone();
            // A record of an earlier version names no observation.
            if !observed.is_empty() {
                observed.insert(Aspect::Looked, self.look.answered(&self.verified, &thing.1));
            }
            view.put(&SanitisationRecord {
                verification: Some(verification),
                validation: Some(validation),
                result: SanitisationOutcome::SanitisedVerified,
                observed,
                ..record
            })?;
        }
        self.take_back(view, call)
    }
}

impl Offboarding {
    pub(in crate::offboarding) fn verified(&mut self, verified: VerifiedSystems) {
        self.verified = verified;
        self.look = Some(Look::Absent);
    }

    pub(in crate::offboarding) fn nothing_left(&mut self, verified: VerifiedSystems) {
        self.verified = verified;
        self.look = Some(Look::NothingLeft);
    }

    pub(in crate::offboarding) fn observed(&mut self, observed: ObservedAbsence) {
        self.verified = observed.verified;
        self.look = Some(Look::EachThing);
        let known = |thing: &TenantResource| observed.remains.iter().any(|seen| seen.thing == *thing);
        self.remains.retain(|earlier| !known(&earlier.thing));
        self.remains.extend(observed.remains);
    }
}

/// Returns the key of the document with a resource's record.
fn key_of(call: &Call, (kind, thing): &(AssetType, TenantResource)) -> String {
    SanitisationRecord::key(call.execution, &AssetId::new(*kind, &thing.to_string()))
}

impl ValidateRecords {
    /// Returns the record of a resource whose removal was only stated or not observed.
    fn unverified(
        &self,
        record: &SanitisationRecord,
        thing: &TenantResource,
        call: &Call,
    ) -> Option<SanitisationRecord> {
        let repair = statement_about(&self.repairs, call.execution, thing);
        let stated = repair.map(|repair| record.clone().stated_by(repair));
        let remains = self.remains.iter().find(|remaining| remaining.thing == *thing);
        let Some(remaining) = remains else { return stated };
        let record = stated.unwrap_or_else(|| record.clone());
        let result = SanitisationOutcome::Failed { reason: remaining.why.clone() };
        let key = record.key.clone().map(|key| KeyFacts { observed_absent: false, ..key });
        let mut observed = record.observed.clone();
        if record.stated.is_some() || !observed.is_empty() {
            observed.insert(Aspect::Looked, ObservationRef::new::<ObserveAbsence>(remaining, thing));
        }
        Some(SanitisationRecord { result, key, verification: None, validation: None, observed, ..record })
    }

    /// Reverts the records of resources that were found again, and of data that were lost with a key that may exist.
    fn take_back(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        for thing in &self.found_again {
            let Some(record) = view.get::<SanitisationRecord>(&key_of(call, thing))? else { continue };
            let said_gone =
                [SanitisationOutcome::SanitisedVerified, SanitisationOutcome::SanitisedUnverified];
            if said_gone.contains(&record.result)
                && let Some(record) = self.unverified(&record, &thing.1, call)
            {
                view.put(&record)?;
            }
        }
        let there = self.keys_not_gone(view, call)?;
        if there.is_empty() {
            return Ok(());
        }
        for thing in &self.kept {
            let Some(record) = view.get::<SanitisationRecord>(&key_of(call, thing))? else { continue };
            if let Some(reason) = not_lost(&record.result, &there) {
                let mut observed = record.observed.clone();
                observed.remove(&Aspect::Key);
                let result = SanitisationOutcome::Failed { reason };
                view.put(&SanitisationRecord { result, observed, ..record })?;
            }
        }
        Ok(())
    }

    /// Returns the names of keys that were not observed to be gone, according to their records.
    fn keys_not_gone(&self, view: &mut View, call: &Call) -> Result<Vec<&str>, Undecided> {
        let mut there = BTreeSet::new();
        let keys = self.things.iter().chain(&self.found_again).filter(|(kind, _)| *kind == AssetType::Key);
        for key in keys {
            let record = view.get::<SanitisationRecord>(&key_of(call, key))?;
            if record.is_none_or(|record| record.result != SanitisationOutcome::SanitisedVerified) {
                there.insert(key.1.name.as_str());
            }
        }
        Ok(there.into_iter().collect())
    }
}

/// Returns the corrected reason for a resource whose key may exist. `None` if the record is not affected.
fn not_lost(result: &SanitisationOutcome, keys: &[&str]) -> Option<String> {
    match result {
        SanitisationOutcome::NotApplicable { rule, reason, .. } => (rule == BEYOND_USE).then(|| {
            let keys = keys.join(", ");
            format!("{reason}; it may be encrypted with key {keys}, which was not seen to be gone")
        }),
        SanitisationOutcome::Failed { reason } => keys.iter().find_map(|key| {
            let kept = reason.strip_suffix(lost_with(key).as_str())?;
            Some(format!("{kept}it is encrypted with key {key}, which was not seen to be gone"))
        }),
        SanitisationOutcome::SanitisedVerified
        | SanitisationOutcome::SanitisedUnverified
        | SanitisationOutcome::Skipped { .. }
        | SanitisationOutcome::PhysicallyDestroyed { .. }
        | SanitisationOutcome::Unknown => None,
    }
}

/// Returns the verification and the validation of a resource that was not found. Both name only the credentials that were used.
fn looked_for(record: &SanitisationRecord, verified: VerifiedAs, at: Moment) -> (Verification, Validation) {
    // A volume may have no key to test with. The transcript has the details.
    let was_decrypted = record.key.as_ref().is_some_and(|key| key.decrypt_fails);
    let method =
        if was_decrypted { VerificationMethod::DecryptProbe } else { VerificationMethod::ObservedAbsent };
    let verification = Verification {
        method,
        seed: None,
        checked: 1,
        mismatches: 0,
        unreadable: 0,
        tool: tool(&format!("look for it {}", verified.phrase())),
        actor: verifier(verified),
        verified_as: Some(verified),
        at,
    };
    let validation = Validation {
        decision: ValidationVerdict::Accept,
        actor: Actor::program("tenure validation by policy"),
        at,
        reason: format!("looked for {}, and not found", verified.phrase()),
    };
    (verification, validation)
}

/// Returns the actor of a verification. It is the verifier only if all observations used its credentials.
pub(in crate::offboarding) fn verifier(verified: VerifiedAs) -> Actor {
    Actor::program(match verified {
        VerifiedAs::Verifier => "tenure verifier",
        VerifiedAs::Platform => "tenure, with the platform's own credentials",
        VerifiedAs::Mixed => "tenure, partly with the platform's own credentials",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Workflow as _;
    use serde_json::Value;
    use store::Timestamp;

    #[test]
    fn a_skipped_observation_has_no_earlier_answer() {
        let mut me = Offboarding::examples().remove(0);
        me.verified.insert("objects".into(), VerifiedAs::Verifier);
        me.note_repair(MadeRepair {
            kind: "skip".into(),
            state: "VerifyingDismantled".into(),
            action: "VerifyNothingLeft".into(),
            arguments: Value::Null,
            output: Value::Null,
            evidence: String::new(),
            by: "olga".into(),
            seconded_by: None,
            reason: "seen".into(),
            at: Timestamp(0),
            errors: Vec::new(),
        });
        assert_eq!((me.verified.len(), me.repairs.len()), (0, 1));
    }
}
