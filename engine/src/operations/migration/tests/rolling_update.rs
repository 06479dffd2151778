//! Two versions on one store at the same time, as in a rolling update. S58.

use super::{Bench, First, Recipient, Third};
use crate::{
    Attribution, Engine, Error, Event, MINUTE, Options, Person, Refusal, Request, SECOND, Workflow,
    runtime::version_routing::VersionRouting,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use store::{ExecutionId, Store as _};

impl Bench {
    /// Returns an engine that relays events for up to this long.
    fn relaying<W: Workflow<Platform = ()>>(&self, within: Duration) -> Engine<()> {
        self.engine::<W>().with_options(Options { relay: Some(within), ..Options::default() })
    }

    async fn third(&self, new: &Engine<()>) -> ExecutionId {
        let data = Third { recipient: Recipient { name: "ada".into(), region: None } };
        new.start(data, Request::by(&Person::new("ada", ["staff"]))).await.unwrap().id
    }

    /// Returns the result of the future, which runs while `other` works and time passes.
    async fn while_working<T>(&self, other: &Engine<()>, told: impl Future<Output = T>) -> T {
        let working = async {
            loop {
                other.run_until_idle().await.unwrap();
                self.clock.advance(Duration::from_millis(10));
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = told => answer,
            () = working => unreachable!("it works forever"),
        }
    }
}

fn pause() -> Event {
    Event::PauseRequested(Attribution { by: "olga".into(), reason: String::new() })
}

/// A server that cannot run a task does not block a server that can.
#[tokio::test]
async fn a_task_of_the_other_version_is_returned_for_a_short_time() {
    let bench = Bench::new();
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let third = bench.third(&new).await;
    for pause in [100, 200, 400] {
        assert_eq!(old.run_until_idle().await.unwrap(), 1);
        bench.clock.advance(Duration::from_millis(pause - 1));
        assert_eq!(old.run_until_idle().await.unwrap(), 0, "it is deferred for {pause} ms");
        bench.clock.advance(Duration::from_millis(1));
    }

    assert_eq!(new.run_until_idle().await.unwrap(), 1);

    assert_eq!(new.record(third).await.unwrap().state, "AtDoor");
    let elsewhere: &Arc<VersionRouting> = &old.inner.version_routing;
    assert!(elsewhere.yields(old.clock().now()).is_some(), "others lease first for a while");
    assert!(new.inner.version_routing.yields(new.clock().now()).is_none());
}

/// The same for an execution in a state that the later version has removed.
#[tokio::test]
async fn an_execution_in_a_removed_state_is_left_to_the_version_that_has_it() {
    let bench = Bench::new();
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let person = Person::new("ada", ["staff"]);
    let first = old.start(First { to: "bob".into() }, Request::by(&person)).await.unwrap().id;
    old.run_until_idle().await.unwrap();
    bench.clock.advance(crate::DAY);

    assert_eq!(new.run_until_idle().await.unwrap(), 1, "its deadline");
    bench.clock.advance(Duration::from_millis(100));
    assert_eq!(old.run_until_idle().await.unwrap(), 2, "its deadline, and the compensation");

    assert_eq!(old.record(first).await.unwrap().reason.as_deref(), Some("expired"));
}

/// A person sends a command to an older server about an execution that the newer one has upgraded.
#[tokio::test]
async fn an_event_for_the_other_version_is_relayed_to_it() {
    let bench = Bench::new();
    let (old, new) = (bench.relaying::<First>(10 * SECOND), bench.engine::<Third>());
    let third = bench.third(&new).await;
    new.run_until_idle().await.unwrap();

    let shown = old.execution(third).await.unwrap().1;
    assert_eq!(shown.body["data"], json!({ "recipient": { "name": "ada", "region": null } }));
    let revision = bench.while_working(&new, old.deliver(third, pause())).await.unwrap();
    let paused = new.record(third).await.unwrap();
    assert_eq!((paused.revision, paused.phase.as_str()), (revision, "paused"));

    let refused = bench.while_working(&new, old.deliver(third, pause())).await.unwrap_err();
    let Error::Refused(Refusal::Elsewhere { code, said }) = &refused else { panic!("{refused:?}") };
    assert_eq!((code.as_str(), said.as_str()), ("execution.already", "the execution is already paused"));
    let resume = Event::ResumeRequested(Attribution { by: "olga".into(), reason: String::new() });
    let stale = store::Revision(revision.0 - 1);
    let late = bench.while_working(&new, old.deliver_at(third, resume.clone(), stale)).await;
    assert!(matches!(&late, Err(Error::Store(store::Error::Conflict { .. }))), "{late:?}");
    bench.while_working(&new, old.deliver_at(third, resume, revision)).await.unwrap();
    bench.while_working(&new, old.signal(third, "taken")).await.unwrap();

    assert_eq!(new.record(third).await.unwrap().reason.as_deref(), Some("completed"));
    assert_eq!(
        bench.store.documents("relayed", "", None, 10).await.unwrap().items,
        [],
        "answers are removed"
    );
    assert_eq!(bench.store.tasks(third).await.unwrap(), []);
}

/// A message that is not delivered in time is withdrawn, and never takes effect.
#[tokio::test]
async fn an_event_that_is_not_relayed_in_time_is_refused_and_never_takes_effect() {
    let bench = Bench::new();
    let (old, new) = (bench.relaying::<First>(SECOND), bench.engine::<Third>());
    let third = bench.third(&new).await;
    new.run_until_idle().await.unwrap();

    let refused = bench.while_working(&old, old.deliver(third, pause())).await;
    assert!(matches!(refused, Err(Error::NoWorker { .. })), "{refused:?}");
    bench.clock.advance(MINUTE);
    new.run_until_idle().await.unwrap();

    assert_eq!(new.record(third).await.unwrap().phase, "forward");
    let alone = bench.engine::<First>().deliver(third, pause()).await;
    assert!(matches!(alone, Err(Error::NoWorker { .. })), "{alone:?}");
}

/// The sender of a start may have another version than the engine that starts it.
#[tokio::test]
async fn input_of_an_earlier_schema_is_upgraded_and_input_of_a_later_one_is_left_to_others() {
    let bench = Bench::new();
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let person = Person::new("ada", ["staff"]);

    let begun = new.start(First { to: "bob".into() }, Request::by(&person)).await.unwrap().id;
    let data = Third { recipient: Recipient { name: "ada".into(), region: None } };
    let refused = old.start(data, Request::by(&person)).await;

    let (record, shown) = new.execution(begun).await.unwrap();
    assert_eq!(record.schema, 3);
    assert_eq!(shown.body["data"], json!({ "recipient": { "name": "bob", "region": null } }));
    assert!(matches!(refused, Err(Error::NoWorker { schema: 3, .. })), "{refused:?}");
}

/// A vote is for the digest of a plan. An upgrade that does not change the plan keeps its votes.
#[tokio::test]
async fn a_plan_keeps_its_digest_through_an_upgrade() {
    let bench = Bench::new();
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let [one, ..] = bench.all().await;
    let before = old.execution(one).await.unwrap().1.digest;

    assert_eq!(new.execution(one).await.unwrap().1.digest, before, "as it is read");
    new.migrate(None, "olga").await.unwrap();

    assert_eq!(new.record(one).await.unwrap().schema, 3);
    assert_eq!(new.execution(one).await.unwrap().1.digest, before, "as it is written");
}
