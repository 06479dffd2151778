//! The path of a workflow: its ledger actions and the signer of its platform.

use super::*;

/// Produces a certificate as a workflow does: from the inventory to the file, with its ledger actions and signer.
async fn through_the_books(assets: Vec<Asset>) -> (Books, String, PublicKey) {
    let (mut books, executions) = (Books::default(), Executions::new().await);
    let mut call = executions.call(RUN);
    call.states_entered = 9;
    let digest = Inventory::from_scans(assets.clone()).unwrap().digest();
    books.now = at(20).into();
    books.act(&KeepInventory { tenant: tenant(), seen: assets.clone() }, &call).unwrap();
    let case = case(serde_json::json!({ "inventory": digest }));
    let key = Key::new("approvals-closed", &case.id);
    books.apply(vec![Put { key, body: Some(serde_json::to_vec(&case).unwrap()) }]);
    books.now = at(90).into();
    books.act(&PassPivot { approved: digest, ..passing() }, &call).unwrap();
    books.act(&KeepRecords { records: assets.iter().map(record).collect() }, &call).unwrap();
    books.now = at(200).into();
    let assemble = AssembleCertificate {
        draft: draft(Vec::new()),
        exceptions: Exceptions::Refuse,
        schema: 1,
        kept_for: None,
    };
    let assembled = books.act(&assemble, &call).unwrap();
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let mut calls = Calls::new().await;
    let sign = SignCertificate { cover: assembled.cover };
    let first = sign.run(&platform, &calls.next("Signing", false)).await.unwrap();
    let signed = sign.run(&platform, &calls.next("Signing", false)).await.unwrap();
    assert_eq!(first, signed, "a second signature is the same");
    let keep = KeepCertificate { signature: signed.signature, public_key: signed.public_key.clone() };
    books.act(&keep, &call).unwrap();
    books.act(&keep, &call).unwrap();
    let file = books.decide(|view| certificate_file(view, run())).unwrap().unwrap();
    (books, file, signed.public_key)
}

#[tokio::test]
async fn the_ledger_actions_of_a_workflow_produce_a_valid_certificate() {
    let (_, file, key) = through_the_books(things()).await;
    let found = verify(file.as_bytes(), &[key]);
    assert_eq!(found.problems, []);
    assert_eq!(
        found.certificate.unwrap().approvals[0].votes.len(),
        2,
        "the votes come from the engine's own record"
    );
}

#[tokio::test]
async fn a_certificate_with_a_thousand_assets_can_be_stored_and_issued() {
    let many: Vec<_> =
        (0..1000).map(|n| asset(AssetType::Nvme, &format!("west-1/node-{}/nvme{}", n / 8, n % 8))).collect();
    let (books, file, key) = through_the_books(many).await;
    assert!(books.longest() <= store::BODY_LIMIT, "{}", books.longest());
    let found = verify(file.as_bytes(), &[key]);
    assert_eq!(found.problems, []);
    assert_eq!(found.assets.len(), 1000);
}

#[tokio::test]
async fn a_signature_of_other_content_is_not_stored() {
    let (mut books, executions) = inventoried().await;
    let mut call = executions.call(RUN);
    call.states_entered = 9;
    books.act(&passing(), &call).unwrap();
    books.act(&KeepRecords { records: things().iter().map(record).collect() }, &call).unwrap();
    books.now = at(200).into();
    let assemble = AssembleCertificate {
        draft: draft(Vec::new()),
        exceptions: Exceptions::Refuse,
        schema: 1,
        kept_for: None,
    };
    books.act(&assemble, &call).unwrap();
    let (sig, public_key) = key().sign(b"something else").await.unwrap();
    let keep = KeepCertificate { signature: dsse::Signature::new(&public_key, &sig), public_key };
    assert_eq!(books.act(&keep, &call).unwrap_err().code, codes::SIGNATURE_WRONG);
    assert_eq!(
        books.decide(|view| certificate_file(view, run())).unwrap(),
        None,
        "an unsigned file is no certificate"
    );
}
