//! Which requests are admitted, queued or rejected, and why.

use tests::books::account::{World, gpus, job};
use workflows::tenancy::*;

#[test]
fn idle_gpus_are_lent_and_each_loan_has_a_row() {
    let mut world = World::new(2).with(&[("a", gpus(8, None, None)), ("b", gpus(8, Some(6), None))]);

    let own = world.submit(&job("b", "own", 8)).unwrap();
    let more = world.submit(&job("b", "more", 5)).unwrap();
    let too_many = world.submit(&job("b", "too-many", 2)).unwrap();

    assert_eq!(own.admission.answer, AdmissionVerdict::Admit);
    assert_eq!(more.admission.answer, AdmissionVerdict::Admit, "{:#?}", more.admission.weighed);
    assert_eq!(too_many.admission.answer, AdmissionVerdict::Queue);
    let loans = world.books.all::<Loan>();
    assert_eq!(loans.len(), 1);
    assert_eq!((loans[0].lender.as_str(), loans[0].borrower.as_str(), loans[0].amount), ("a", "b", 5));
    assert_eq!(loans[0].workload, "more");
    assert_eq!((world.balance("a").lent, world.balance("b").borrowed), (5, 5));
    assert_eq!(world.workload("own").placed.len(), 1, "eight fit on one node");
}

#[test]
fn freed_gpus_go_to_queued_workloads_in_the_same_commit() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
    world.submit(&job("a", "first", 8)).unwrap();
    assert_eq!(world.submit(&job("a", "second", 8)).unwrap().admission.answer, AdmissionVerdict::Queue);

    let finished = world.finish("first").unwrap();

    assert_eq!(finished.news.admitted.len(), 1);
    assert_eq!(world.workload("second").state, WorkloadState::Admitted);
    assert_eq!(world.balance("a").used, 8);
}

#[test]
fn a_repeated_request_returns_the_decision_in_force() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
    let first = world.submit(&job("a", "x", 4)).unwrap();

    let again = world.submit(&job("a", "x", 4)).unwrap();

    assert_eq!(again.admission, first.admission);
    assert_eq!(world.balance("a").used, 4);
    assert_eq!(world.submit(&job("a", "x", 5)).unwrap_err().code, "workload.differs");
}
