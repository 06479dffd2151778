//! Placement, over random fleets.

use proptest::{collection::vec, prelude::*};
use std::collections::{BTreeMap, BTreeSet};
use workflows::{
    placement::{
        Candidate, CapacityShortage, Constraints, FreeNodes, NodeRequest, Placement, buffer, eligible, place,
    },
    tenancy::*,
};

#[derive(Clone, Debug)]
struct Site {
    region: u8,
    dedicated: bool,
    slurm: bool,
    nodes: Vec<u32>,
}

const LAWS: [&str; 4] = ["eu", "de", "us", "jp"];

fn sites() -> impl Strategy<Value = Vec<Site>> {
    let nodes = vec(prop_oneof![Just(1_u32), Just(2), Just(4), Just(8), 1..9_u32], 0..10);
    let site = (0..4_u8, prop::bool::weighted(0.2), prop::bool::weighted(0.2), nodes)
        .prop_map(|(region, dedicated, slurm, nodes)| Site { region, dedicated, slurm, nodes });
    vec(site, 1..6)
}

fn world(sites: &[Site], kept: u32) -> (Vec<Candidate>, FreeNodes) {
    let (mut candidates, mut stock) = (Vec::new(), FreeNodes::new());
    for (number, site) in sites.iter().enumerate() {
        let cluster: ClusterId = format!("c-{number}").parse().unwrap();
        let free: BTreeMap<NodeId, Gpus> = site
            .nodes
            .iter()
            .enumerate()
            .map(|(n, gpus)| (format!("{cluster}-{n:02}").parse().unwrap(), Gpus(*gpus)))
            .collect();
        let sum: Gpus = free.values().copied().sum();
        let law = LAWS[usize::from(site.region)];
        candidates.push(Candidate {
            cluster: cluster.clone(),
            region: format!("{law}-1").parse().unwrap(),
            jurisdiction: law.parse().unwrap(),
            kind: if site.slurm { ClusterKind::Slurm } else { ClusterKind::Kubernetes },
            simulated: true,
            tenancy: if site.dedicated { Tenancy::Dedicated { tenant: None } } else { Tenancy::Shared },
            total: sum.saturating_add(Gpus(1)),
            free: sum,
            buffer: Gpus(kept),
            unready: Vec::new(),
        });
        stock.insert(cluster, free);
    }
    (candidates, stock)
}

fn constraints(eu_only: bool, own_cluster: bool) -> Constraints {
    Constraints {
        tenant: "acme".parse().unwrap(),
        residency: if eu_only { Residency::Within(["eu".parse().unwrap()].into()) } else { Residency::Any },
        regions: None,
        cluster: None,
        isolation: if own_cluster { Isolation::DedicatedCluster } else { Isolation::DedicatedNodes },
        kind: Some(ClusterKind::Kubernetes),
        simulated: None,
        buffer: Gpus(1),
        buffers: BTreeMap::new(),
        drivers: Vec::new(),
        pins: BTreeMap::new(),
    }
}

fn ask(gpus: u32) -> NodeRequest {
    NodeRequest { model: "H100".parse().unwrap(), gpus: Gpus(gpus) }
}

/// Finds the best choice of nodes by brute force: the least waste, then the fewest nodes.
fn best(free: &BTreeMap<NodeId, Gpus>, asked: u32, usable: u32) -> Option<(u32, usize)> {
    let sizes: Vec<u32> = free.values().map(|gpus| gpus.0).collect();
    let totals = (0_u32..1 << sizes.len()).filter_map(|choice| {
        let chosen = sizes.iter().enumerate().filter(|(n, _)| choice >> n & 1 == 1);
        let total: u32 = chosen.map(|(_, gpus)| gpus).sum();
        (asked..=usable).contains(&total).then(|| (total - asked, choice.count_ones() as usize))
    });
    totals.min()
}

fn usable(candidate: &Candidate, all: &[Candidate], constraints: &Constraints) -> u32 {
    let region: u32 = all.iter().filter(|c| c.region == candidate.region).map(|c| c.free.0).sum();
    candidate.free.0.min(region.saturating_sub(buffer(candidate, constraints).0))
}

proptest! {
    #![proptest_config(tests::cases(256))]

    #[test]
    fn a_placement_meets_every_constraint_and_wastes_as_little_as_possible(
        sites in sites(), gpus in 1..30_u32, kept in 0..6_u32, eu_only: bool, own_cluster: bool,
    ) {
        let (candidates, stock) = world(&sites, kept);
        let constraints = constraints(eu_only, own_cluster);
        let placed = place(&candidates, &stock, &ask(gpus), &constraints);
        prop_assert_eq!(&placed, &place(&candidates, &stock, &ask(gpus), &constraints), "not deterministic");
        let allowed: BTreeSet<_> = candidates.iter().filter(|c| {
            constraints.residency.allows(&c.jurisdiction)
                && c.kind == ClusterKind::Kubernetes
                && (c.tenancy == Tenancy::Shared) != own_cluster
        }).map(|c| c.cluster.clone()).collect();
        let bests = candidates.iter().filter(|c| allowed.contains(&c.cluster)).filter_map(|c| {
            best(&stock[&c.cluster], gpus, usable(c, &candidates, &constraints)).map(|best| (best, c.cluster.clone()))
        });
        let expected = bests.min();
        match (placed, expected) {
            (Ok(Placement { cluster, nodes, wasted, .. }), Some(((waste, count), first))) => {
                prop_assert!(allowed.contains(&cluster));
                prop_assert!(nodes.iter().all(|(node, gpus)| stock[&cluster].get(node) == Some(gpus)));
                prop_assert_eq!((wasted.0, nodes.len(), cluster), (waste, count, first));
            }
            (Err(CapacityShortage { by_cluster, .. }), None) => {
                prop_assert_eq!(by_cluster.into_keys().collect::<BTreeSet<_>>(), allowed);
            }
            (placed, expected) => prop_assert!(false, "{placed:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn every_constraint_lists_the_nodes_that_it_excluded(sites in sites(), eu_only: bool, own_cluster: bool) {
        let (candidates, _) = world(&sites, 0);
        let (allowed, considered) = eligible(&candidates, &constraints(eu_only, own_cluster));
        let mut left = candidates.iter().map(|c| c.cluster.clone()).collect::<Vec<_>>();
        left.sort();
        for step in &considered {
            prop_assert_eq!(&step.before, &left);
            left = step.remaining();
        }
        prop_assert_eq!(left, allowed.iter().map(|c| c.cluster.clone()).collect::<Vec<_>>());
    }
}

#[test]
fn among_equal_nodes_the_first_by_name_are_taken() {
    let site = Site { region: 0, dedicated: false, slurm: false, nodes: vec![8, 8, 8, 2, 2] };
    let (candidates, stock) = world(&[site], 0);

    let placed = place(&candidates, &stock, &ask(10), &constraints(true, false)).unwrap();

    let nodes: Vec<_> = placed.nodes.keys().map(ToString::to_string).collect();
    assert_eq!(nodes, ["c-0-00", "c-0-03"]);
    assert_eq!(placed.wasted, Gpus(0));
}

#[test]
fn a_large_request_on_a_large_fleet_is_placed_quickly() {
    let nodes = (0..10_000).map(|n| if n % 3 == 0 { 4 } else { 8 }).collect();
    let (candidates, stock) = world(&[Site { region: 0, dedicated: false, slurm: false, nodes }], 0);

    let placed = place(&candidates, &stock, &ask(50_001), &constraints(true, false)).unwrap();

    assert_eq!(placed.wasted, Gpus(3));
}
