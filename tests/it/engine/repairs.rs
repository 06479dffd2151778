//! Repairs: the commands of operators for an execution that cannot continue by itself, and their limits.

use super::job::{Bench, Job, Reply, Spec, does, permanent};
use engine::{ActionError, Attribution, CommandResult, Error, Event, Options, Refusal, Repair, Started};
use serde_json::{Value, json};
use store::{Record, Store as _};

fn repaired(repair: Repair) -> Event {
    Event::Repaired { repair, order: Attribution { by: "ops".into(), reason: "as the ticket says".into() } }
}

fn done(slot: u32, output: &str) -> Repair {
    Repair::MarkDone { slot, output: json!(output), evidence: "ticket 7".into() }
}

fn data(record: &Record) -> Value {
    serde_json::from_slice(&record.body).unwrap()
}

impl Bench {
    /// Returns a job past its pivot whose next step fails permanently.
    async fn parked(&self) -> Started {
        self.stage.on("do b", [permanent()]);
        let started = self.start([Spec::Commit("a".into()), does(&["b", "c"])]).await;
        self.engine.run_until_idle().await.unwrap();
        assert_eq!(self.stands(started).await.2.as_deref(), Some("past_pivot_failure"));
        started
    }

    /// Returns a job that is undoing, and whose undo of `a` fails permanently.
    async fn blocked(&self) -> Started {
        self.stage.on("undo a 0", (0..100).map(|_| permanent()));
        self.stage.on("do c", [permanent()]);
        let started = self.start([does(&["a", "b"]), does(&["c"])]).await;
        self.settle(2 * engine::DAY).await;
        assert_eq!(self.stands(started).await.2.as_deref(), Some("compensation_blocked"));
        started
    }

    async fn repair(&self, started: Started, repair: Repair) -> Result<(), Refusal> {
        match self.engine.deliver(started.id, repaired(repair)).await {
            Ok(_) => Ok(()),
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn work_done_by_hand_is_marked_as_done_with_evidence_and_its_result_is_used() {
    let bench = Bench::new();
    let started = bench.parked().await;

    bench.repair(started, done(0, "b by hand")).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(started).await.0, "Done");
    let record = bench.engine.record(started.id).await.unwrap();
    assert_eq!(data(&record)["data"]["noted"], json!(["a", "b by hand", "c"]));
    assert_eq!(bench.stage.log().iter().filter(|line| *line == "do b").count(), 0);
}

#[tokio::test]
async fn every_repair_is_in_the_history_with_user_reason_and_both_values() {
    let bench = Bench::new();
    let started = bench.parked().await;

    bench.repair(started, done(0, "b by hand")).await.unwrap();

    let journal = bench.engine.journal(started.id).await.unwrap();
    let entry = journal.iter().find(|entry| entry.event == "repaired").unwrap();
    let detail: Value = serde_json::from_slice(&entry.detail).unwrap();
    assert_eq!(entry.actor, "ops");
    assert_eq!(detail["event"]["repaired"]["repair"]["evidence"], "ticket 7");
    assert_eq!(detail["event"]["repaired"]["order"]["reason"], "as the ticket says");
    assert_eq!(detail["mended"]["before"]["phase"]["parked"]["reason"], "past_pivot_failure");
    assert_eq!(detail["mended"]["after"]["data"]["noted"], json!(["a", "b by hand", "c"]));
}

#[tokio::test]
async fn a_result_that_the_workflow_cannot_parse_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    let started = bench.parked().await;
    let before = bench.engine.record(started.id).await.unwrap();

    let wrong = Repair::MarkDone { slot: 0, output: json!({ "not": "a name" }), evidence: "x".into() };
    let refused = [
        bench.repair(started, wrong).await,
        bench.repair(started, done(1, "c")).await,
        bench.repair(started, done(9, "c")).await,
        bench.repair(started, Repair::MarkDone { slot: 0, output: json!("b"), evidence: " ".into() }).await,
    ];

    let fields: Vec<_> = refused
        .into_iter()
        .map(|refused| match refused {
            Err(Refusal::BadRepair { field, .. }) => field,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(fields, ["output", "slot", "slot", "evidence"]);
    assert_eq!(bench.engine.record(started.id).await.unwrap(), before);
}

/// S45: the history has old and new input, the user and the reason. Attempts start again, and the rest of the run uses
/// the result.
#[tokio::test]
async fn a_step_is_retried_with_other_data_under_a_new_key() {
    let bench = Bench::new();
    let busy = (0..2).map(|_| Reply::Fail(ActionError::transient("stage.busy", "told to")));
    bench.stage.on("do b", busy);
    let started = bench.start([does(&["a"]), does(&["b"])]).await;
    bench.engine.run_until_idle().await.unwrap();
    let keys = || bench.stage.keys.lock().unwrap().clone();
    let before = keys().last().unwrap().0.clone();

    let patch = json!({ "steps": [{ "Do": ["a"] }, { "Do": ["b2"] }] });
    bench.repair(started, Repair::Edit { patch }).await.unwrap();
    bench.settle(engine::HOUR).await;

    assert_eq!(bench.stands(started).await.0, "Done");
    assert_eq!(bench.stage.log(), ["do a", "do b2"]);
    let after = keys().last().unwrap().clone();
    assert_eq!(after, (format!("{before}.1"), 1), "another key, and its first attempt");
    let journal = bench.engine.journal(started.id).await.unwrap();
    let entry = journal.iter().find(|entry| entry.event == "repaired").unwrap();
    let detail: Value = serde_json::from_slice(&entry.detail).unwrap();
    assert_eq!(detail["mended"]["before"]["data"]["steps"][1], json!({ "Do": ["b"] }));
    assert_eq!(detail["mended"]["after"]["data"]["steps"][1], json!({ "Do": ["b2"] }));
}

#[tokio::test]
async fn work_started_before_and_after_an_edit_is_undone() {
    let bench = Bench::new();
    bench.stage.on("do b", [Reply::Fail(ActionError::transient("stage.busy", "told to"))]);
    bench.stage.on("do c", [permanent()]);
    let started = bench.start([does(&["b"]), does(&["c"])]).await;
    bench.engine.run_until_idle().await.unwrap();

    let patch = json!({ "steps": [{ "Do": ["b2"] }, { "Do": ["c"] }] });
    bench.repair(started, Repair::Edit { patch }).await.unwrap();
    bench.settle(engine::HOUR).await;

    assert_eq!(bench.stands(started).await.2.as_deref(), Some("rolled_back"));
    let log = bench.stage.log();
    for undo in ["undo b 0", "undo b2 0"] {
        assert_eq!(log.iter().filter(|line| *line == undo).count(), 1, "{undo} in {log:?}");
    }
    let keys: std::collections::BTreeSet<_> =
        bench.stage.keys.lock().unwrap().iter().map(|(key, _)| key.clone()).collect();
    assert!(keys.iter().filter(|key| key.contains("/undo")).count() >= 2, "{keys:?}");
}

#[tokio::test]
async fn an_edit_cannot_change_completed_work_or_the_subject_of_an_execution() {
    let bench = Bench::new();
    let started = bench.parked().await;
    let edit = |patch: Value| Repair::Edit { patch };
    let steps = |second: Value| json!({ "steps": [{ "Commit": "a" }, { "Do": second }] });

    for (patch, why) in [
        (steps(json!(["b", "other"])), "which is already done"),
        (steps(json!(["b", "c", "d"])), "how many actions"),
        (json!({ "name": "another" }), "change the subject"),
        (json!({ "colour": "red" }), "no field colour"),
        (json!({ "steps": 7 }), "invalid type"),
        (json!([]), "must be an object"),
    ] {
        let refused = bench.repair(started, edit(patch.clone())).await.unwrap_err();
        assert!(refused.to_string().contains(why), "{patch}: {refused}");
    }
    bench.repair(started, edit(steps(json!(["b2", "c"])))).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(started).await.0, "Done");
    assert_eq!(bench.stage.log().iter().filter(|line| *line == "do c").count(), 1, "done once");
}

#[tokio::test]
async fn a_step_can_be_skipped_only_if_its_author_allows_it() {
    let bench = Bench::new();
    let started = bench.parked().await;

    let refused = bench.repair(started, Repair::Skip { slot: None }).await.unwrap_err();

    assert!(matches!(&refused, Refusal::Unrepairable { why } if why.contains("not optional")), "{refused}");
}

#[tokio::test]
async fn a_skipped_undo_leaves_its_work_on_the_list_of_leftovers() {
    let bench = Bench::new();
    let started = bench.blocked().await;

    bench.repair(started, Repair::Skip { slot: Some(0) }).await.unwrap();
    bench.settle(engine::DAY).await;

    let (state, phase, reason) = bench.stands(started).await;
    assert_eq!((phase.as_str(), reason.as_deref()), ("finished", Some("rolled_back")), "{state}");
    let left = data(&bench.engine.record(started.id).await.unwrap())["phase"]["finished"]["leaks"].clone();
    assert_eq!(left[0]["action"], "Do");
    assert_eq!(left[0]["arguments"]["name"], "a");
    assert_eq!(left.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn work_that_was_undone_by_hand_counts_as_undone() {
    let bench = Bench::new();
    let started = bench.blocked().await;

    bench.repair(started, done(0, "")).await.unwrap();
    bench.settle(engine::DAY).await;

    let record = bench.engine.record(started.id).await.unwrap();
    assert_eq!(record.reason.as_deref(), Some("rolled_back"));
    assert_eq!(data(&record)["phase"]["finished"]["leaks"], Value::Null);
}

#[tokio::test]
async fn another_undo_runs_under_its_own_key_if_the_workflow_declares_it() {
    let bench = Bench::new();
    let started = bench.blocked().await;
    let with = |undo: &str, arguments: Value| Repair::UndoWith { slot: 0, undo: undo.into(), arguments };

    let unknown = bench.repair(started, with("Burn", json!({}))).await.unwrap_err();
    let unreadable = bench.repair(started, with("Undo", json!({ "name": 7 }))).await.unwrap_err();
    bench
        .repair(started, with("Undo", json!({ "name": "a-as-it-is-called-there", "seen": 9 })))
        .await
        .unwrap();
    bench.settle(engine::DAY).await;

    assert!(unknown.to_string().contains("no such undo"), "{unknown}");
    assert!(matches!(unreadable, Refusal::BadRepair { field: "undo", .. }), "{unreadable}");
    assert_eq!(bench.stands(started).await.2.as_deref(), Some("rolled_back"));
    assert!(bench.stage.log().contains(&"undo a-as-it-is-called-there 9".to_owned()));
    let keys = bench.stage.keys.lock().unwrap().clone();
    assert!(keys.iter().any(|(key, _)| key.ends_with("/undo.1")), "{keys:?}");
}

#[tokio::test]
async fn a_command_that_needs_a_second_person_takes_effect_when_another_agrees() {
    let bench = Bench::new();
    let started = bench.parked().await;
    let second_person = ["mark_done".to_owned()].into();
    let engine = bench.engine.clone().with_options(Options { second_person, ..Options::default() });

    let alone = engine.deliver(started.id, repaired(done(0, "b"))).await;
    let CommandResult::Proposed(proposal) =
        engine.command(started.id, repaired(done(0, "b")), None).await.unwrap()
    else {
        panic!("it took effect")
    };
    let own = engine.approve_proposal(&proposal.id, "ops").await;
    let twice = engine.command(started.id, repaired(done(0, "c")), None).await;
    let wrong = engine.command(started.id, repaired(done(7, "c")), None).await;
    assert_eq!(bench.stands(started).await.1, "parked");
    engine.approve_proposal(&proposal.id, "eve").await.unwrap();
    let again = engine.approve_proposal(&proposal.id, "eve").await;

    assert!(matches!(alone, Err(Error::NeedsSecond { command: "mark_done" })), "{alone:?}");
    assert!(matches!(own, Err(Error::Refused(Refusal::SamePerson { .. }))), "{own:?}");
    assert!(matches!(twice, Err(Error::Refused(Refusal::Already(_)))), "{twice:?}");
    assert!(matches!(wrong, Err(Error::Refused(Refusal::BadRepair { .. }))), "{wrong:?}");
    assert!(matches!(again, Err(Error::NoProposal { .. })), "{again:?}");
    let journal = engine.journal(started.id).await.unwrap();
    let entry = journal.iter().rfind(|entry| entry.event == "repaired").unwrap();
    let detail: Value = serde_json::from_slice(&entry.detail).unwrap();
    assert_eq!((entry.actor.as_str(), &detail["event"]["seconded"]["by"]), ("ops", &json!("eve")));
}

#[tokio::test]
async fn a_proposal_is_void_once_the_execution_has_moved_on() {
    let bench = Bench::new();
    let started = bench.parked().await;
    let second_person = ["mark_done".to_owned()].into();
    let engine = bench.engine.clone().with_options(Options { second_person, ..Options::default() });
    let CommandResult::Proposed(proposal) =
        engine.command(started.id, repaired(done(0, "b")), None).await.unwrap()
    else {
        panic!("it took effect")
    };
    bench.stage.on("do b", [permanent()]);
    let order = Attribution { by: "ops".into(), reason: String::new() };
    engine.deliver(started.id, Event::RetryRequested(order)).await.unwrap();
    engine.run_until_idle().await.unwrap();

    let late = engine.approve_proposal(&proposal.id, "eve").await;

    assert!(matches!(late, Err(Error::Store(store::Error::Conflict { .. }))), "{late:?}");
    assert_eq!(bench.stands(started).await.1, "parked");
}

#[tokio::test]
async fn a_preview_changes_nothing() {
    let bench = Bench::new();
    let started = bench.parked().await;
    let before = bench.store.load(started.id).await.unwrap();

    let preview = bench.engine.preview(started.id, repaired(done(0, "b by hand"))).await.unwrap();

    assert_eq!((preview.state.as_str(), preview.phase.as_str()), ("Done", "finished"));
    assert_eq!(preview.data["noted"], json!(["a", "b by hand", "c"]));
    assert_eq!(bench.store.load(started.id).await.unwrap(), before);
}

/// A temporary failure of a probe does not resolve an unknown outcome. The simulation found a double payment here.
#[tokio::test]
async fn an_unknown_outcome_stays_unknown_while_its_probe_has_no_answer() {
    let bench = Bench::new();
    let steps = [Spec::Once("pay".into())];
    bench.stage.on("do pay", [Reply::Fail(ActionError::unknown("stage.reset", "told to"))]);
    bench.stage.unsure("pay", 1);
    let started =
        bench.engine.start(Job::of(steps), engine::Request::by(&super::job::requester())).await.unwrap();
    bench.settle(engine::HOUR).await;

    let (_, phase, reason) = bench.stands(started).await;
    let tried = bench.stage.keys.lock().unwrap().len();
    assert_eq!((phase.as_str(), reason.as_deref(), tried), ("parked", Some("outcome_unknown"), 1));
}

/// The commit that parks an execution also notifies the operators.
#[tokio::test]
async fn parking_is_notified_once_by_the_commit_that_parks() {
    let bench = Bench::new();
    let started = bench.parked().await;

    let told = bench.store.documents("notifications", "", None, 10).await.unwrap().items;

    let told: Vec<Value> = told.iter().map(|found| serde_json::from_slice(&found.body).unwrap()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["kind"], &told[0]["to"]), (&json!("execution.parked"), &json!(["platform_ops"])));
    assert_eq!(told[0]["about"], started.id.to_string());
    assert!(told[0]["text"].as_str().unwrap().contains("past_pivot_failure"), "{told:?}");
}
