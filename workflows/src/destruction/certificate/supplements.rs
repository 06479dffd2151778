//! Supplementary certificates with false content and a valid signature. The verifier rejects each of them and names the field.

use super::{
    forgeries::{at, issued, key, sealed},
    *,
};

/// Returns a valid supplementary certificate.
fn supplementary() -> (Certificate, Vec<CertificateEntry>) {
    let (mut certificate, entries) = issued(false);
    let first = CertificateRef { id: ExecutionId::from_bytes([6; 16]), digest: Digest::from_bytes(b"first") };
    certificate.title = contents::title(
        &certificate.tombstone,
        &certificate.scope,
        certificate.kind,
        certificate.exceptions,
        Some(&first),
    );
    certificate.caveats.push(contents::supplement_caveat(&first));
    certificate.supplements = Some(first);
    (certificate, entries)
}

async fn verified(certificate: Certificate, entries: Vec<CertificateEntry>) -> Verification {
    verify_at(sealed(certificate, entries).await.as_bytes(), &[key().public_key()], at(3_600))
}

type Forge = fn(&mut Certificate);

/// The change, and the field that the verifier names.
const FORGED: [(&str, &str, Forge); 6] = [
    ("it passes for the whole", "supplements", |it| it.supplements = None),
    ("its title passes for the whole", "title", |it| it.title = "Certificate of destruction of all".into()),
    ("it supplements another", "title", |it| {
        it.supplements.as_mut().unwrap().id = ExecutionId::from_bytes([5; 16]);
    }),
    ("it supplements itself", "supplements.id", |it| it.supplements.as_mut().unwrap().id = it.id),
    ("it names no digest", "supplements.digest", |it| {
        it.supplements.as_mut().unwrap().digest = Digest("sha256:".into());
    }),
    ("it does not say what it lists", "caveats", |it| drop(it.caveats.pop())),
];

#[tokio::test]
async fn a_supplementary_certificate_verifies_and_each_forgery_is_named() {
    let (certificate, entries) = supplementary();
    let genuine = verified(certificate, entries).await;
    assert_eq!(genuine.problems, []);
    let first = ExecutionId::from_bytes([6; 16]).to_string();
    assert!(genuine.limitations().join("\n").contains(&first), "it says which certificate lists the rest");

    for (what, field, forge) in FORGED {
        let (mut certificate, entries) = supplementary();
        forge(&mut certificate);

        let found = verified(certificate, entries).await;

        let named = found.problems.iter().any(|problem| problem.field == field);
        assert!(named, "{what}: {field} is not among {:?}", found.problems);
    }
}
