//! Executions that start others, wait for them, and undo them.

mod authority;

use super::{
    household::{Closing, House, Way, bench, house, job},
    job::{Bench, Job, Spec, does, permanent, requester},
};
use engine::{
    Attribution, Child, Clock as _, DAY, Error, Event, HOUR, MINUTE, Outcome, Person, Request, SECOND,
    Started, Verdict, check, diagram,
};
use serde_json::{Value, json};
use store::{ExecutionId, Store as _};

fn order() -> Attribution {
    Attribution { by: "olga".into(), reason: "told to".into() }
}

fn alike(id: ExecutionId) -> Started {
    Started { id, replayed: false }
}

impl Bench {
    async fn children(&self, of: Started) -> Vec<Child> {
        self.engine.children(of.id).await.unwrap()
    }

    /// Returns the ends of the children, as the parent's data has them.
    async fn ends(&self, of: Started) -> Value {
        self.engine.execution(of.id).await.unwrap().1.body["data"]["ends"].clone()
    }

    async fn last_of(&self, of: Started, slot: usize) -> String {
        let body = self.engine.execution(of.id).await.unwrap().1.body;
        body["slots"][slot]["last"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

#[tokio::test]
async fn a_parent_continues_at_once_when_its_children_have_ended() {
    let bench = bench();
    let jobs = ["a", "b", "c"].map(|name| job(name, [does(&[name])]));
    let parent = bench.live(house(Way::Strict, jobs)).await;

    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("completed"));
    assert_eq!(
        bench.ends(parent).await,
        json!(["completed in Done: a", "completed in Done: b", "completed in Done: c"])
    );
    assert_eq!(bench.stage.log(), ["do clean", "do a", "do b", "do c", "do lock"]);
    let children = bench.children(parent).await;
    assert!(children.iter().all(|child| child.outcome == Some(Outcome::Completed)), "{children:?}");
    let (record, shown) = bench.engine.execution(children[1].execution).await.unwrap();
    assert_eq!((record.subject.as_str(), record.requested_by.as_str()), ("job/b", "requester"));
    assert_eq!(shown.body["parent"]["execution"], json!(parent.id));
    let events = bench.events(parent).await;
    assert_eq!(events.iter().filter(|event| *event == "child_started").count(), 3);
}

#[tokio::test]
async fn a_waiting_child_is_named_by_its_parent_without_polling() {
    let bench = bench();
    let parent = bench.live(house(Way::Strict, [job("a", [Spec::Listen])])).await;
    bench.engine.run_until_idle().await.unwrap();
    let child = bench.children(parent).await.remove(0);

    let body = bench.engine.execution(parent.id).await.unwrap().1.body;
    let last = body["slots"][0]["last"]["message"].as_str().unwrap();
    assert!(last.contains(&child.execution.to_string()), "{last}");
    bench.engine.signal(child.execution, "go").await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("completed"));
}

/// A cancellation between the start of the child and the wait of its parent.
#[tokio::test]
async fn a_slot_starts_one_child_however_often_its_worker_crashes() {
    let bench = bench();
    let parent = bench.live(house(Way::Strict, [job("a", [does(&["a"])])])).await;
    bench.engine.work_next().await.unwrap();
    for _ in 0..7 {
        bench.store.lease("dying", bench.clock.now(), SECOND, 10).await.unwrap();
        bench.clock.advance(2 * SECOND);
        bench.engine.work_next().await.unwrap();
    }

    bench.settle(HOUR).await;

    assert_eq!(bench.children(parent).await.len(), 1);
    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("completed"));
    assert_eq!(bench.stage.log(), ["do clean", "do a", "do lock"]);
}

#[tokio::test]
async fn at_most_as_many_children_run_at_once_as_the_step_allows() {
    let bench = bench();
    let jobs = ["a", "b", "c"].map(|name| job(name, [Spec::Listen]));
    let parent = bench.live(house(Way::Strict, jobs)).await;
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.children(parent).await.len(), 2);

    let first = bench.children(parent).await[0].execution;
    bench.engine.signal(first, "go").await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.children(parent).await.len(), 3);
}

#[tokio::test]
async fn a_failed_child_makes_its_parent_and_its_siblings_compensate() {
    let bench = bench();
    bench.stage.on("do b", [permanent()]);
    let jobs = [job("a", [does(&["a"]), Spec::Listen]), job("b", [Spec::Sleep, does(&["b"])])];
    let parent = bench.live(house(Way::Strict, jobs)).await;
    bench.settle(5 * DAY).await;

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("rolled_back"));
    let shown = bench.engine.execution(parent.id).await.unwrap().1.body;
    let cause = shown["phase"]["finished"]["cause"].clone();
    assert_eq!(
        cause["code"],
        json!("child.expired"),
        "the sibling got no signal, and a step ends as its first failure"
    );
    assert_eq!(bench.stage.log(), ["do clean", "do a", "undo b 0", "undo a 0", "undo clean 0"]);
    assert!(bench.engine.open_children(parent.id).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_end_of_a_child_takes_the_edge_that_the_author_declared() {
    let bench = bench();
    let parent = bench.live(house(Way::Strict, [job("a", [Spec::Ask])])).await;
    bench.settle(MINUTE).await;
    let child = bench.children(parent).await.remove(0).execution;
    let case = bench.engine.approval(child).await.unwrap().unwrap();
    let ada = Person::new("ada", ["boss"]);
    bench.engine.vote(child, &ada, Verdict::Refuse, &case.digest, "no").await.unwrap();
    bench.settle(MINUTE).await;

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("rejected"), "on_failure leads to Late");
    assert_eq!(bench.stage.log(), ["do clean", "undo clean 0"]);
}

#[tokio::test]
async fn the_requester_of_a_parent_does_not_decide_on_its_child() {
    let bench = bench();
    let parent = bench.live(house(Way::Strict, [job("a", [Spec::Ask])])).await;
    bench.settle(MINUTE).await;
    let child = bench.children(parent).await.remove(0).execution;
    let case = bench.engine.approval(child).await.unwrap().unwrap();

    let own = bench.engine.vote(child, &requester(), Verdict::Approve, &case.digest, "mine").await;

    assert!(matches!(own, Err(Error::Refused(engine::Refusal::OwnRequest { .. }))), "{own:?}");
}

#[tokio::test]
async fn with_any_end_a_parent_continues_with_its_failed_children_too() {
    let bench = bench();
    bench.stage.on("do b", [permanent()]);
    let parent = bench.live(house(Way::Lenient, [job("a", [does(&["a"])]), job("b", [does(&["b"])])])).await;

    bench.settle(DAY).await;

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("completed"));
    assert_eq!(bench.ends(parent).await, json!(["completed in Done: a", "rolled_back in First: "]));
}

#[tokio::test]
async fn a_cancelled_parent_cancels_its_children_and_waits_for_their_ends() {
    let bench = bench();
    let jobs = [job("a", [does(&["a"]), Spec::Listen]), job("b", [does(&["b"]), Spec::Sleep])];
    let parent = bench.live(house(Way::Strict, jobs)).await;
    bench.engine.run_until_idle().await.unwrap();

    bench.engine.cancel(parent.id, order()).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("cancelled"));
    for child in bench.children(parent).await {
        assert_eq!(child.outcome, Some(Outcome::Cancelled));
        let told = bench.engine.journal(child.execution).await.unwrap();
        assert!(told.iter().any(|entry| entry.actor == format!("execution {}", parent.id)));
    }
    let mut log = bench.stage.log();
    assert_eq!(log.pop().unwrap(), "undo clean 0", "the parent's own work is undone last");
    log.sort();
    assert_eq!(log, ["do a", "do b", "do clean", "undo a 0", "undo b 0"]);
    let left = &bench.engine.execution(parent.id).await.unwrap().1.body["phase"]["finished"]["leaks"];
    assert!(left.is_null(), "{left}");
}

#[tokio::test]
async fn a_child_past_its_pivot_continues_and_its_parent_waits_for_it_and_lists_it() {
    let bench = bench();
    let jobs = [job("a", [Spec::Commit("a".into()), Spec::Listen]), job("b", [does(&["b"]), Spec::Listen])];
    let parent = bench.live(house(Way::Strict, jobs)).await;
    bench.engine.run_until_idle().await.unwrap();
    let child = bench.children(parent).await.remove(0);

    bench.engine.cancel(parent.id, order()).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.stands(parent).await.1, "compensating");
    assert_eq!(bench.last_of(parent, 0).await, "child.goes_on");
    bench.engine.signal(child.execution, "go").await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("cancelled"));
    let shown = bench.engine.execution(parent.id).await.unwrap().1.body;
    let left = shown["phase"]["finished"]["leaks"].as_array().unwrap().clone();
    assert_eq!((left.len(), &left[0]["output"]["child"]), (1, &json!(child.execution)));
    assert_eq!((&left[0]["fate"], &left[0]["output"]["outcome"]), (&json!("kept"), &json!("completed")));
    let journal = bench.engine.journal(parent.id).await.unwrap();
    let told: Value = serde_json::from_slice(&journal.last().unwrap().detail).unwrap();
    assert_eq!(told["left_behind"][0]["output"]["child"], json!(child.execution));
    assert_eq!(bench.stage.log(), ["do clean", "do a", "do b", "undo b 0", "undo clean 0"]);
}

#[tokio::test]
async fn a_parent_waits_for_a_parked_child_until_an_operator_repairs_it() {
    let bench = bench();
    bench.stage.on("undo a 0", std::iter::repeat_n((), 25).map(|()| permanent()).take(1));
    let parent = bench.live(house(Way::Strict, [job("a", [does(&["a"]), Spec::Listen])])).await;
    bench.engine.run_until_idle().await.unwrap();
    let child = alike(bench.children(parent).await.remove(0).execution);

    bench.engine.cancel(parent.id, order()).await.unwrap();
    bench.settle(2 * DAY).await;
    assert_eq!(bench.stands(child).await.1, "parked");
    assert_eq!(bench.stands(parent).await.1, "compensating", "it waits without a limit");
    assert_eq!(bench.last_of(parent, 0).await, "child.parked");
    bench.engine.deliver(child.id, Event::RetryRequested(order())).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("cancelled"));
}

#[tokio::test]
async fn a_terminated_parent_lists_its_open_children_and_cancels_them() {
    for way in [Way::Strict, Way::Forward] {
        let bench = bench();
        let jobs =
            [job("a", [does(&["a"]), Spec::Listen]), job("b", [Spec::Commit("b".into()), Spec::Listen])];
        let parent = bench.live(house(way, jobs)).await;
        bench.engine.run_until_idle().await.unwrap();

        bench.engine.deliver(parent.id, Event::TerminateRequested(order())).await.unwrap();
        let shown = bench.engine.execution(parent.id).await.unwrap().1.body;
        let leaks = shown["phase"]["finished"]["leaks"].as_array().unwrap().clone();
        let about: Vec<_> = leaks.iter().map(|leak| &leak["arguments"]["subject"]).collect();
        assert!(about.contains(&&json!("job/a")) && about.contains(&&json!("job/b")), "{leaks:?}");
        bench.engine.run_until_idle().await.unwrap();

        let children = bench.children(parent).await;
        assert_eq!(children[0].outcome, Some(Outcome::Cancelled));
        assert_eq!(children[1].outcome, None, "it is past its pivot, and continues");
    }
}

#[tokio::test]
async fn a_child_with_a_taken_guard_waits_and_names_the_holder() {
    let bench = bench();
    let guarded = |name: &str, steps| Job { guard: Some("the kitchen".into()), ..job(name, [steps]) };
    let holder = bench.engine.start(guarded("x", Spec::Listen), Request::by(&requester())).await.unwrap();
    let parent = bench.live(house(Way::Strict, [guarded("a", does(&["a"]))])).await;
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.last_of(parent, 0).await, "child.guard_taken");
    let body = bench.engine.execution(parent.id).await.unwrap().1.body;
    let message = body["slots"][0]["last"]["message"].as_str().unwrap();
    assert!(message.contains(&holder.id.to_string()), "{message}");
    bench.engine.signal(holder.id, "go").await.unwrap();
    bench.settle(HOUR).await;

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("completed"));
}

#[tokio::test]
async fn a_parent_that_times_out_cancels_its_children() {
    let bench = bench();
    let jobs = [job("a", [does(&["a"]), Spec::Sleep, Spec::Listen, Spec::Listen])];
    let parent = bench.live(house(Way::Strict, jobs)).await;
    bench.settle(MINUTE).await;
    let child = bench.children(parent).await.remove(0).execution;
    bench.settle(DAY).await;
    bench.engine.signal(child, "go").await.unwrap();

    bench.settle(5 * DAY).await;

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("rolled_back"));
    assert_eq!(bench.children(parent).await[0].outcome, Some(Outcome::Cancelled));
}

#[tokio::test]
async fn a_retry_past_the_pivot_starts_another_child_only_for_the_failed_one() {
    let bench = bench();
    bench.stage.on("do b", [permanent()]);
    let parent = bench.live(house(Way::Forward, [job("a", [does(&["a"])]), job("b", [does(&["b"])])])).await;
    bench.settle(HOUR).await;
    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("past_pivot_failure"));

    bench.engine.deliver(parent.id, Event::RetryRequested(order())).await.unwrap();
    bench.settle(HOUR).await;

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("completed"));
    let slots: Vec<_> =
        bench.children(parent).await.iter().map(|child| (child.parent.slot, child.parent.attempt)).collect();
    assert_eq!(slots, [(0, 1), (1, 1), (1, 2)]);
    assert_eq!(bench.ends(parent).await, json!(["completed in Done: a", "completed in Done: b"]));
}

#[tokio::test]
async fn a_paused_parent_processes_the_end_of_a_child_on_resume() {
    let bench = bench();
    let parent = bench.live(house(Way::Strict, [job("a", [Spec::Listen])])).await;
    bench.engine.run_until_idle().await.unwrap();
    let child = bench.children(parent).await.remove(0).execution;
    bench.engine.deliver(parent.id, Event::PauseRequested(order())).await.unwrap();
    bench.engine.signal(child, "go").await.unwrap();
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.stands(parent).await.1, "paused");

    bench.engine.deliver(parent.id, Event::ResumeRequested(order())).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(parent).await.2.as_deref(), Some("completed"));
}

#[test]
fn the_diagram_of_a_parent_shows_the_workflows_that_it_starts() {
    assert_eq!(check::<House>(), []);
    assert_eq!(check::<Closing>(), []);
    let drawn = diagram::<House>().mermaid(None);
    assert!(drawn.contains("Strictly --> Locking : start job"), "{drawn}");
    assert!(drawn.contains("note right of Strictly : undo cancel child"), "{drawn}");
    assert!(drawn.contains("note right of Onward : no way back from here"), "{drawn}");
}

/// Records of versions without children have no such field, and are still written without it.
#[tokio::test]
async fn an_execution_without_a_parent_has_an_unchanged_stored_form() {
    let bench = bench();
    let alone = bench.start([does(&["a"])]).await;

    let body = bench.engine.execution(alone.id).await.unwrap().1.body;

    assert!(body.get("parent").is_none(), "{body}");
}
