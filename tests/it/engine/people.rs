//! Approvals: voters, plans, and deadlines.

use super::job::{Bench, Spec, does, requester};
use engine::{ApprovalRecord, DAY, Error, Event, MINUTE, Person, PlanDigest, Refusal, Started, Verdict};
use store::Timestamp;

fn boss(name: &str) -> Person {
    Person::new(name, ["boss"])
}

async fn asked(bench: &Bench) -> (Started, ApprovalRecord) {
    let job = bench.start([does(&["a"]), Spec::Ask, does(&["b"])]).await;
    bench.settle(MINUTE).await;
    let case = bench.engine.approval(job.id).await.unwrap().unwrap();
    (job, case)
}

async fn vote(
    bench: &Bench,
    job: Started,
    by: &Person,
    verdict: Verdict,
    digest: &PlanDigest,
) -> Result<(), Refusal> {
    match bench.engine.vote(job.id, by, verdict, digest, "words").await {
        Ok(_) => Ok(()),
        Err(Error::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn two_different_approvers_must_agree_and_the_requester_is_neither() {
    let bench = Bench::new();
    let (job, case) = asked(&bench).await;

    let own = vote(&bench, job, &requester(), Verdict::Approve, &case.digest).await;
    assert!(matches!(own, Err(Refusal::OwnRequest { .. })));
    vote(&bench, job, &boss("ada"), Verdict::Approve, &case.digest).await.unwrap();
    let twice = vote(&bench, job, &boss("ada"), Verdict::Approve, &case.digest).await;
    assert!(matches!(twice, Err(Refusal::VotedBefore { .. })));
    let clerk = vote(&bench, job, &Person::new("cleo", ["clerk"]), Verdict::Approve, &case.digest).await;
    assert!(matches!(clerk, Err(Refusal::NotEntitled { .. })));
    bench.settle(MINUTE).await;
    assert_eq!(bench.stands(job).await.0, "Second");

    vote(&bench, job, &boss("bob"), Verdict::Approve, &case.digest).await.unwrap();
    bench.settle(MINUTE).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
    let kept = bench.engine.approval_record(&case.id).await.unwrap().unwrap();
    assert_eq!(
        (kept.ruling.as_deref(), kept.votes.len()),
        (Some("granted"), 2),
        "votes are stored after the approval"
    );
    assert!(bench.engine.approvals(None, 10).await.unwrap().items.is_empty());
}

/// S35.
#[tokio::test]
async fn one_refusal_is_enough_and_everything_done_is_undone() {
    let bench = Bench::new();
    let (job, case) = asked(&bench).await;

    vote(&bench, job, &boss("ada"), Verdict::Refuse, &case.digest).await.unwrap();
    bench.settle(DAY).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("refused"));
    assert_eq!(bench.stage.log(), ["do a", "undo a 0"]);
}

#[tokio::test]
async fn a_vote_for_an_outdated_plan_is_refused() {
    let bench = Bench::new();
    let (job, _) = asked(&bench).await;

    let old = PlanDigest("sha256:00".into());
    let late = vote(&bench, job, &boss("ada"), Verdict::Approve, &old).await;

    assert!(matches!(late, Err(Refusal::PlanChanged { .. })));
}

#[tokio::test]
async fn an_approval_that_expires_never_counts_as_granted() {
    let bench = Bench::new();
    let (job, case) = asked(&bench).await;
    vote(&bench, job, &boss("ada"), Verdict::Approve, &case.digest).await.unwrap();

    bench.settle(2 * DAY).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("expired"));
    assert!(vote(&bench, job, &boss("bob"), Verdict::Approve, &case.digest).await.is_err());
}

/// The timer that ends an approval may fire late, after a night without a server.
#[tokio::test]
async fn a_vote_after_the_deadline_does_not_count_even_if_its_timer_is_late() {
    let bench = Bench::new();
    let (job, case) = asked(&bench).await;
    vote(&bench, job, &boss("ada"), Verdict::Approve, &case.digest).await.unwrap();
    bench.clock.advance(2 * DAY);

    let late = vote(&bench, job, &boss("bob"), Verdict::Approve, &case.digest).await;

    assert!(matches!(late, Err(Refusal::TooLate { .. })));
    bench.settle(MINUTE).await;
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("expired"));
}

/// S38: at the millisecond of the deadline the deadline wins, whichever is delivered first; a millisecond earlier the vote
/// wins.
#[tokio::test]
async fn of_a_last_vote_and_a_deadline_in_the_same_millisecond_exactly_one_counts() {
    for (early, deadline_first) in [(false, true), (false, false), (true, true), (true, false)] {
        let bench = Bench::new();
        let (job, case) = asked(&bench).await;
        vote(&bench, job, &boss("ada"), Verdict::Approve, &case.digest).await.unwrap();
        let (_, shown) = bench.engine.execution(job.id).await.unwrap();
        let visit = u32::try_from(shown.body["visit"].as_u64().unwrap()).unwrap();
        let Timestamp(at) = case.deadline.unwrap();
        bench.clock.advance_to(Timestamp(at - u64::from(early)));
        let deadline = async || drop(bench.engine.deliver(job.id, Event::DeadlinePassed { visit }).await);
        let bob = boss("bob");
        let last = async || vote(&bench, job, &bob, Verdict::Approve, &case.digest).await.is_ok();

        let counted = if deadline_first {
            deadline().await;
            last().await
        } else {
            let counted = last().await;
            deadline().await;
            counted
        };

        assert_eq!(counted, early);
        bench.settle(MINUTE).await;
        let expected = if early { "completed" } else { "expired" };
        assert_eq!(bench.stands(job).await.2.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn a_ruling_reached_while_paused_takes_effect_when_resumed() {
    let bench = Bench::new();
    let (job, case) = asked(&bench).await;
    let order = || engine::Attribution { by: "olga".into(), reason: String::new() };
    bench.engine.deliver(job.id, Event::PauseRequested(order())).await.unwrap();
    vote(&bench, job, &boss("ada"), Verdict::Approve, &case.digest).await.unwrap();
    vote(&bench, job, &boss("bob"), Verdict::Approve, &case.digest).await.unwrap();
    bench.settle(2 * DAY).await;
    assert_eq!(
        bench.stands(job).await.1,
        "paused",
        "the deadline passed after the ruling and changes nothing"
    );

    bench.engine.deliver(job.id, Event::ResumeRequested(order())).await.unwrap();
    bench.settle(MINUTE).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
}
