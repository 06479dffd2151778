//! Withdrawals that are forged, damaged or about another certificate, and valid ones.

use super::*;
use crate::{
    destruction::certificate::{
        Certificate, CertificateEntry, Verification,
        forgeries::{at, issued, key, sealed},
        print, verify_at,
    },
    signing::{Digest, KeySuccession, SigningKey},
};

/// Another key that a verifier may trust for certificates of another issuer.
fn other_key() -> SigningKey {
    SigningKey::from_seed([10; 32]).unwrap()
}

/// Returns the file of a certificate and its reference.
async fn certificate() -> (String, Certificate, CertificateRef) {
    let (certificate, entries): (Certificate, Vec<CertificateEntry>) = issued(false);
    let file = sealed(certificate.clone(), entries).await;
    let digest = verify_at(file.as_bytes(), &[key().public_key()], at(3_600)).digest;
    let reference = CertificateRef { id: certificate.id, digest };
    (file, certificate, reference)
}

fn statement(certificate: &Certificate, reference: CertificateRef) -> WithdrawalStatement {
    WithdrawalStatement {
        format: WITHDRAWAL_FORMAT.into(),
        certificate: reference,
        tenant: certificate.tombstone.tenant.clone(),
        issued_at: certificate.issued_at,
        withdrawn_by: "ada".into(),
        roles: vec!["admin".into()],
        withdrawn_at: at(1_000),
        reason: "the bucket was restored from a backup".into(),
        found: vec!["objects/eu/Bucket/t-acme".into()],
        issuer: "Example".into(),
        software: Software { name: "tenure".into(), version: "0.1.0".into() },
    }
}

/// Returns the statement with new checksums, signed with the key `with`.
async fn signed(said: &WithdrawalStatement, with: &SigningKey) -> CertificateWithdrawal {
    let text = checked_json::write(SHEET, &value(said));
    let unsigned = UnsignedWithdrawal { statement: said.clone(), text: text.clone() };
    let signature = sign_withdrawal(&unsigned, with).await.unwrap().signature;
    let (tenant, certificate) = (said.tenant.clone(), said.certificate.id);
    let (statement, successions) = (said.clone(), Vec::new());
    CertificateWithdrawal { tenant, certificate, statement, text, signature, successions }
}

fn verified(file: &str, statements: &str, keys: &[&SigningKey]) -> Verification {
    let keys: Vec<_> = keys.iter().map(|key| key.public_key()).collect();
    let mut found = verify_at(file.as_bytes(), &keys, at(3_600));
    assert_eq!(found.problems, [], "the certificate holds by itself");
    apply_withdrawals(&mut found, statements.as_bytes(), &keys);
    found
}

#[tokio::test]
async fn a_withdrawn_certificate_is_refused_with_the_author_and_the_reason() {
    let (file, certificate, reference) = certificate().await;
    let mut other = statement(&certificate, reference.clone());
    other.certificate =
        CertificateRef { id: ExecutionId::from_bytes([3; 16]), digest: Digest::from_bytes(b"other") };
    let ours = signed(&statement(&certificate, reference), &key()).await.file();
    let list = format!("{}\n{ours}", signed(&other, &key()).await.file());

    for (statements, of_others) in [(&ours, 0), (&list, 1)] {
        let found = verified(&file, statements, &[&key()]);

        assert!(!found.is_valid() && found.proves().is_empty());
        let fields: Vec<_> = found.problems.iter().map(|it| it.field.as_str()).collect();
        assert_eq!(fields, ["withdrawn"]);
        for said in ["ada", "admin", "restored from a backup", "objects/eu/Bucket/t-acme"] {
            assert!(found.problems[0].problem.contains(said), "{said}: {:?}", found.problems);
        }
        assert_eq!((found.withdrawals.of_others, found.withdrawals.withdrawn.is_some()), (of_others, true));
        for shown in [print::html(&found).unwrap(), print::text(&found).unwrap()] {
            assert!(shown.contains("WITHDRAWN") && shown.contains("restored from a backup"), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_withdrawal_of_another_certificate_changes_nothing() {
    let (file, certificate, reference) = certificate().await;
    let mut said = statement(&certificate, reference);
    said.certificate.id = ExecutionId::from_bytes([3; 16]);
    said.certificate.digest = Digest::from_bytes(b"another cover");

    let found = verified(&file, &signed(&said, &key()).await.file(), &[&key()]);

    assert_eq!((found.problems.as_slice(), found.withdrawals.of_others), (&[][..], 1));
    assert!(found.is_valid());
    assert!(verified(&file, "", &[&key()]).is_valid(), "an empty list withdraws nothing");
}

type Forge = fn(&mut WithdrawalStatement);

/// Statements with false content and a valid signature: the change, and the field that the verifier names.
const RESIGNED: [(&str, &str, Forge); 8] = [
    ("it is attached to this number with another digest", "certificate.digest", |it| {
        it.certificate.digest = Digest::from_bytes(b"another cover");
    }),
    ("it is attached to this digest with another number", "certificate.id", |it| {
        it.certificate.id = ExecutionId::from_bytes([3; 16]);
    }),
    ("it names another tenant", "tenant", |it| it.tenant = "other".parse().unwrap()),
    ("it names another date of issue", "issued_at", |it| it.issued_at = at(1)),
    ("nobody decided", "withdrawn_by", |it| it.withdrawn_by = " ".into()),
    ("it has no reason", "reason", |it| it.reason.clear()),
    ("it is older than the certificate", "withdrawn_at", |it| it.withdrawn_at = at(1)),
    ("it has another form", "format", |it| it.format = "tenure certificate withdrawal 2".into()),
];

#[tokio::test]
async fn each_forged_withdrawal_has_no_effect_and_is_named() {
    let (file, certificate, reference) = certificate().await;
    let genuine = statement(&certificate, reference);
    for (what, field, forge) in RESIGNED {
        let mut said = genuine.clone();
        forge(&mut said);

        let found = verified(&file, &signed(&said, &key()).await.file(), &[&key()]);

        refused(&found, what, field);
    }
}

#[tokio::test]
async fn a_withdrawal_counts_only_with_the_key_of_the_certificate() {
    let (file, certificate, reference) = certificate().await;
    let said = statement(&certificate, reference);
    let (genuine, foreign) = (signed(&said, &key()).await, signed(&said, &other_key()).await);

    refused(&verified(&file, &foreign.file(), &[&key()]), "an untrusted key", "signatures[0].keyid");
    let both = [&key(), &other_key()];
    refused(&verified(&file, &foreign.file(), &both), "a trusted key of another issuer", "signatures");

    let renamed = CertificateWithdrawal {
        signature: Signature { keyid: key().public_key().id(), ..foreign.signature.clone() },
        ..foreign
    };
    refused(&verified(&file, &renamed.file(), &both), "a signature under another key's name", "sig");

    // The signature of one statement with the text of another.
    let reworded = WithdrawalStatement { reason: "a mistake of ours".into(), ..said };
    let moved = CertificateWithdrawal { signature: genuine.signature, ..signed(&reworded, &key()).await };
    refused(&verified(&file, &moved.file(), &[&key()]), "a signature of another statement", "sig");
}

/// The certificate's key was changed twice. The reader has only the first public key.
#[tokio::test]
async fn a_withdrawal_counts_by_a_key_that_succeeds_the_key_of_the_certificate() {
    let (file, certificate, reference) = certificate().await;
    let said = statement(&certificate, reference);
    let (second, third) = (other_key(), SigningKey::from_seed([11; 32]).unwrap());
    let link = |from: &SigningKey, to: &SigningKey| KeySuccession::sign(from, to, at(500), "yearly");
    let chain = vec![link(&key(), &second), link(&second, &third)];
    let signed = signed(&said, &third).await;
    let with = |successions: &[String]| {
        CertificateWithdrawal { successions: successions.to_vec(), ..signed.clone() }.file()
    };

    let found = verified(&file, &with(&chain), &[&key()]);
    assert!(found.withdrawals.withdrawn.is_some() && found.withdrawals.read == 1, "{:?}", found.problems);
    assert_eq!(found.problems.iter().map(|it| it.field.as_str()).collect::<Vec<_>>(), ["withdrawn"]);

    // A chain with a gap, a chain in the wrong direction, and a link without the signature of the old key.
    let wrong = [link(&third, &key())];
    for incomplete in [&chain[..1], &chain[1..], &wrong[..], &chain[..0]] {
        refused(&verified(&file, &with(incomplete), &[&key()]), "no chain", "keyid");
    }
    let foreign = link(&second, &third).replace(&second.public_key().id(), &key().public_key().id());
    let found = verified(&file, &with(&[foreign]), &[&key()]);
    assert!(found.withdrawals.withdrawn.is_none() && !found.is_valid());
}

#[tokio::test]
async fn a_certificate_is_not_accepted_as_its_withdrawal() {
    let (file, certificate, reference) = certificate().await;
    refused(&verified(&file, &file, &[&key()]), "a certificate as a statement", "envelope");

    // The cover itself, in the envelope of a statement.
    let cover: serde_json::Value = serde_json::from_str(&file).unwrap();
    let envelope = StatementEnvelope {
        payload: cover["payload"].as_str().unwrap().into(),
        payload_type: super::super::PAYLOAD_TYPE.into(),
        signatures: serde_json::from_value(cover["signatures"].clone()).unwrap(),
    };
    refused(&verified(&file, &envelope.written(), &[&key()]), "a cover as a statement", "payloadType");

    // A statement is not accepted as a certificate.
    let statement = signed(&statement(&certificate, reference), &key()).await.file();
    assert!(!verify_at(statement.as_bytes(), &[key().public_key()], at(3_600)).is_valid());
}

#[tokio::test]
async fn any_changed_byte_of_a_withdrawal_is_found() {
    let (file, certificate, reference) = certificate().await;
    let genuine = signed(&statement(&certificate, reference), &key()).await.file();
    for place in 0..genuine.len() - 1 {
        let mut bytes = genuine.clone().into_bytes();
        bytes[place] ^= 0x01;
        let mut found = verify_at(file.as_bytes(), &[key().public_key()], at(3_600));
        apply_withdrawals(&mut found, &bytes, &[key().public_key()]);
        assert!(!found.is_valid() && found.withdrawals.withdrawn.is_none(), "byte {place}");
    }
}

fn refused(found: &Verification, what: &str, field: &str) {
    assert!(!found.is_valid(), "{what}: a statement that cannot be trusted confirms nothing");
    assert_eq!(found.withdrawals.withdrawn, None, "{what}");
    let named =
        found.problems.iter().any(|it| it.field.starts_with("withdrawals[0]") && it.field.contains(field));
    assert!(named, "{what}: {field} is not among {:?}", found.problems);
}
