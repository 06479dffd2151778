//! Workloads observed on other GPUs than planned.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tests::books::account::{World, gpus, h100, job, tenant};
use workflows::{scheduling::admission::*, tenancy::*};

fn fact(workload: &str, node: &NodeId, of: std::ops::Range<u16>) -> SeenWorkload {
    let gpu = |index| SeenGpu { uuid: format!("GPU-{node}-{index}"), index: Some(index) };
    SeenWorkload {
        workload: workload.to_owned(),
        uid: None,
        node: node.clone(),
        node_uid: None,
        kind: None,
        count: None,
        gpus: of.map(gpu).collect(),
        since: None,
    }
}

/// Observes all nodes. As many GPUs are busy as the facts list for the workloads there.
fn observe(world: &mut World, running: &[SeenWorkload]) -> ObservationResult {
    world.pass(Duration::from_secs(1));
    let kind = h100().gpu().unwrap().clone();
    let busy =
        |id: &NodeId| running.iter().filter(|one| one.node == *id).map(SeenWorkload::amount).sum::<u64>();
    let nodes = world.occupancy().nodes.into_keys().map(|id| {
        let seen = ObservedKind { usable: 8, busy: busy(&id).min(8) };
        (id, BTreeMap::from([(kind.clone(), seen)]))
    });
    let seen = Observation { at: world.books.now, nodes: nodes.collect() };
    world.decide(|view| observe_running(view, &tenant(), &seen, running)).unwrap()
}

fn nodes(world: &World, name: &str) -> Vec<NodeId> {
    world.workload(name).placed.into_iter().map(|part| part.node).collect()
}

#[test]
fn the_bookings_of_two_workloads_are_swapped_if_the_scheduler_swapped_the_workloads() {
    let mut world = World::new(2).with(&[("a", gpus(8, None, None)), ("b", gpus(8, None, None))]);
    world.submit(&job("a", "one", 8)).unwrap();
    world.submit(&job("b", "two", 8)).unwrap();
    let (of_one, of_two) = (nodes(&world, "one")[0].clone(), nodes(&world, "two")[0].clone());

    let seen = observe(&mut world, &[fact("one", &of_two, 0..8), fact("two", &of_one, 0..8)]);

    assert_eq!(seen.moved, ["one".to_owned(), "two".to_owned()].into());
    assert_eq!((nodes(&world, "one"), nodes(&world, "two")), (vec![of_two], vec![of_one]));
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[test]
fn a_planned_placement_moves_for_an_observed_one() {
    let mut world = World::new(2).with(&[("a", gpus(8, None, None)), ("b", gpus(8, None, None))]);
    world.submit(&job("a", "one", 8)).unwrap();
    world.submit(&job("b", "two", 8)).unwrap();
    let (of_one, of_two) = (nodes(&world, "one")[0].clone(), nodes(&world, "two")[0].clone());

    let seen = observe(&mut world, &[fact("one", &of_two, 0..8)]);

    assert_eq!(seen.moved, ["one".to_owned()].into());
    assert_eq!((nodes(&world, "one"), nodes(&world, "two")), (vec![of_two], vec![of_one]));
    assert_eq!(world.workload("two").placement_basis(), Some(PlacementBasis::Expected));
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// Earmarked GPUs are planned ones too: the earmark moves to another node.
#[test]
fn an_earmark_moves_for_an_observed_workload_and_stays_an_earmark() {
    let mut world = World::new(2).with(&[("lender", gpus(8, None, None)), ("b", gpus(8, None, None))]);
    for name in ["x", "y"] {
        world.submit(&job("b", name, 8)).unwrap();
    }
    let demand = world.submit(&job("lender", "demand", 8)).unwrap().news.demands.remove(0);
    let by = store::ExecutionId::from_bytes([7; 16]);
    let victim = world.books.all::<Loan>()[0].workload.clone();
    let other = if victim == "x" { "y" } else { "x" };
    let names = [victim.clone()].into();
    let fence_it = tests::books::account::fencing(by, "lender", &demand.workload, names);
    world.decide(|view| fence(view, &fence_it)).unwrap();
    let freed = nodes(&world, &victim)[0].clone();
    world.decide(|view| release_victim(view, &tenant(), by, &victim, VictimExit::Evicted)).unwrap();
    assert_eq!(world.balance("lender").in_transit, 8);

    observe(&mut world, &[fact(other, &freed, 0..8)]);

    assert_eq!(nodes(&world, other), [freed]);
    assert_eq!(world.balance("lender").in_transit, 8);
    assert_eq!(world.violations(), Vec::<String>::new());
    let granted = world.decide(|view| grant(view, &tenant(), &h100(), by)).unwrap();
    assert!(matches!(granted, GrantOutcome::Done { admission: Some(_), .. }), "{granted:?}");
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// After random facts no planned GPU counts as observed, and moving bookings keeps the number of GPUs.
#[test]
fn random_facts_never_turn_planned_gpus_into_observed_ones() {
    let mut seed = 5_u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..30 {
        let mut world = World::new(4).with(&[("a", gpus(16, None, None)), ("b", gpus(16, None, None))]);
        let ids: Vec<NodeId> = world.occupancy().nodes.into_keys().collect();
        let mut told: BTreeMap<String, ObservedPlacement> = BTreeMap::new();
        for step in 0..12 {
            match draw(3) {
                0 => {
                    let workspace = if draw(2) == 0 { "a" } else { "b" };
                    world.submit(&job(workspace, &format!("w-{step}"), 1 + draw(8))).unwrap();
                }
                1 => {
                    let running = world.books.all::<Workload>();
                    let mut running = running.into_iter().filter(|it| it.state == WorkloadState::Admitted);
                    if let Some(gone) = running.nth(usize::try_from(draw(3)).unwrap()) {
                        world.finish(&gone.name).unwrap();
                        told.remove(&gone.name);
                    }
                }
                _ => {
                    // Each node has eight GPUs, also in the facts.
                    let mut room = vec![8_u16; ids.len()];
                    let mut facts = Vec::new();
                    for workload in world.books.all::<Workload>() {
                        let at = usize::try_from(draw(4)).unwrap();
                        let wants = u16::try_from(workload.requests[&h100()]).unwrap();
                        if workload.state == WorkloadState::Admitted && draw(2) == 0 && room[at] >= wants {
                            facts.push(fact(&workload.name, &ids[at], 8 - room[at]..8 - room[at] + wants));
                            room[at] -= wants;
                        }
                    }
                    for fact in &facts {
                        let mut placement = ObservedPlacement::default();
                        placement.add(fact);
                        told.insert(fact.workload.clone(), placement);
                    }
                    observe(&mut world, &facts);
                    for fact in &facts {
                        assert_eq!(
                            nodes(&world, &fact.workload),
                            std::slice::from_ref(&fact.node),
                            "its booking follows its node"
                        );
                        let placed = world.workload(&fact.workload).placed.remove(0);
                        let seen = fact.gpus.iter().filter_map(|gpu| gpu.index).collect::<BTreeSet<_>>();
                        assert!(
                            placed.gpus.keys().eq(seen.iter()),
                            "on exactly these GPUs: {placed:?} {seen:?}"
                        );
                    }
                }
            }
            assert_eq!(world.violations(), Vec::<String>::new());
            for workload in world.books.all::<Workload>() {
                if workload.state == WorkloadState::Admitted {
                    assert_eq!(workload.observed.as_ref(), told.get(&workload.name), "{}", workload.name);
                }
            }
        }
    }
}
