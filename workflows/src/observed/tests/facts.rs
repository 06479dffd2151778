//! Facts from the index.

use super::*;
use crate::{
    scheduling::admission::ObservedKind,
    tenancy::{GpuKind, NodeId, SeenGpu},
};
use std::collections::BTreeMap;

fn kinds(capacity: u64) -> BTreeMap<NodeId, NodeStock> {
    let kind: GpuKind = "H100".parse().unwrap();
    let stock = NodeStock { kinds: [(kind, capacity)].into(), barred: BTreeSet::new() };
    BTreeMap::from([("n-0".parse().unwrap(), stock)])
}

fn kind_of(index: &ClusterIndex, capacity: u64, second: u64) -> ObservedKind {
    let facts = index.facts(&kinds(capacity), at(second), PROOF).unwrap();
    facts.seen.nodes.values().flat_map(BTreeMap::values).copied().next().unwrap()
}

#[test]
fn an_index_without_a_complete_list_has_no_facts() {
    let mut index = ClusterIndex::default();
    assert_eq!(index.facts(&kinds(8), at(0), PROOF), None);
    index.apply_nodes(list(mark(1, 1, 0), at(0), vec![node("node-a", "n-0")])).unwrap();
    let half = vec![WatchEvent::Init, WatchEvent::InitApply(pod("p", "n-0", 1))];
    index.apply_pods(batch(mark(1, 1, 0), at(0), half)).unwrap();
    assert_eq!(index.facts(&kinds(8), at(0), PROOF), None);
    index.apply_pods(batch(mark(1, 1, 1), at(0), vec![WatchEvent::InitDone])).unwrap();
    assert!(index.facts(&kinds(8), at(0), PROOF).is_some());
}

#[test]
fn an_unconfirmed_gpu_is_neither_usable_nor_busy_and_a_free_one_is_usable() {
    let mut index = with_a_pod();
    assert_eq!(kind_of(&index, 1, 0), ObservedKind { usable: 1, busy: 1 });
    index.apply_pods(batch(mark(1, 1, 1), at(1), vec![WatchEvent::Delete(uid("p"))])).unwrap();
    assert_eq!(kind_of(&index, 1, 1), ObservedKind { usable: 0, busy: 0 });
    looks(&mut index, &[2, 7]);
    assert_eq!(kind_of(&index, 1, 7), ObservedKind { usable: 1, busy: 0 });
    assert_eq!(kind_of(&index, 8, 7), ObservedKind { usable: 1, busy: 0 }, "seven GPUs are not listed");
}

#[test]
fn a_barred_gpu_that_is_unfit_is_left_out_once_and_an_unconfirmed_one_beside_it_is_left_out_too() {
    let mut index = with_a_pod();
    let mut seen = report("node-a", 2, 1, &[&["p"], &[], &[]]);
    seen.devices[1].health = Health::Unfit;
    index.report(&seen).unwrap();
    let mut later = report("node-a", 3, 7, &[&["p"], &[], &[]]);
    later.devices[1].health = Health::Unfit;
    index.report(&later).unwrap();
    let usable = |index: &ClusterIndex, capacity, barred: &[u16]| {
        let mut nodes = kinds(capacity);
        nodes.values_mut().for_each(|stock| stock.barred = barred.iter().copied().collect());
        let facts = index.facts(&nodes, at(7), PROOF).unwrap();
        facts.seen.nodes.into_values().flat_map(BTreeMap::into_values).next().unwrap().usable
    };
    assert_eq!(usable(&index, 2, &[1]), 2, "GPU 1 is no longer in stock");
    assert_eq!(usable(&index, 3, &[]), 2);

    later.seq = 4;
    later.devices[2].open = Some([4711].into());
    index.report(&later).unwrap();
    assert_eq!(usable(&index, 2, &[1]), 1);
}

#[test]
fn a_workload_is_reported_with_the_gpus_that_the_node_names_and_else_with_their_number() {
    let mut index = with_a_pod();
    let more = WatchEvent::Apply(PodObject { workload: Some("p".into()), ..pod("p2", "n-0", 2) });
    let unknown = WatchEvent::Apply(PodObject { workload: None, ..pod("other", "n-0", 1) });
    let running = |index: &ClusterIndex| index.facts(&kinds(8), at(1), PROOF).unwrap().running;
    let first = running(&index);
    let gpu = SeenGpu { uuid: "GPU-0".into(), index: Some(0) };
    assert_eq!((first[0].count, first[0].gpus.clone(), first[0].amount()), (None, [gpu].into(), 1));

    index.apply_pods(batch(mark(1, 1, 1), at(1), vec![more, unknown])).unwrap();

    let seen = running(&index);
    let amounts: Vec<_> = seen.iter().map(|seen| (seen.workload.as_str(), seen.amount())).collect();
    let other = uid("other").to_string();
    assert_eq!(amounts.len(), 2);
    assert!(amounts.contains(&("p", 3)) && amounts.contains(&(other.as_str(), 1)), "{amounts:?}");
}
