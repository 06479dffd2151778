//! Certificates that one commit cannot hold.

use super::{keys::just_before, stage::Stage};
use engine::{ActionError, Attribution, Event, TaskRef};
use workflows::destruction::certificate::{certificate_file, verify};

/// Such executions were parked by versions that wrote a certificate in one commit.
#[tokio::test]
async fn an_offboarding_that_was_parked_because_its_certificate_was_too_large_ends_after_a_retry() {
    let stage = Stage::slurm(|_| {}).await;
    just_before(&stage, "Certifying").await;
    let visit = stage.engine.execution(stage.id).await.unwrap().1.body["visit"].as_u64().unwrap();
    let ticket = TaskRef { visit: u32::try_from(visit).unwrap(), slot: 0 };
    let error = ActionError::unknown("commit.too_large", "the commit is too large");
    stage.engine.deliver(stage.id, Event::CommitRefused { ticket, error }).await.unwrap();
    assert_eq!(stage.to_rest().await, ("Certifying".into(), "parked".into()));

    let order = Attribution { by: "olga".into(), reason: "the limit is gone".into() };
    stage.engine.deliver(stage.id, Event::RetryRequested(order)).await.unwrap();

    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
    let id = stage.id;
    let file = stage.engine.transact(false, |view| certificate_file(view, id)).await.unwrap().unwrap();
    let problems = verify(file.as_bytes(), &[]).problems;
    assert!(problems.iter().all(|problem| problem.field.starts_with("signatures")), "{problems:?}");
}
