//! The engine adds no measurable time to actions.

use crate::tests::one_step::{Bench, OneStep};
use crate::{
    Execution, Workflow as _, core::known_step::KnownStep, runtime::adapter::execution_cache::ExecutionCache,
};
use std::time::Duration;
use store::{ExecutionId, Record, Revision, Timestamp};
use tokio::time::{Instant, timeout};

#[tokio::test(start_paused = true)]
async fn a_step_takes_no_longer_than_its_action() {
    let bench = Bench::new();
    let begun = Instant::now();

    let id = bench.start(OneStep::of("acme", "dig")).await;
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(id).await, "completed");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn attempts_at_keys_that_limit_nothing_do_not_wait_for_each_other() {
    let bench = Bench::new();
    let keys = ["tenant/acme", "action/dig", "cluster/eu-1", "yard/all"];
    let id = bench.start(OneStep::of("acme", "dig")).await;
    // Simulates another attempt that is acquiring them.
    let other = bench.engine.inner.limits.lock_keys(keys.into_iter()).await;

    timeout(Duration::from_secs(60), bench.engine.work_next()).await.expect("it does not wait").unwrap();

    assert_eq!(bench.platform.begun(), ["dig"]);
    drop(other);
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.stands(id).await, "completed");
}

fn record(body: &[u8]) -> Record {
    Record {
        id: ExecutionId::new(Timestamp(1), [0; 10]),
        revision: Revision(1),
        workflow: OneStep::NAME.into(),
        schema: OneStep::SCHEMA,
        tenant: "acme".into(),
        subject: String::new(),
        guard: None,
        state: String::new(),
        phase: String::new(),
        reason: None,
        open: true,
        requested_by: "ada".into(),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
        attributes: store::Attributes::new(),
        body: body.to_vec(),
    }
}

#[test]
fn a_cached_execution_is_used_once_and_only_for_the_same_bytes() {
    let decoded = ExecutionCache::<OneStep>::default();
    let execution =
        || (Execution::new(OneStep::of("acme", "dig"), "ada", Timestamp(1)), KnownStep::default());
    decoded.insert(&record(b"one"), execution());
    assert!(decoded.take(&record(b"one")).is_some());
    assert!(decoded.take(&record(b"one")).is_none(), "it has been taken");

    decoded.insert(&record(b"one"), execution());
    assert!(decoded.take(&record(b"two")).is_none());
    let earlier = Record { schema: 0, ..record(b"one") };
    decoded.insert(&earlier, execution());
    assert!(decoded.take(&earlier).is_none(), "another schema is decoded in another way");
}
