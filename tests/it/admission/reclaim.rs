//! The effects of a reclaim on the account.

use std::time::Duration;
use store::ExecutionId;
use tests::books::account::{self, World, gpus, h100, job, tenant, workspace};
use workflows::{scheduling::admission::*, tenancy::*};

fn by(n: u8) -> ExecutionId {
    ExecutionId::from_bytes([n; 16])
}

fn lent() -> (World, ReclaimDemand) {
    let mut world = World::new(2).with(&[("lender", gpus(8, None, None)), ("borrower", gpus(8, None, None))]);
    for n in 0..4 {
        world.submit(&job("borrower", &format!("b-{n}"), 4)).unwrap();
    }
    let demand = world.submit(&job("lender", "demand", 8)).unwrap();
    assert_eq!(demand.admission.answer, AdmissionVerdict::Queue);
    let [demand] = demand.news.demands.try_into().unwrap();
    (world, demand)
}

fn fencing(demand: &ReclaimDemand, victims: &[&str]) -> Fence {
    let victims = victims.iter().map(ToString::to_string).collect();
    account::fencing(by(7), demand.workspace.as_str(), &demand.workload, victims)
}

#[test]
fn a_demand_within_its_reservation_gets_its_gpus_once_they_are_observed_free() {
    let (mut world, demand) = lent();
    assert_eq!((demand.workspace, demand.wanted), (workspace("lender"), 8));
    let (mut world2, demand) = lent();
    std::mem::swap(&mut world, &mut world2);

    let fenced = world.decide(|view| fence(view, &fencing(&demand, &["b-2", "b-3"]))).unwrap();
    assert_eq!(fenced, FenceOutcome::Done { aside: 0, wanted: 8 });
    let early = world.decide(|view| grant(view, &tenant(), &h100(), by(7))).unwrap();
    assert_eq!(early, GrantOutcome::NotYet { missing: 8, codes: vec![] });

    world.decide(|view| release_victim(view, &tenant(), by(7), "b-3", VictimExit::Evicted)).unwrap();
    assert_eq!((world.balance("lender").in_transit, world.balance("borrower").used), (4, 12));
    world.finish("b-2").unwrap();
    assert_eq!(
        world.balance("lender").in_transit,
        8,
        "a workload that ended by itself is no one else's either"
    );
    assert_eq!(world.workload("b-3").state, WorkloadState::Waiting);

    let granted = world.decide(|view| grant(view, &tenant(), &h100(), by(7))).unwrap();
    let GrantOutcome::Done { admission: Some(admission), spared, .. } = granted else {
        panic!("{granted:?}")
    };
    assert_eq!(admission.answer, AdmissionVerdict::Admit);
    assert!(spared.is_empty());
    assert_eq!(world.balance("lender"), Balance { used: 8, in_transit: 0, ..world.balance("lender") });
    assert!(world.books.all::<Loan>().iter().all(|loan| loan.state == LoanState::Returned));
    assert!(world.cohort().reclaims.is_empty());
}

#[test]
fn a_victim_may_not_borrow_before_its_cool_down_has_ended() {
    let (mut world, demand) = lent();
    world.decide(|view| fence(view, &fencing(&demand, &["b-2", "b-3"]))).unwrap();
    for victim in ["b-2", "b-3"] {
        world.decide(|view| release_victim(view, &tenant(), by(7), victim, VictimExit::Evicted)).unwrap();
    }
    world.decide(|view| grant(view, &tenant(), &h100(), by(7))).unwrap();

    world.finish("demand").unwrap();
    assert_eq!(world.workload("b-2").state, WorkloadState::Waiting);
    world.pass(Duration::from_secs(601));
    world.see();

    assert_eq!(world.workload("b-2").state, WorkloadState::Admitted);
    assert_eq!(world.workload("b-2").evictions, 1);
}

#[test]
fn a_cancelled_reclaim_changes_nothing() {
    let (mut world, demand) = lent();
    world.decide(|view| fence(view, &fencing(&demand, &["b-2", "b-3"]))).unwrap();
    world.decide(|view| release_victim(view, &tenant(), by(7), "b-3", VictimExit::Evicted)).unwrap();

    let ended = world.decide(|view| unfence(view, &tenant(), &h100(), by(7))).unwrap();

    assert_eq!(ended.spared, ["b-2".to_owned()].into());
    assert_eq!(world.workload("b-2").state, WorkloadState::Admitted);
    assert_eq!(world.balance("lender").in_transit, 0);
    assert_eq!(ended.news.demands.len(), 1, "the demand is raised again");
}
