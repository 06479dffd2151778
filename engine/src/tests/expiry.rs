//! Idempotency keys are retained while they are used, and expire afterwards.

use crate::tests::one_step::{Bench, OneStep, Reply};
use crate::{ActionError, DAY, Event, MINUTE, Person, Request, Started};
use std::collections::BTreeSet;
use store::Store as _;

async fn ask(bench: &Bench, key: &str, earlier: Option<&str>) -> Started {
    let request = Request::by(&Person::new("ada", ["ops"]))
        .with_idempotency_key(key, "the same")
        .with_earlier_key(earlier.map(str::to_owned));
    bench.engine.start(OneStep::of("acme", "dig"), request).await.unwrap()
}

async fn keys(bench: &Bench) -> usize {
    bench.store.documents("requests", "", None, 10).await.unwrap().items.len()
}

#[tokio::test]
async fn a_used_key_is_never_removed_and_an_unused_one_is_removed_after_30_days() {
    let bench = Bench::new();
    // Parked: it does not continue by itself.
    bench.platform.on("undo dig", [Reply::Fail(ActionError::permanent("yard.locked", "told to"))]);
    bench.platform.on("end dig", [Reply::Fail(ActionError::permanent("yard.locked", "told to"))]);
    let first = ask(&bench, "a", None).await;
    bench.settle(MINUTE).await;
    bench.clock.advance(DAY * 400);
    let none = BTreeSet::new();

    assert_eq!(bench.engine.expire_own_documents(&none).await.unwrap(), 0, "its execution is open");
    assert_eq!(ask(&bench, "a", None).await, Started { id: first.id, replayed: true });
    let order = crate::Attribution { by: "olga".into(), reason: "a test".into() };
    bench.engine.deliver(first.id, Event::RetryRequested(order)).await.unwrap();
    bench.settle(MINUTE).await;
    let held = BTreeSet::from(["acme".to_owned()]);
    assert_eq!(bench.engine.expire_own_documents(&held).await.unwrap(), 0, "its tenant is under a hold");
    assert_eq!(bench.engine.expire_own_documents(&none).await.unwrap(), 1);
    assert_eq!(keys(&bench).await, 0);

    let second = ask(&bench, "b", None).await;
    bench.settle(MINUTE).await;
    bench.clock.advance(DAY * 29);
    assert_eq!(bench.engine.expire_own_documents(&none).await.unwrap(), 0, "it is younger than 30 days");
    assert_eq!(ask(&bench, "b", None).await, Started { id: second.id, replayed: true });
}

#[tokio::test]
async fn a_request_that_an_earlier_version_accepted_is_not_accepted_again_under_its_new_key() {
    let bench = Bench::new();
    let first = ask(&bench, "event//a/b/1", None).await;

    let again = ask(&bench, "event//a%2Fb/1", Some("event//a/b/1")).await;
    assert_eq!(again, Started { id: first.id, replayed: true });
    let request = Request::by(&Person::new("ada", ["ops"]))
        .with_idempotency_key("event//a/b%2F1", "another one")
        .with_earlier_key(Some("event//a/b/1".into()));
    let other = bench.engine.start(OneStep::of("acme", "other"), request).await.unwrap();
    assert!(!other.replayed, "the old key belonged to another request");
}
