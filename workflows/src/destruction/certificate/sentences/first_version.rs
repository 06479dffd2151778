//! Certificates of the first version. `tests/golden/certificates/0.1` has an example that its server issued, with the public key.

use super::{Source, statements};
use crate::{
    destruction::certificate::{Verification, verify},
    signing::PublicKey,
};
use std::{fs, path::Path};

fn first_version() -> (Vec<u8>, Vec<PublicKey>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/certificates/0.1");
    let keys = PublicKey::all_from_pem(&fs::read(folder.join("issuer.pem")).unwrap()).unwrap();
    (fs::read(folder.join("certificate.json")).unwrap(), keys)
}

fn verified() -> Verification {
    let (file, keys) = first_version();
    verify(&file, &keys)
}

#[test]
fn a_certificate_of_the_first_version_verifies_offline_and_a_changed_one_does_not() {
    let (file, keys) = first_version();
    let found = verify(&file, &keys);
    assert_eq!(found.problems, []);
    assert_eq!(found.signed_by.len(), 1);

    for place in (0..file.len()).step_by(file.len() / 50) {
        let mut changed = file.clone();
        changed[place] ^= 1;
        assert!(!verify(&changed, &keys).is_valid(), "byte {place}");
    }
}

#[test]
fn a_certificate_of_the_first_version_names_no_observation_and_each_field_has_a_kind() {
    let found = verified();
    let said = statements(found.certificate.as_ref().unwrap(), &found.assets).unwrap();
    let of = |field: &str| said.iter().find(|said| said.field() == field).unwrap().sources().to_vec();
    assert!(of("assets[0].record.result.is").contains(&Source::NotRecorded));
    let observed = |source: &Source| matches!(source, Source::Observation(_));
    assert!(!said.iter().any(|said| said.sources().iter().any(observed)));
    assert!(said.len() > 1_000, "{}", said.len());
}

#[test]
fn a_record_with_a_missing_observation_is_refused() {
    use crate::destruction::{Aspect, Look};
    let found = verified();
    let certificate = found.certificate.unwrap();
    let mut assets = found.assets;
    let record = assets[0].record.as_mut().unwrap();
    let looked = Look::Absent.answered(&crate::platform::VerifiedSystems::new(), "a bucket");
    record.observed.insert(Aspect::Looked, looked);
    let problems = statements(&certificate, &assets).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
    assert!(fields.contains(&"assets[0].record.result.is"), "{fields:?}");
    assert!(fields.contains(&"assets[0].record.technique"), "{fields:?}");
}
