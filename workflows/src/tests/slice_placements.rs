//! Bookings of slices follow the GPUs on which workloads were observed.

use super::books::{Books, h100, tenant};
use crate::{
    platform::ObservedGpus,
    scheduling::admission::{self, Observation, ObservationResult, ObservedKind, WorkloadRequest},
    tenancy::{
        Allowance, Checkpoint, GpuKind, NodeId, NodeUse, Resource, SeenGpu, SeenWorkload, Tenant,
        WorkloadClass, WorkspaceClass,
    },
};
use std::collections::{BTreeMap, BTreeSet};

const NODES: u32 = 2;
/// The partitioned GPUs of each node, with seven slices each.
const CUT: [u16; 3] = [0, 1, 2];

fn slice() -> Resource {
    "gpu/H100/1g.10gb".parse().unwrap()
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

/// Returns two workspaces with slices on two nodes.
fn sliced(sharing: bool) -> Books {
    let mut books = Books::new(NODES, &[]);
    books.decide(|view| {
        let tenant = view.require::<Tenant>(tenant().as_str())?;
        view.put(&Tenant { allow_gpu_sharing: sharing, ..tenant })
    });
    let profile = "1g.10gb".parse().unwrap();
    for id in ["n-0", "n-1"] {
        books.decide(|view| {
            admission::cut_gpus(view, &tenant(), &node(id), &CUT.into(), Some((&profile, 7))).map(drop)
        });
    }
    for name in ["one", "two"] {
        let limit = Allowance { nominal: 21, borrowing_limit: None, lending_limit: None };
        let all = [(name.parse().unwrap(), (WorkspaceClass::Batch, [(slice(), limit)].into()))].into();
        books.decide(|view| admission::set_allowances(view, &tenant(), &all));
    }
    observe(&mut books, &[]);
    books
}

fn submit(books: &mut Books, workspace: &str, name: &str, slices: u64) {
    let request = WorkloadRequest {
        tenant: tenant(),
        workspace: workspace.parse().unwrap(),
        name: name.to_owned(),
        class: WorkloadClass::Batch,
        priority: 0,
        preemptible: true,
        checkpoint: Checkpoint::None,
        requests: [(slice(), slices)].into(),
        together: 0,
        labels: BTreeSet::new(),
    };
    books.decide(|view| admission::submit(view, &request));
}

fn observe(books: &mut Books, running: &[SeenWorkload]) -> ObservationResult {
    books.now = books.now.after(engine::SECOND);
    let whole = h100().gpu().unwrap().clone();
    let cut: GpuKind = slice().gpu().unwrap().clone();
    let nodes = books.all::<NodeUse>().into_iter().map(|there| {
        let on_node = running.iter().filter(|one| one.node == there.node);
        let busy = on_node.map(SeenWorkload::amount).sum::<u64>();
        let kinds = [
            (whole.clone(), ObservedKind { usable: 5, busy: 0 }),
            (cut.clone(), ObservedKind { usable: 21, busy: busy.min(21) }),
        ];
        (there.node, kinds.into())
    });
    let seen = Observation { at: books.now, nodes: nodes.collect() };
    books.decide(|view| admission::observe_running(view, &tenant(), &seen, running))
}

/// Returns a fact that names each MIG device: the GPU of each slice.
fn named(workload: &str, on: &str, gpus: &[u16]) -> SeenWorkload {
    let device = |(number, index): (usize, &u16)| SeenGpu {
        uuid: format!("MIG-{on}-{index}-{workload}-{number}"),
        index: Some(*index),
    };
    SeenWorkload {
        workload: workload.to_owned(),
        uid: None,
        node: node(on),
        node_uid: None,
        kind: None,
        count: None,
        gpus: gpus.iter().enumerate().map(device).collect(),
        since: None,
    }
}

/// Returns a fact that names only the node.
fn bound(workload: &str, on: &str, count: u64) -> SeenWorkload {
    SeenWorkload { count: Some(count), gpus: BTreeSet::new(), ..named(workload, on, &[]) }
}

/// Returns the slices of a workload by node and GPU.
fn booked(books: &Books, name: &str) -> BTreeMap<(NodeId, u16), u16> {
    let placed = books.workload(name).placed.into_iter();
    placed.flat_map(|part| part.gpus.into_iter().map(move |(gpu, n)| ((part.node.clone(), gpu), n))).collect()
}

fn at(of: &[(&str, u16, u16)]) -> BTreeMap<(NodeId, u16), u16> {
    of.iter().map(|(on, gpu, slices)| ((node(on), *gpu), *slices)).collect()
}

#[test]
fn slices_are_booked_on_the_gpus_on_which_their_workload_was_seen() {
    let mut books = sliced(false);
    submit(&mut books, "one", "a", 3);
    submit(&mut books, "two", "b", 2);
    assert_eq!((booked(&books, "a"), booked(&books, "b")), (at(&[("n-0", 0, 3)]), at(&[("n-0", 1, 2)])));

    // Another GPU of the node, where only a plan of another workspace is.
    let result = observe(&mut books, &[named("a", "n-0", &[1, 1, 1])]);
    assert_eq!(result.moved, ["a".to_owned()].into());
    assert_eq!(booked(&books, "a"), at(&[("n-0", 1, 3)]));
    assert!(!booked(&books, "b").contains_key(&(node("n-0"), 1)), "a plan makes way");
    assert_eq!(books.violations(), Vec::<String>::new());

    // Another node, on two of its GPUs.
    let result = observe(&mut books, &[named("a", "n-1", &[0, 2, 2])]);
    assert_eq!(result.moved, ["a".to_owned()].into());
    assert_eq!(booked(&books, "a"), at(&[("n-1", 0, 1), ("n-1", 2, 2)]));
    assert_eq!(books.violations(), Vec::<String>::new());
    let again = observe(&mut books, &[named("a", "n-1", &[0, 2, 2])]);
    assert_eq!((again.moved, again.drift), (BTreeSet::new(), Vec::new()), "it is there already");
}

#[test]
fn slices_whose_gpu_is_not_named_are_booked_on_the_node_on_which_they_were_seen() {
    let mut books = sliced(true);
    submit(&mut books, "one", "a", 4);
    submit(&mut books, "two", "b", 4);

    let result = observe(&mut books, &[bound("a", "n-1", 4), bound("b", "n-1", 4)]);

    assert_eq!(result.moved, ["a".to_owned(), "b".to_owned()].into());
    for name in ["a", "b"] {
        let places = booked(&books, name);
        assert!(places.keys().all(|(on, _)| *on == node("n-1")), "{name}: {places:?}");
    }
    assert_eq!(books.violations(), Vec::<String>::new());
}

/// What an eviction observed decides where its slices are freed.
#[test]
fn an_evicted_workload_gives_back_the_slices_of_the_gpus_on_which_it_ran() {
    let mut books = sliced(true);
    submit(&mut books, "one", "a", 3);
    let gpus = serde_json::json!({ "n-1": [1, 2] });
    let observed: ObservedGpus = serde_json::from_value(gpus).unwrap();

    books.decide(|view| admission::move_to_observed(view, &tenant(), "a", &observed));

    assert_eq!(
        booked(&books, "a").into_keys().collect::<BTreeSet<_>>(),
        [1, 2].map(|gpu| (node("n-1"), gpu)).into()
    );
    assert_eq!(books.violations(), Vec::<String>::new());
}

#[test]
fn slices_on_a_node_of_which_an_observation_says_nothing_stay_there() {
    let mut books = sliced(true);
    submit(&mut books, "one", "a", 4);
    observe(&mut books, &[named("a", "n-0", &[0, 0]), named("a", "n-1", &[1, 1])]);
    assert_eq!(booked(&books, "a"), at(&[("n-0", 0, 2), ("n-1", 1, 2)]));

    observe(&mut books, &[named("a", "n-0", &[2, 2])]);
    assert_eq!(booked(&books, "a"), at(&[("n-0", 2, 2), ("n-1", 1, 2)]));

    // The GPUs on one of the nodes are unknown.
    let observed: ObservedGpus =
        serde_json::from_value(serde_json::json!({ "n-0": [1], "n-1": [] })).unwrap();
    books.decide(|view| admission::move_to_observed(view, &tenant(), "a", &observed));
    assert_eq!(booked(&books, "a"), at(&[("n-0", 1, 2), ("n-1", 1, 2)]));
    assert_eq!(books.violations(), Vec::<String>::new());
}

/// After random facts, the slices of each workload that the facts name are booked where they were seen, and no slice is lost or booked twice.
#[test]
fn random_sightings_of_slices_move_their_bookings_and_lose_none() {
    let mut seed = 19_u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..60 {
        let mut books = sliced(round % 2 == 0);
        let names: Vec<String> = (0..4).map(|n| format!("w-{n}")).collect();
        for name in &names {
            let workspace = if draw(2) == 0 { "one" } else { "two" };
            submit(&mut books, workspace, name, 1 + draw(5));
        }
        for _ in 0..6 {
            let mut room: BTreeMap<(&str, u16), u64> = BTreeMap::new();
            let mut facts = Vec::new();
            for name in &names {
                let wants = books.workload(name).requests[&slice()];
                let on = if draw(2) == 0 { "n-0" } else { "n-1" };
                let mut gpus = Vec::new();
                while (gpus.len() as u64) < wants {
                    let gpu = CUT[usize::try_from(draw(3)).unwrap()];
                    let left = room.entry((on, gpu)).or_insert(7);
                    if *left > 0 {
                        *left -= 1;
                        gpus.push(gpu);
                    }
                }
                facts.push((name, on, gpus));
            }
            // Some of them were not seen this time.
            facts.retain(|_| draw(4) > 0);
            let running: Vec<_> = facts.iter().map(|(name, on, gpus)| named(name, on, gpus)).collect();

            observe(&mut books, &running);

            for (name, on, gpus) in facts {
                let mut seen = BTreeMap::new();
                for gpu in gpus {
                    *seen.entry((node(on), gpu)).or_default() += 1;
                }
                assert_eq!(booked(&books, name), seen, "{name} in round {round}");
            }
            assert_eq!(books.violations(), Vec::<String>::new());
        }
    }
}
