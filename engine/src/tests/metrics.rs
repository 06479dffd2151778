//! Metrics of attempts, and progress of a running attempt.

use crate::tests::one_step::{Bench, OneStep, Reply};
use crate::{
    ActionError, Clock as _, DAY, Engine, HOUR, ManualClock, Metrics, Outcome, Person, Plan, Request, Step,
    Subject, Workflow, await_signal, end,
};
use prometheus_client::{encoding::text::encode_registry, registry::Registry};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use store::{Memory, Timestamp};
use strum::{IntoStaticStr, VariantArray};

fn rendered(registry: &Registry) -> String {
    let mut text = String::new();
    encode_registry(&mut text, registry).unwrap();
    text
}

#[tokio::test]
async fn attempts_are_counted_by_their_cluster() {
    let (bench, mut registry) = (Bench::new(), Registry::default());
    let engine = bench.another().with_metrics(Metrics::register(&mut registry));
    bench.platform.on("dig", [Reply::Fail(ActionError::transient("yard.wet", "it rains"))]);
    engine.start(OneStep::of("acme", "dig"), Request::by(&Person::new("ada", ["ops"]))).await.unwrap();
    engine.run_until_idle().await.unwrap();
    bench.clock.advance(HOUR);
    engine.run_until_idle().await.unwrap();

    let text = rendered(&registry);
    for line in [
        r#"cluster_attempt_seconds_count{cluster="eu-1",result="transient"} 1"#,
        r#"cluster_attempt_seconds_count{cluster="eu-1",result="ok"} 1"#,
        r#"cluster_attempt_seconds_count{cluster="",result="ok"} 1"#,
    ] {
        assert!(text.lines().any(|told| told == line), "{line}: {text}");
    }
}

#[tokio::test]
async fn the_progress_of_an_attempt_is_available_while_it_runs_in_this_process() {
    let bench = Bench::new();
    bench.platform.on("dig", [Reply::Say("2 of 8"), Reply::Gate]);
    let id = bench.start(OneStep::of("acme", "dig")).await;
    assert_eq!(bench.engine.progress_note(id), None, "no attempt is running");

    let work = bench.begin(1).await;

    assert_eq!(bench.engine.progress_note(id).as_deref(), Some("2 of 8"));
    assert_eq!(bench.another().progress_note(id), None, "another process cannot know");
    bench.platform.gate.as_ref().unwrap().add_permits(1);
    work.await.unwrap();
    assert_eq!(bench.engine.progress_note(id), None, "it has ended");
}

/// Waits for a signal, with a promised end in an hour.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Errand {
    by: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
enum At {
    Waiting,
    Done,
}

impl Workflow for Errand {
    const NAME: &'static str = "errand";
    const SCHEMA: u32 = 1;
    const INITIAL: At = At::Waiting;
    type State = At;
    type Platform = ();

    fn step(&self, state: At) -> Step<Self> {
        match state {
            At::Waiting => await_signal("done").within(30 * DAY).then(At::Done).expired(At::Done),
            At::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { name: "errand".into(), ..Subject::default() }
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn promised_by(&self) -> Option<Timestamp> {
        Some(self.by)
    }

    fn examples() -> Vec<Self> {
        vec![Self { by: Timestamp(0) }]
    }
}

#[tokio::test]
async fn a_promise_is_counted_as_kept_or_broken_once_it_has_ended_and_not_before() {
    for (after, kept, broken) in [(HOUR - Duration::from_millis(1), 1, 0), (HOUR, 0, 1)] {
        let clock = Arc::new(ManualClock::starting_at(Timestamp(1_000_000)));
        let mut registry = Registry::default();
        let engine =
            Engine::new(Arc::new(Memory::new()), clock.clone(), ()).with_workflow::<Errand>().unwrap();
        let engine = engine.with_metrics(Metrics::register(&mut registry));
        let errand = Errand { by: clock.now().after(HOUR) };
        let id = engine.start(errand, Request::by(&Person::new("ada", ["ops"]))).await.unwrap().id;
        engine.run_until_idle().await.unwrap();
        clock.advance(after);
        let stands = |kept: u32, broken: u32| {
            let text = rendered(&registry);
            for (result, count) in [("kept", kept), ("broken", broken)] {
                let line = format!(r#"promises_ended_total{{workflow="errand",result="{result}"}} {count}"#);
                assert!(text.lines().any(|told| told == line), "{after:?}: {line}: {text}");
            }
        };
        stands(0, 0);

        engine.signal(id, "done").await.unwrap();
        engine.run_until_idle().await.unwrap();

        stands(kept, broken);
    }
}
