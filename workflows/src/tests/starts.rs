//! Failed starts are retried, and a failed start does not block a reclaim.

use super::books::{Books, seen, tenant};
use crate::{
    reclaim::Reclaim,
    scheduling::admission,
    tenancy::{FailedStart, Workload},
    workload_start::{RecordFailedStart, StartProblem, WorkloadStart, try_again},
};
use engine::{HOUR, MINUTE, Notification, diagram};
use std::time::Duration;
use store::ExecutionId;

fn fails(books: &mut Books, tries: u32) {
    let record = RecordFailedStart {
        tenant: tenant(),
        workload: "train".into(),
        decision: None,
        problem: StartProblem::Failed { tries },
    };
    books.decide(|view| record.record(view, ExecutionId::from_bytes([u8::try_from(tries).unwrap(); 16])));
}

fn sweep(books: &mut Books) -> bool {
    books.decide(|view| try_again(view, &tenant(), "train"))
}

fn pending(books: &Books) -> Option<FailedStart> {
    books.find::<FailedStart>(&Workload::key(&tenant(), "train"))
}

#[test]
fn a_failed_start_of_an_admitted_workload_is_retried_after_growing_pauses() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "train", 8);
    let mut paused = Duration::ZERO;
    for tries in 1..=6 {
        fails(&mut books, tries);
        let failed = pending(&books).unwrap();
        assert!(failed.next_at.since(books.now) > paused, "the pause grows");
        paused = failed.next_at.since(books.now);
        assert!(!sweep(&mut books), "it is not due");

        books.now = failed.next_at;
        assert!(sweep(&mut books), "it is tried again");
        assert_eq!(pending(&books), None, "once");
        assert_eq!(WorkloadStart::after(&failed).tries, tries);
    }
    let told = books.all::<Notification>();
    let told: Vec<_> = told.iter().filter(|one| one.kind == "workload.not_started").collect();
    assert_eq!(told.len(), 1, "people are told once: {told:?}");
    assert!(FailedStart::pause(1_000) <= HOUR * 6);
}

#[test]
fn the_start_of_an_ended_workload_is_not_retried() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "train", 8);
    fails(&mut books, 1);
    books.decide(|view| admission::finish(view, &tenant(), "train"));
    books.now = books.now.after(MINUTE * 2);

    assert!(!sweep(&mut books));
    assert_eq!(pending(&books), None);
    fails(&mut books, 2);
    assert_eq!(pending(&books), None, "nor is a failure recorded after its end");
}

#[test]
fn a_failed_start_of_an_earlier_admission_does_not_count_for_the_present_one() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "train", 8);
    let fails = |decision: String| RecordFailedStart {
        tenant: tenant(),
        workload: "train".into(),
        decision: Some(decision),
        problem: StartProblem::Failed { tries: 1 },
    };
    let (earlier, stands) =
        (fails("acme/of-an-earlier-admission".into()), fails(books.workload("train").decision));

    books.decide(|view| earlier.record(view, ExecutionId::from_bytes([4; 16])));
    assert_eq!(pending(&books), None);
    books.decide(|view| stands.record(view, ExecutionId::from_bytes([5; 16])));
    assert_eq!(pending(&books).map(|failed| failed.decision), Some(books.workload("train").decision));
}

#[test]
fn a_failed_start_is_forgotten_once_the_workload_is_observed_running() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "train", 8);
    fails(&mut books, 1);
    books.observe(&[seen("train", "n-0", &[0, 1, 2, 3, 4, 5, 6, 7])]);
    books.now = books.now.after(HOUR);

    assert!(!sweep(&mut books), "it runs");
    assert_eq!(pending(&books), None);
}

#[test]
fn a_failed_start_ends_its_execution_only_after_the_failure_is_recorded() {
    let starts = diagram::<WorkloadStart>();
    let into: Vec<_> = starts.edges.iter().filter(|edge| edge.to == "NotStarted").collect();
    assert_eq!(into.iter().map(|edge| edge.from.as_str()).collect::<Vec<_>>(), ["RecordingFailure"]);
}

/// A cluster step after the grant of a reclaim may fail permanently. The grant stays, and the next reclaim of that resource can start.
#[test]
fn the_cluster_cannot_park_a_reclaim_after_its_grant() {
    let edges = diagram::<Reclaim>().edges;
    for state in ["Starting", "Requeueing"] {
        let leads_on = edges.iter().any(|edge| edge.from == state && edge.label == "failed");
        assert!(leads_on, "{state} has no way on when it fails");
    }
    for code in ["object.missing", "platform.unsupported"] {
        assert!(edges.iter().any(|edge| edge.from == "Starting" && edge.label == code), "{code}");
    }
}

/// Between its grant and its start a demand may end, be evicted, or get other nodes. The start therefore reads the ledger just before it.
#[test]
fn no_workload_is_started_before_its_admission_is_confirmed() {
    let (start, reclaim) = (diagram::<WorkloadStart>(), diagram::<Reclaim>());
    for (diagram, confirmed) in [(start, "Choosing"), (reclaim, "Confirming")] {
        let into = diagram.edges.iter().filter(|edge| edge.to == "Starting");
        let from: Vec<_> = into.map(|edge| edge.from.as_str()).collect();
        assert_eq!(from, [confirmed], "{}", diagram.workflow);
        let confirming = diagram.states.iter().find(|state| state.name == "Confirming").unwrap();
        assert_eq!(confirming.actions, ["ConfirmAdmission"], "{}", diagram.workflow);
    }
}

#[test]
fn a_demand_unknown_to_its_cluster_keeps_its_gpus_and_operators_are_notified() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "train", 8);
    let missing = RecordFailedStart {
        tenant: tenant(),
        workload: "train".into(),
        decision: Some(books.workload("train").decision),
        problem: StartProblem::NotInCluster,
    };
    books.decide(|view| missing.record(view, ExecutionId::from_bytes([3; 16])));

    assert!(books.all::<Notification>().iter().any(|one| one.kind == "workload.not_in_cluster"));
    assert_eq!(pending(&books), None, "it runs when its owner submits it");
    assert_eq!(books.booked("train", "n-0").len(), 8);
}
