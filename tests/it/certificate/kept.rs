//! The path of a workflow: its ledger actions and the signer of its platform.

use super::*;

/// A pivot was passed for these assets, and the records are kept. Assets without a record are left out of `recorded`.
async fn destroyed(assets: &[Asset], recorded: &[Asset]) -> (Books, engine::Call) {
    let (mut books, executions) = (Books::default(), Executions::new().await);
    let mut call = executions.call(RUN);
    call.states_entered = 9;
    let digest = Inventory::from_scans(assets.to_vec()).unwrap().digest();
    books.now = at(20).into();
    books.act(&KeepInventory { tenant: tenant(), seen: assets.to_vec() }, &call).unwrap();
    let case = case(serde_json::json!({ "inventory": digest }));
    let key = Key::new("approvals-closed", &case.id);
    books.apply(vec![Put { key, body: Some(serde_json::to_vec(&case).unwrap()) }]);
    books.now = at(90).into();
    books.act(&PassPivot { approved: digest, ..passing() }, &call).unwrap();
    books.act(&KeepRecords { records: recorded.iter().map(record).collect() }, &call).unwrap();
    books.now = at(200).into();
    (books, call)
}

fn assembly(exceptions: Exceptions, bytes_at_once: Option<u32>) -> AssembleCertificate {
    AssembleCertificate { draft: draft(Vec::new()), exceptions, schema: 1, kept_for: None, bytes_at_once }
}

/// Signs an assembled certificate and keeps it. Returns its file and the key.
async fn keep(books: &mut Books, call: &engine::Call, cover: String) -> (String, PublicKey) {
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let mut calls = Calls::new().await;
    let sign = SignCertificate { cover };
    let first = sign.run(&platform, &calls.next("Signing", false)).await.unwrap();
    let signed = sign.run(&platform, &calls.next("Signing", false)).await.unwrap();
    assert_eq!(first, signed, "a second signature is the same");
    let keep = KeepCertificate { signature: signed.signature, public_key: signed.public_key.clone() };
    books.act(&keep, call).unwrap();
    books.act(&keep, call).unwrap();
    let file = books.decide(|view| certificate_file(view, run())).unwrap().unwrap();
    (file, signed.public_key)
}

/// Produces a certificate as a workflow does: from the inventory to the file, with its ledger actions and signer.
async fn through_the_books(assets: Vec<Asset>) -> (Books, String, PublicKey) {
    let (mut books, call) = destroyed(&assets, &assets).await;
    let mut assembled = books.act(&assembly(Exceptions::Refuse, None), &call).unwrap();
    while assembled.missing > 0 {
        assembled = books.act(&assembly(Exceptions::Refuse, None), &call).unwrap();
    }
    let (file, key) = keep(&mut books, &call, assembled.cover).await;
    (books, file, key)
}

fn drives(count: usize) -> Vec<Asset> {
    let name = |n| format!("west-1/node-{:04}/nvme{}", n / 8, n % 8);
    (0..count).map(|n| asset(AssetType::Nvme, &name(n))).collect()
}

/// The longest list on a page.
const PAGE: u32 = 96 << 10;

/// Assembles in commits of one page each. Before each commit the server crashes once: its decision is lost.
fn assemble_with_crashes(
    books: &mut Books,
    call: &engine::Call,
    exceptions: Exceptions,
) -> Result<(usize, AssembledCertificate), engine::ActionError> {
    let assemble = assembly(exceptions, Some(PAGE));
    let mut missing = usize::MAX;
    for commits in 1..1_000 {
        let (lost, _, puts) = books.weigh(|view| engine::LedgerAction::decide(&assemble, view, call))?;
        let bytes: usize = puts.iter().filter_map(|put| put.body.as_ref()).map(Vec::len).sum();
        assert!(bytes < 1 << 20, "commit {commits} writes {bytes} bytes");
        let assembled = books.act(&assemble, call)?;
        assert_eq!(assembled, lost, "the same documents give the same pages");
        assert!(assembled.missing < missing, "each commit lists more assets");
        missing = assembled.missing;
        if missing == 0 {
            return Ok((commits, assembled));
        }
    }
    panic!("it never lists all assets");
}

#[tokio::test]
async fn a_certificate_has_the_same_bytes_in_one_commit_as_in_many_with_crashes_between_them() {
    let many = drives(600);
    let (_, at_once, _) = through_the_books(many.clone()).await;
    let (mut books, call) = destroyed(&many, &many).await;

    let (commits, assembled) = assemble_with_crashes(&mut books, &call, Exceptions::Refuse).unwrap();

    let (file, key) = keep(&mut books, &call, assembled.cover).await;
    assert!(commits > 5, "{commits} commits");
    assert_eq!(verify(file.as_bytes(), &[key]).problems, []);
    assert!(file == at_once, "the files differ");
    let left = books.puts().iter().filter(|put| put.key.collection == "certificates-unfinished").count();
    assert_eq!(left, 0, "only the certificate remains");
}

#[tokio::test]
async fn a_record_that_is_missing_at_the_end_of_a_long_list_is_refused_or_becomes_an_exception() {
    let many = drives(400);
    let (last, recorded) = many.split_last().unwrap();
    let (mut books, call) = destroyed(&many, recorded).await;

    let refused = assemble_with_crashes(&mut books, &call, Exceptions::Refuse).unwrap_err();

    assert_eq!(refused.code, codes::NOT_ISSUED);
    let why = format!("1 assets have no valid record: {}", last.id.as_str());
    assert!(refused.to_string().contains(&why), "{refused}");
    let (commits, assembled) = assemble_with_crashes(&mut books, &call, Exceptions::Allow).unwrap();
    assert_eq!((commits, assembled.exceptions), (1, 1), "the pages that were written are used");
    let (file, key) = keep(&mut books, &call, assembled.cover).await;
    let found = verify(file.as_bytes(), &[key]);
    assert_eq!((found.problems, found.assets.len()), (vec![], 400));
}

#[tokio::test]
async fn pages_that_another_version_has_begun_are_written_again() {
    let many = drives(400);
    let (mut books, call) = destroyed(&many, &many).await;
    // More and shorter pages than the finished certificate has.
    for _ in 0..7 {
        assert!(books.act(&assembly(Exceptions::Refuse, Some(PAGE / 2)), &call).unwrap().missing > 0);
    }
    let begun = books.puts().into_iter().find(|put| put.key.collection == "certificates-unfinished").unwrap();
    let mut other: serde_json::Value = serde_json::from_slice(begun.body.as_ref().unwrap()).unwrap();
    other["version"] = "0.0.1".into();
    books.apply(vec![Put { key: begun.key, body: Some(other.to_string().into_bytes()) }]);

    let assembled = books.act(&assembly(Exceptions::Refuse, None), &call).unwrap();

    let (file, key) = keep(&mut books, &call, assembled.cover).await;
    let (fresh, at_once, _) = through_the_books(many).await;
    assert_eq!(verify(file.as_bytes(), &[key]).problems, []);
    assert!(file == at_once, "the files differ");
    let pages = |books: &Books| books.all::<CertificatePage>().len();
    assert_eq!(pages(&books), pages(&fresh), "no page of the other version remains");
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
async fn thousands_of_assets_fit_the_store_and_the_certificate() {
    let (books, file, key) = through_the_books(drives(2000)).await;
    assert!(books.longest() <= store::BODY_LIMIT, "{}", books.longest());
    let found = verify(file.as_bytes(), &[key]);
    assert_eq!(found.problems, []);
    assert_eq!(found.assets.len(), 2000);
}

#[tokio::test]
async fn a_signature_of_other_content_is_not_stored() {
    let (mut books, executions) = inventoried().await;
    let mut call = executions.call(RUN);
    call.states_entered = 9;
    books.act(&passing(), &call).unwrap();
    books.act(&KeepRecords { records: things().iter().map(record).collect() }, &call).unwrap();
    books.now = at(200).into();
    books.act(&assembly(Exceptions::Refuse, None), &call).unwrap();
    let (sig, public_key) = key().sign(b"something else").await.unwrap();
    let keep = KeepCertificate { signature: dsse::Signature::new(&public_key, &sig), public_key };
    assert_eq!(books.act(&keep, &call).unwrap_err().code, codes::SIGNATURE_WRONG);
    assert_eq!(
        books.decide(|view| certificate_file(view, run())).unwrap(),
        None,
        "an unsigned file is no certificate"
    );
}
