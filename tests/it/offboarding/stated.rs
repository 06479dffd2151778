//! Statements by persons instead of observations: records and certificate name them, and they never count as proof.

use super::{keys::just_before, stage::Stage};
use backends::simulated::{Fault, FaultKind, Script, Verb};
use engine::{Attribution, CommandResult, Engine, Error, Event, Options, Refusal, Repair};
use serde_json::{Value, json};
use workflows::{
    destruction::{
        SanitisationOutcome, SanitisationRecord,
        certificate::{Verification, certificate_file, print, verify},
    },
    platform::{Platform, TenantResource},
};

const BUCKET: &str = "objects/eu-west/Bucket/t-acme--eu-west";

fn by_olga(repair: Repair) -> Event {
    Event::Repaired { repair, order: Attribution { by: "olga".into(), reason: "I looked".into() } }
}

impl Stage {
    /// The engine with its default setting: two persons for changes to the course of an execution.
    fn with_second_person(&self) -> Engine<Platform> {
        let second_person = ["mark_done", "skip"].map(str::to_owned).into();
        self.engine.clone().with_options(Options { second_person, ..Options::default() })
    }

    /// Proposes a repair as one user and confirms it as another.
    async fn repair(&self, repair: Repair) -> Result<(), Error> {
        let engine = self.with_second_person();
        match engine.command(self.id, by_olga(repair), None).await? {
            CommandResult::Proposed(proposal) => {
                engine.approve_proposal(&proposal.id, "lena").await.map(drop)
            }
            CommandResult::Done(_) => panic!("one person alone has repaired it"),
        }
    }

    /// Marks the failed slots as done, with a statement that the objects are gone.
    async fn state_that_it_is_gone(&self) {
        let body = self.engine.execution(self.id).await.unwrap().1.body;
        let slots = body["slots"].as_array().unwrap().clone();
        let failed = (0u32..).zip(&slots).filter(|(_, slot)| slot["settled"]["Err"].is_object());
        for slot in failed.map(|(number, _)| number).collect::<Vec<_>>() {
            let output = json!({ "thing": BUCKET, "fate": "gone" });
            self.repair(Repair::MarkDone { slot, output, evidence: "ticket 4711".into() }).await.unwrap();
        }
    }

    async fn retry(&self) {
        let order = Attribution { by: "olga".into(), reason: "again".into() };
        self.engine.deliver(self.id, Event::RetryRequested(order)).await.unwrap();
    }

    /// The record of the bucket.
    async fn bucket(&self) -> SanitisationRecord {
        let records = self.records().await;
        records.into_iter().find(|record| record.asset.as_str() == format!("bucket:{BUCKET}")).unwrap()
    }

    async fn verified_certificate(&self) -> Verification {
        let id = self.id;
        let file = self.engine.transact(false, |view| certificate_file(view, id)).await.unwrap().unwrap();
        verify(file.as_bytes(), &[])
    }
}

/// A store that refuses to delete one bucket; runs until the deletion is parked.
async fn refused_bucket() -> Stage {
    let stage = Stage::slurm(|_| {}).await;
    stage.script(Fault::on("RemoveThing", FaultKind::RefuseBefore).named("t-acme--eu-west").times(0));
    assert_eq!(stage.to_rest().await, ("DeletingData".into(), "parked".into()), "{}", stage.trouble().await);
    stage
}

/// Two operators state four times that it is done, and it is not.
#[tokio::test]
async fn a_statement_about_an_existing_bucket_is_never_verified() {
    let stage = refused_bucket().await;

    stage.state_that_it_is_gone().await;
    assert_eq!(stage.to_rest().await, ("DeletingAgain".into(), "parked".into()), "{}", stage.trouble().await);
    stage.state_that_it_is_gone().await;
    assert_eq!(
        stage.to_rest().await,
        ("VerifyingAgain".into(), "parked".into()),
        "{}",
        stage.trouble().await
    );

    // No person can state the verification, on their own or with another, in any form.
    for output in [Value::Null, json!({}), json!({ "objects": "verifier" })] {
        let stated = Repair::MarkDone { slot: 0, output, evidence: "ticket 4711".into() };
        let refused = stage.repair(stated).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::NotStatable { .. }))), "{refused:?}");
    }
    for patch in [
        json!({ "verified": { "objects": "verifier" } }),
        json!({ "targets": [] }),
        json!({ "kept": [BUCKET] }),
    ] {
        let refused = stage.engine.deliver(stage.id, by_olga(Repair::Edit { patch })).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::NotStatable { .. }))), "{refused:?}");
    }

    // An operator can accept that the asset stays; the certificate names the operator.
    stage.repair(Repair::Skip { slot: None }).await.unwrap();
    let rest = stage.to_rest().await;
    assert_eq!(rest, ("ClosedWithExceptions".into(), "finished".into()), "{}", stage.trouble().await);
    assert!(stage.left().contains(&BUCKET.to_owned()), "the bucket is there");

    let record = stage.bucket().await;
    assert!(record.passes().is_err());
    assert_eq!((&record.verification, &record.validation), (&None, &None));
    assert_eq!(record.result, SanitisationOutcome::Failed { reason: "the verifier still finds it".into() });
    let stated = record.stated.unwrap();
    assert_eq!((stated.by.as_str(), stated.seconded_by.as_deref()), ("olga", Some("lena")));
    assert_eq!((stated.reason.as_str(), stated.evidence.as_str()), ("I looked", "ticket 4711"));

    let found = stage.verified_certificate().await;
    let certificate = found.certificate.as_ref().unwrap();
    let kinds: Vec<_> = certificate.repairs.iter().map(|repair| repair.kind.as_str()).collect();
    assert_eq!(kinds, ["mark_done", "mark_done", "skip"]);
    let text = print::text(&found).unwrap();
    assert!(text.contains("EXCEPTION") && text.contains("olga, seconded by lena"), "{text}");
    assert!(text.contains("the verifier still finds"), "the step's failure is shown: {text}");
    let others = found.assets.iter().filter(|entry| entry.asset.id.as_str() != format!("bucket:{BUCKET}"));
    let excepted: Vec<_> =
        others.filter(|entry| entry.exception.is_some()).map(|entry| &entry.asset.id).collect();
    assert_eq!(excepted, Vec::<&workflows::destruction::AssetId>::new(), "every other asset was observed");
}

/// It is an exception although the verifier finds nothing: the deletion itself was not observed.
#[tokio::test]
async fn an_operator_statement_is_an_exception_that_names_its_authors() {
    let stage = Stage::slurm(|_| {}).await;
    let answer_is_bad = Fault::on("RemoveThing", FaultKind::RefuseAfter).named("t-acme--eu-west");
    stage.script(Fault { verb: Some(Verb::Delete), ..answer_is_bad });
    assert_eq!(stage.to_rest().await, ("DeletingData".into(), "parked".into()), "{}", stage.trouble().await);

    stage.state_that_it_is_gone().await;

    let rest = stage.to_rest().await;
    assert_eq!(rest, ("ClosedWithExceptions".into(), "finished".into()), "{}", stage.trouble().await);
    let record = stage.bucket().await;
    assert_eq!(
        record.passes().unwrap_err().to_string(),
        "that it was done was stated by olga, seconded by lena, and not observed"
    );
    assert_eq!(record.actor.name, "olga, seconded by lena");
    assert_eq!(stage.certificate().await.exceptions, 1);
}

/// A retry observes work done by hand, and needs no statement.
#[tokio::test]
async fn a_retry_observes_work_done_by_hand_and_the_certificate_is_complete() {
    let stage = refused_bucket().await;
    stage.world().script(Script { faults: Vec::new(), random: None });

    stage.retry().await;

    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
    let record = stage.bucket().await;
    assert_eq!((record.passes(), record.stated), (Ok(()), None));
    assert!(stage.verified_certificate().await.certificate.unwrap().repairs.is_empty());
}

/// A person states that a key is destroyed: no record shows a decryption attempt, or that a backup is unusable.
#[tokio::test]
async fn a_stated_key_destruction_does_not_certify_that_data_is_unreadable() {
    let stage = Stage::slurm(|_| {}).await;
    let survives = Fault::on("ShredKey", FaultKind::Flawed).times(0);
    stage.script(Fault { verb: Some(Verb::Check), ..survives });
    assert_eq!(stage.to_rest().await, ("Shredding".into(), "parked".into()));

    let body = stage.engine.execution(stage.id).await.unwrap().1.body;
    let slots = body["slots"].as_array().unwrap().clone();
    let slot = slots.iter().position(|slot| slot["settled"]["Err"].is_object()).unwrap();
    let key = "keys//Key/t-acme";
    let keys = body["data"]["targets"].as_array().unwrap().iter().filter(|target| target["kind"] == "key");
    let thing = keys.map(|target| target["thing"].clone()).next().unwrap_or_else(|| json!(key));
    let stream = "logs/eu-west/Stream/audit";
    let kept = json!({ stream: { "key": "somewhere" } });
    let output = json!({ "thing": thing, "decrypt_fails": true, "transcript": "I tried", "kept": kept });
    let slot = u32::try_from(slot).unwrap();
    stage.repair(Repair::MarkDone { slot, output, evidence: "ticket 4711".into() }).await.unwrap();

    let rest = stage.to_rest().await;
    assert_eq!(rest, ("ClosedWithExceptions".into(), "finished".into()), "{}", stage.trouble().await);
    let records = stage.records().await;
    let record = records.iter().find(|record| record.asset.as_str().starts_with("key:")).unwrap();
    assert!(record.stated.is_some() && record.key.is_none() && record.evidence.is_empty(), "{record:?}");
    assert!(!records.iter().any(beyond_use), "its key is not known to be destroyed");
    // The key of retained data was observed before, and differs from the statement.
    let audit = records.iter().find(|record| record.asset.as_str().ends_with(stream)).unwrap();
    let result = format!("{:?}", audit.result);
    assert!(result.contains("under key provider-archive") && !result.contains("somewhere"), "{result}");
}

fn beyond_use(record: &SanitisationRecord) -> bool {
    matches!(&record.result, SanitisationOutcome::NotApplicable { rule, .. } if rule == "backup_beyond_use")
}

/// It came back after the observation.
#[tokio::test]
async fn a_resource_that_the_last_survey_finds_is_no_longer_verified() {
    let stage = Stage::slurm(|_| {}).await;
    just_before(&stage, "VerifyingDismantled").await;
    assert_eq!(stage.bucket().await.result, SanitisationOutcome::SanitisedVerified);
    let bucket: TenantResource = BUCKET.parse().unwrap();
    stage.world().furnish(&bucket, "acme", json!({ "class": "workload" }));
    assert_eq!(stage.to_rest().await, ("VerifyingDismantled".into(), "parked".into()));

    stage.repair(Repair::Skip { slot: None }).await.unwrap();

    let rest = stage.to_rest().await;
    assert_eq!(rest, ("ClosedWithExceptions".into(), "finished".into()), "{}", stage.trouble().await);
    let record = stage.bucket().await;
    assert_eq!(record.result, SanitisationOutcome::Failed { reason: "the verifier still finds it".into() });
    assert_eq!((record.verification, record.validation), (None, None));
}

/// The key came back before the observation: remaining data was not lost with it.
#[tokio::test]
async fn a_backup_is_no_longer_unreadable_once_its_key_is_found_again() {
    let stage = Stage::slurm(|_| {}).await;
    just_before(&stage, "Verifying").await;
    let records = stage.records().await;
    let unreadable = records.iter().find(|record| beyond_use(record)).unwrap();
    let named: Vec<String> = unreadable.observed.values().map(ToString::to_string).collect();
    assert!(named.iter().any(|seen| seen.contains("keys//Key/t-acme")), "its key was destroyed: {named:?}");
    stage.world().furnish(&TenantResource::new("keys", "", "Key", "t-acme"), "acme", json!({}));
    assert_eq!(stage.to_rest().await, ("VerifyingAgain".into(), "parked".into()));

    stage.repair(Repair::Skip { slot: None }).await.unwrap();

    let rest = stage.to_rest().await;
    assert_eq!(rest, ("ClosedWithExceptions".into(), "finished".into()), "{}", stage.trouble().await);
    let records = stage.records().await;
    assert!(!records.iter().any(beyond_use));
    let backup = records.iter().find(|record| record.asset.as_str().starts_with("backup:")).unwrap();
    let result = format!("{:?}", backup.result);
    assert!(result.contains("key t-acme, which was not seen to be gone"), "{result}");
}
