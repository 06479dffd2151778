//! Two versions at work on one store at the same time, as while servers are replaced one by one. S58.

use super::{Bench, First, Recipient, Third};
use crate::{
    Attribution, Engine, Error, Event, MINUTE, Options, Person, Refusal, Request, SECOND, Workflow,
    runtime::version_routing::VersionRouting,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use store::{ExecutionId, Store as _};

impl Bench {
    /// An engine that asks others for up to so long.
    fn relaying<W: Workflow<Platform = ()>>(&self, within: Duration) -> Engine<()> {
        self.engine::<W>().with_options(Options { relay: Some(within), ..Options::default() })
    }

    async fn third(&self, new: &Engine<()>) -> ExecutionId {
        let data = Third { recipient: Recipient { name: "ada".into(), region: None } };
        new.start(data, Request::by(&Person::new("ada", ["staff"]))).await.unwrap().id
    }

    /// What `told` answers while `other` works, and time passes.
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
            () = working => unreachable!("it works for ever"),
        }
    }
}

fn pause() -> Event {
    Event::PauseRequested(Attribution { by: "olga".into(), reason: String::new() })
}

/// A server that cannot work on a task does not keep those who can from it.
#[tokio::test]
async fn what_only_the_other_version_can_work_on_is_handed_back_for_a_moment() {
    let bench = Bench::new();
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let third = bench.third(&new).await;
    for pause in [100, 200, 400] {
        assert_eq!(old.run_until_idle().await.unwrap(), 1);
        bench.clock.advance(Duration::from_millis(pause - 1));
        assert_eq!(old.run_until_idle().await.unwrap(), 0, "it is put off for {pause} ms");
        bench.clock.advance(Duration::from_millis(1));
    }

    assert_eq!(new.run_until_idle().await.unwrap(), 1);

    assert_eq!(new.record(third).await.unwrap().state, "AtDoor");
    let elsewhere: &Arc<VersionRouting> = &old.inner.version_routing;
    assert!(elsewhere.yields(old.clock().now()).is_some(), "others go first for a while");
    assert!(new.inner.version_routing.yields(new.clock().now()).is_none());
}

/// The same of what stands in a state that the later version has no more.
#[tokio::test]
async fn what_stands_in_a_state_that_is_gone_is_left_to_the_version_that_has_it() {
    let bench = Bench::new();
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let person = Person::new("ada", ["staff"]);
    let first = old.start(First { to: "bob".into() }, Request::by(&person)).await.unwrap().id;
    old.run_until_idle().await.unwrap();
    bench.clock.advance(crate::DAY);

    assert_eq!(new.run_until_idle().await.unwrap(), 1, "its deadline");
    bench.clock.advance(Duration::from_millis(100));
    assert_eq!(old.run_until_idle().await.unwrap(), 2, "its deadline, and the way back");

    assert_eq!(old.record(first).await.unwrap().reason.as_deref(), Some("expired"));
}

/// A person speaks to a server of the earlier version about what the later has taken over.
#[tokio::test]
async fn what_one_version_cannot_take_the_other_takes_for_it() {
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
        "answers are taken away"
    );
    assert_eq!(bench.store.tasks(third).await.unwrap(), []);
}

/// What nobody takes is taken back, and never takes effect.
#[tokio::test]
async fn what_nobody_takes_in_time_is_refused_and_never_takes_effect() {
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

/// Whoever asks may be of another version than whoever begins.
#[tokio::test]
async fn what_is_asked_for_in_an_earlier_shape_is_begun_in_todays_and_a_later_one_is_left_to_others() {
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

/// Votes are for a plan, by its digest: an upgrade that leaves the plan as it was does not void them.
#[tokio::test]
async fn a_plan_keeps_its_name_through_an_upgrade() {
    let bench = Bench::new();
    let (old, new) = (bench.engine::<First>(), bench.engine::<Third>());
    let [one, ..] = bench.all().await;
    let before = old.execution(one).await.unwrap().1.digest;

    assert_eq!(new.execution(one).await.unwrap().1.digest, before, "as it is read");
    new.migrate(None, "olga").await.unwrap();

    assert_eq!(new.record(one).await.unwrap().schema, 3);
    assert_eq!(new.execution(one).await.unwrap().1.digest, before, "as it is written");
}
