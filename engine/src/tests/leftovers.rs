//! Leftovers of a termination are listed until they are undone.

use crate::tests::one_step::{Bench, OneStep, Reply};
use crate::{
    ActionError, Attribution, CommandResult, DAY, Error, Event, MINUTE, Refusal, RetentionPolicy, leftovers,
    parse_filter,
};
use std::{collections::BTreeSet, time::Duration};
use store::{ExecutionId, Timestamp};

fn order(by: &str) -> Attribution {
    Attribution { by: by.into(), reason: "a test".into() }
}

/// Returns the execution `dig`, terminated after its first action.
async fn terminated(bench: &Bench) -> ExecutionId {
    let busy = || Reply::Fail(ActionError::transient("yard.busy", "told to"));
    bench.platform.on("end dig", (0..50).map(|_| busy()));
    let id = bench.start(OneStep::of("acme", "dig")).await;
    bench.settle(Duration::from_secs(1)).await;
    bench.engine.deliver(id, Event::TerminateRequested(order("olga"))).await.unwrap();
    id
}

async fn found(bench: &Bench, filter: &str) -> Vec<ExecutionId> {
    let query = if filter.is_empty() { leftovers() } else { parse_filter(filter, Timestamp(0)).unwrap() };
    let found = bench.engine.search(&query, None, 10).await.unwrap();
    found.items.into_iter().map(|record| record.id).collect()
}

#[tokio::test]
async fn leftovers_of_a_termination_are_stuck_until_they_are_released() {
    let bench = Bench::new();
    let id = terminated(&bench).await;
    assert_eq!(found(&bench, "").await, [id]);
    assert_eq!(found(&bench, "stuck").await, [id], "an operator must act on it");

    bench.engine.deliver(id, Event::LeftoversReleased(order("olga"))).await.unwrap();
    bench.settle(MINUTE).await;

    assert!(bench.platform.begun().contains(&"undo dig".to_owned()), "{:?}", bench.platform.begun());
    assert_eq!(bench.stands(id).await, "terminated");
    assert_eq!((found(&bench, "").await, found(&bench, "stuck").await), (vec![], vec![]));
    let again = bench.engine.deliver(id, Event::LeftoversReleased(order("olga"))).await;
    assert!(matches!(again, Err(Error::Refused(Refusal::Finished))), "{again:?}");
}

#[tokio::test]
async fn a_release_that_fails_is_stuck_until_it_succeeds() {
    let bench = Bench::new();
    let id = terminated(&bench).await;
    bench.platform.on("undo dig", [Reply::Fail(ActionError::permanent("yard.locked", "told to"))]);

    bench.engine.deliver(id, Event::LeftoversReleased(order("olga"))).await.unwrap();
    bench.settle(MINUTE).await;
    assert_eq!(
        (bench.stands(id).await.as_str(), found(&bench, "stuck").await),
        ("compensation_blocked", vec![id])
    );
    bench.engine.deliver(id, Event::RetryRequested(order("olga"))).await.unwrap();
    bench.settle(MINUTE).await;

    assert_eq!((bench.stands(id).await.as_str(), found(&bench, "stuck").await), ("terminated", vec![]));
}

#[tokio::test]
async fn a_release_waits_for_a_second_person_if_policy_requires_one() {
    let bench = Bench::new();
    let id = terminated(&bench).await;
    let options =
        crate::Options { second_person: ["release".to_owned()].into(), ..crate::Options::default() };
    let engine = bench.another().with_options(options);

    let asked = engine.command(id, Event::LeftoversReleased(order("olga")), None).await.unwrap();
    let CommandResult::Proposed(proposal) = asked else { panic!("{asked:?}") };
    assert_eq!(found(&bench, "").await, [id], "nothing is released yet");
    let own = engine.approve_proposal(&proposal.id, "olga").await;
    assert!(matches!(own, Err(Error::Refused(Refusal::SamePerson { .. }))), "{own:?}");
    engine.approve_proposal(&proposal.id, "rita").await.unwrap();
    bench.settle(MINUTE).await;

    assert_eq!((bench.stands(id).await.as_str(), found(&bench, "").await), ("terminated", vec![]));
}

#[tokio::test]
async fn an_execution_is_retained_while_it_has_leftovers_or_its_tenant_has_a_hold() {
    let bench = Bench::new();
    let id = terminated(&bench).await;
    bench.clock.advance(DAY * 500);
    let expire = |held: &[&str]| {
        let held: BTreeSet<String> = held.iter().map(|tenant| (*tenant).to_owned()).collect();
        let keep = RetentionPolicy { default: Some(DAY * 400), held, ..RetentionPolicy::default() };
        let engine = bench.engine.clone();
        async move {
            let found = engine.expire(&keep, |_, _| true, None, 10, true).await.unwrap();
            found.examined.iter().map(|one| one.kept_reason.is_some()).collect::<Vec<_>>()
        }
    };

    assert_eq!(expire(&[]).await, [true], "something is left of it");
    bench.engine.deliver(id, Event::LeftoversReleased(order("olga"))).await.unwrap();
    bench.settle(DAY * 500).await;
    assert_eq!(expire(&["acme"]).await, [true], "its tenant is under a hold");
    assert_eq!(expire(&[]).await, [false]);
    assert!(bench.engine.record(id).await.is_err());
}
