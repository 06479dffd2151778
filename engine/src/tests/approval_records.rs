//! The documents of approvals: alarms over restarts, the journal, notifications, reviews.

use crate::tests::one_approval::{Question, START, person};
use crate::{
    Attribution, BreakGlass, DAY, Engine, Entity, Error, Escalation, HOUR, ManualClock, Notification,
    PlanDigest, Procedure, Refusal, Reminders, Request, Review, ReviewDone, Seat, Verdict, Vote,
};
use std::sync::Arc;
use store::{Commit, ExecutionId, Key, Memory, Put, Store};

struct Bench {
    store: Arc<Memory>,
    clock: Arc<ManualClock>,
    id: ExecutionId,
}

impl Bench {
    async fn of(procedure: Procedure) -> Self {
        Self::with(Question::held_by(procedure)).await
    }

    async fn with(question: Question) -> Self {
        let (store, clock) = (Arc::new(Memory::new()), Arc::new(ManualClock::starting_at(START)));
        let mut bench = Self { store, clock, id: ExecutionId::from_bytes([0; 16]) };
        let request = Request::by(&person("rita", &["ops"]));
        bench.id = bench.engine().start(question, request).await.unwrap().id;
        bench
    }

    /// Creates an engine as after a process start.
    fn engine(&self) -> Engine<()> {
        Engine::new(self.store.clone(), self.clock.clone(), ()).with_workflow::<Question>().unwrap()
    }

    /// Lets time pass in steps, with a new engine for each.
    async fn pass(&self, hours: u32) {
        for _ in 0..hours {
            self.clock.advance(HOUR);
            self.engine().run_until_idle().await.unwrap();
        }
    }

    async fn events(&self) -> Vec<String> {
        self.engine().journal(self.id).await.unwrap().into_iter().map(|entry| entry.event).collect()
    }

    async fn told(&self) -> Vec<Notification> {
        let page = self.store.documents("notifications", "", None, 100).await.unwrap();
        page.items.iter().map(|found| serde_json::from_slice(&found.body).unwrap()).collect()
    }

    /// Returns the notifications of these kinds.
    async fn told_of(&self, kind: &str) -> Vec<Notification> {
        self.told().await.into_iter().filter(|told| told.kind == kind).collect()
    }

    /// Removes notifications, as after their delivery.
    async fn delivered(&self) -> Vec<Notification> {
        let told = self.told().await;
        let done = |told: &Notification| Put { key: Key::new("notifications", &told.id), body: None };
        let documents = told.iter().map(done).collect();
        self.store.commit(Commit { documents, ..Commit::default() }).await.unwrap();
        told
    }

    async fn digest(&self) -> PlanDigest {
        self.engine().approval(self.id).await.unwrap().unwrap().digest
    }

    async fn break_glass(&self, name: &str) -> Result<(), Error> {
        let vote = Vote {
            break_glass: true,
            ..Vote::new(person(name, &["breakglass"]), Verdict::Approve, "the rack is burning", START)
        };
        let digest = self.digest().await;
        self.engine().deliver(self.id, crate::Event::Voted { vote, digest }).await.map(|_| ())
    }
}

fn all() -> Procedure {
    Procedure {
        escalate: vec![Escalation { after: 6 * HOUR, seats: vec![Seat::new("lead", 1)] }],
        extend: Some(12 * HOUR),
        remind: Reminders { before: vec![2 * HOUR], every: None },
        break_glass: None,
    }
}

/// Deadlines survive restarts and fire once. Each has one journal entry and one notification.
#[tokio::test]
async fn every_alarm_is_journalled_and_notified_once_over_restarts() {
    let bench = Bench::of(all()).await;

    let mut told = Vec::new();
    for _ in 0..40 {
        bench.pass(1).await;
        told.extend(bench.delivered().await);
    }

    assert_eq!(
        bench.events().await,
        ["started", "escalated", "reminded", "extended", "reminded", "deadline_passed", "passed"]
    );
    let told: Vec<_> = told.into_iter().map(|told| (told.kind, told.to, told.id)).collect();
    let case = format!("{}.1", bench.id);
    let lead = || vec!["lead".to_owned()];
    let expected = ["escalated", "reminder", "extended", "reminder"].into_iter().enumerate();
    let between = expected.map(|(n, kind)| (format!("approval.{kind}"), lead(), format!("{case}.{n}")));
    let first = ("approval.opened".to_owned(), vec!["ops".to_owned()], format!("{case}.opened"));
    let last = ("approval.expired".to_owned(), lead(), format!("{case}.closed"));
    let expected: Vec<_> = [first].into_iter().chain(between).chain([last]).collect();
    assert_eq!(told, expected);
    let kept = bench.engine().approval_record(&case).await.unwrap().unwrap();
    assert_eq!((kept.ruling.as_deref(), kept.history.len()), (Some("expired"), 4));
}

/// An engine after a long downtime applies the missed events in order, once each.
#[tokio::test]
async fn alarms_missed_during_a_downtime_are_applied_once() {
    let bench = Bench::of(all()).await;
    bench.clock.advance(25 * HOUR);

    bench.engine().run_until_idle().await.unwrap();
    bench.engine().run_until_idle().await.unwrap();

    let case = bench.engine().approval(bench.id).await.unwrap().unwrap();
    assert_eq!(case.deadline, Some(START.after(36 * HOUR)));
    assert_eq!(bench.told().await.len(), 4, "opened, escalated, reminded, extended");
    assert_eq!(bench.store.next_due().await.unwrap(), Some(START.after(34 * HOUR)), "and the next is set");
}

/// Approvers of an earlier plan are notified of the change, and asked again.
#[tokio::test]
async fn approvers_who_are_asked_again_are_notified_that_the_plan_has_changed() {
    let bench = Bench::with(Question { drifts: true, ..Question::plain() }).await;
    let agree = |digest: PlanDigest| {
        let engine = bench.engine();
        async move {
            for name in ["ada", "bob"] {
                let voter = person(name, &["ops"]);
                engine.vote(bench.id, &voter, Verdict::Approve, &digest, "fine").await.unwrap();
            }
        }
    };
    let first = bench.digest().await;
    agree(first.clone()).await;
    bench.engine().signal(bench.id, "go").await.unwrap();
    bench.engine().run_until_idle().await.unwrap();

    let told = bench.told_of("approval.plan_changed").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].to, ["ops"]);
    assert_eq!(bench.told_of("approval.opened").await.len(), 1, "they get one notification, not two");
    let again = bench.digest().await;
    assert_ne!(again, first);
    let late = bench.engine().vote(bench.id, &person("ada", &["ops"]), Verdict::Approve, &first, "").await;
    assert!(matches!(late, Err(Error::Refused(Refusal::PlanChanged { .. }))), "{late:?}");
    agree(again).await;
    assert_eq!(bench.told_of("approval.plan_changed").await.len(), 1);
    assert_eq!(bench.told_of("approval.granted").await.len(), 2);
}

/// Votes, including withdrawn ones, outlive the execution.
#[tokio::test]
async fn the_closed_approval_lists_withdrawn_votes() {
    let bench = Bench::of(Procedure::default()).await;
    let (engine, digest) = (bench.engine(), bench.digest().await);
    let yes = |name: &'static str| {
        let (engine, digest) = (&engine, &digest);
        async move { engine.vote(bench.id, &person(name, &["ops"]), Verdict::Approve, digest, "fine").await }
    };
    yes("ada").await.unwrap();
    let order = |by: &str| Attribution { by: by.into(), reason: "not so fast".into() };
    engine.withdraw_vote(bench.id, order("ada")).await.unwrap();
    let none = engine.withdraw_vote(bench.id, order("ada")).await;
    assert!(matches!(none, Err(Error::Refused(Refusal::NoVote { .. }))));
    yes("bob").await.unwrap();
    yes("ada").await.unwrap();

    let kept = engine.approval_record(&format!("{}.1", bench.id)).await.unwrap().unwrap();
    assert_eq!((kept.ruling.as_deref(), kept.votes.len(), kept.history.len()), (Some("granted"), 2, 1));
    assert_eq!(bench.events().await, ["started", "voted", "vote_withdrawn", "voted", "voted"]);
    let told: Vec<_> = bench.told().await.into_iter().map(|told| (told.kind, told.tenant)).collect();
    let of = |kind: &str| (format!("approval.{kind}"), "acme".to_owned());
    // In the order of ids; the last two votes have the same time.
    assert_eq!(told, [of("granted"), of("opened"), of("voted")], "no further notifications are sent");
}

/// Break-glass sends a notification and is listed until another person has reviewed it.
#[tokio::test]
async fn break_glass_is_notified_and_listed_until_another_person_has_reviewed_it() {
    let glass = BreakGlass { any_of: vec!["breakglass".into()], reason_at_least: 10, destroys: false };
    let bench = Bench::of(Procedure { break_glass: Some(glass), ..Procedure::default() }).await;

    bench.break_glass("bea").await.unwrap();

    let told = bench.told_of("approval.glass_broken").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].to, ["ops", "security"]);
    let open = bench.engine().reviews(None, 10).await.unwrap().items;
    let [review] = &open[..] else { panic!("{open:?}") };
    assert_eq!((review.by.as_str(), review.requested_by.as_str()), ("bea", "rita"));

    let later = START.after(DAY);
    for own in ["bea", "rita"] {
        assert_eq!(review.clone().complete(own, &[], "fine", later).unwrap_err().code, "review.own");
    }
    let stands = crate::tests::one_approval::mandate("bea", "dan", START, later);
    assert_eq!(review.clone().complete("dan", &[stands], "fine", later).unwrap_err().code, "review.own");
    assert_eq!(review.clone().complete("sam", &[], " ", later).unwrap_err().code, "review.note_missing");
    bench
        .engine()
        .transact(true, |view| {
            let review = view.require::<Review>(&review.approval)?;
            let done = review.complete("sam", &[], "it did burn", later)?;
            view.delete::<Review>(&done.id())?;
            view.put(&done)
        })
        .await
        .unwrap();
    assert!(bench.engine().reviews(None, 10).await.unwrap().items.is_empty());
    let key = Key::new(ReviewDone::COLLECTION, &review.approval);
    assert!(bench.store.document(&key).await.unwrap().is_some(), "and is kept");
}

/// Break-glass during a pause is notified when it is used, and not again when it takes effect.
#[tokio::test]
async fn break_glass_during_a_pause_is_notified_once() {
    let glass = BreakGlass { any_of: vec!["breakglass".into()], reason_at_least: 10, destroys: false };
    let bench = Bench::of(Procedure { break_glass: Some(glass), ..Procedure::default() }).await;
    let order = || Attribution { by: "olga".into(), reason: String::new() };
    let deliver = |event| {
        let engine = bench.engine();
        async move { engine.deliver(bench.id, event).await.unwrap() }
    };
    deliver(crate::Event::PauseRequested(order())).await;
    bench.break_glass("bea").await.unwrap();
    bench
        .engine()
        .transact(true, |view| {
            let review = view.get::<Review>(&format!("{}.1", bench.id))?.unwrap();
            view.delete::<Review>(&review.id())
        })
        .await
        .unwrap();

    deliver(crate::Event::ResumeRequested(order())).await;

    assert!(bench.engine().reviews(None, 10).await.unwrap().items.is_empty(), "it is not opened again");
    assert_eq!(bench.events().await, ["started", "pause_requested", "voted", "resume_requested"]);
}

#[cfg(feature = "testing")]
mod sweep {
    use crate::tests::one_approval::Question;
    use crate::{
        Workflow,
        testing::{Scenario, World, verify},
    };
    use serde_json::Value;
    use std::collections::BTreeMap;
    use store::Key;

    struct Plain;

    impl Scenario<Question> for Plain {
        fn name(&self) -> String {
            "a question that is escalated and extended".into()
        }

        fn data(&self) -> Question {
            Question::examples().remove(0)
        }

        fn world(&self) -> World<()> {
            World { platform: (), documents: vec![], collections: vec![] }
        }

        fn snapshot(&self, (): &(), _: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
            BTreeMap::new()
        }
    }

    /// The fault sweep also leaves approvals undecided, so that it takes the edges of escalation and extension.
    #[tokio::test]
    async fn a_sweep_takes_the_edges_of_escalation_and_extension() {
        let report = verify::<Question>(&[&Plain]).await.unwrap();
        assert!(report.passed(), "{report}\n{:?}\n{:?}", report.violations, report.uncovered());
        let taken = |label: &str| report.taken_edges.iter().any(|edge| edge.label == label);
        assert!(taken("escalated") && taken("extended"));
    }
}
