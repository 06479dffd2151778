//! Places a demand on nodes, using free room and the room of its victims.

use crate::scheduling::planner::{
    Amounts, DemandPiece, PiecePlacement, ResourceKind, model::snapshot::LoadIx,
    preemption::preemptor::Preemptor,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
};

/// A node, or one GPU of a node.
type Domain<'a> = (&'a str, Option<u32>);
type Room<'a> = BTreeMap<Domain<'a>, HashMap<&'a ResourceKind, u128>>;

/// Returns the room on the demand's nodes once these workloads are gone.
fn room<'a>(ask: &Preemptor<'a>, freed: impl Iterator<Item = LoadIx>) -> Room<'a> {
    let mut room = Room::new();
    let mut add = |domain: Domain<'a>, amounts: &'a Amounts| {
        let held = room.entry(domain).or_default();
        for (kind, amount) in amounts {
            let sum = held.entry(kind).or_default();
            *sum = sum.saturating_add(u128::from(*amount));
        }
    };
    let usable = |node: &super::Node| node.held_by.as_ref().is_none_or(|holder| *holder == ask.demand.id);
    for (name, node) in ask.snapshot.machines.iter().filter(|(_, node)| usable(node)) {
        add((name, None), &node.free);
        for (gpu, slices) in &node.slices {
            add((name, None), slices);
            add((name, Some(*gpu)), slices);
        }
    }
    for part in freed.filter_map(|load| ask.snapshot.load(load)).flat_map(|load| &load.workload.parts) {
        if ask.snapshot.machines.get(&part.node).is_some_and(usable) {
            add((&part.node, None), &part.amounts);
            if part.gpu.is_some() {
                add((&part.node, part.gpu), &part.amounts);
            }
        }
    }
    room
}

fn size(piece: &DemandPiece) -> u128 {
    piece.needs.values().map(|amount| u128::from(*amount)).sum()
}

/// Places every piece, largest first, where the least room is left over; `None` if a piece does not fit.
pub(super) fn place(ask: &Preemptor<'_>, freed: impl Iterator<Item = LoadIx>) -> Option<Vec<PiecePlacement>> {
    if ask.demand.pieces.is_empty() {
        return Some(Vec::new());
    }
    let mut room = room(ask, freed);
    let mut pieces: Vec<(usize, &DemandPiece)> = ask.demand.pieces.iter().enumerate().collect();
    // Pieces that need one GPU are first, because the others can use any slice of the node.
    pieces.sort_by_key(|(at, piece)| (Reverse(piece.on_one_gpu), Reverse(size(piece)), *at));
    let mut spots = Vec::new();
    for (at, piece) in pieces {
        let (node, gpu) = best(&room, piece)?;
        use_up(&mut room, (node, gpu), piece);
        spots.push(PiecePlacement { piece: at, node: node.to_owned(), gpu });
    }
    spots.sort();
    Some(spots)
}

fn best<'a>(room: &Room<'a>, piece: &DemandPiece) -> Option<Domain<'a>> {
    let domains = room.iter().filter(|((_, gpu), _)| gpu.is_some() == piece.on_one_gpu);
    let fitting = domains.filter_map(|(domain, held)| {
        let mut left = 0_u128;
        for (kind, need) in &piece.needs {
            let free = held.get(kind).copied().unwrap_or_default();
            left = left.saturating_add(free.checked_sub(u128::from(*need))?);
        }
        Some((left, *domain))
    });
    fitting.min().map(|(_, domain)| domain)
}

fn use_up<'a>(room: &mut Room<'a>, (node, gpu): Domain<'a>, piece: &DemandPiece) {
    // A slice belongs to a GPU of the node, so both lose the room.
    for ((_, on), held) in room.range_mut((node, None)..=(node, Some(u32::MAX))) {
        if on.is_none() || *on == gpu {
            for (kind, need) in &piece.needs {
                if let Some(free) = held.get_mut(kind) {
                    *free = free.saturating_sub(u128::from(*need));
                }
            }
        }
    }
}

/// Returns up to `most` alternative sets of workloads whose removal empties nodes, cheapest first.
pub(super) fn alternatives(ask: &Preemptor<'_>, most: usize) -> Vec<(Vec<String>, HashSet<LoadIx>)> {
    let Some(piece) = ask.demand.pieces.iter().max_by_key(|piece| size(piece)) else { return Vec::new() };
    let borrowers = ask.borrowers(&ask.sim()).into_iter().collect();
    let now = room(ask, ask.freed.iter().copied());
    let mut ranked = Vec::new();
    for (name, node) in &ask.snapshot.machines {
        if node.held_by.as_ref().is_some_and(|holder| *holder != ask.demand.id) {
            continue;
        }
        let mut held = now.get(&(name.as_str(), None)).cloned().unwrap_or_default();
        let lacking = |held: &HashMap<&ResourceKind, u128>| {
            piece
                .needs
                .iter()
                .any(|(kind, need)| held.get(kind).copied().unwrap_or_default() < u128::from(*need))
        };
        let (mut cost, mut needed) = (0_u128, HashSet::new());
        for load in ask.candidates_on_nodes(name, &borrowers) {
            if !lacking(&held) {
                break;
            }
            for (kind, amount) in
                load.workload.parts.iter().filter(|part| part.node == *name).flat_map(|part| &part.amounts)
            {
                *held.entry(kind).or_default() += u128::from(*amount);
            }
            // A workload runs on all its nodes, so its total size is the cost.
            let devices = load.workload.usage.iter().filter(|(kind, _)| kind.is_device());
            cost += devices.map(|(_, amount)| u128::from(*amount)).sum::<u128>();
            needed.insert(load.key.load);
        }
        if !lacking(&held) && !needed.is_empty() {
            ranked.push((cost, name, needed));
        }
    }
    ranked.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let wanted = ask.demand.pieces.len();
    let starts = 0..ranked.len().min(most);
    let pick = |start| {
        let nodes = ranked.iter().skip(start).take(wanted);
        let loads = nodes.clone().flat_map(|(_, _, needed)| needed.iter().copied()).collect();
        (nodes.map(|(_, name, _)| (*name).clone()).collect(), loads)
    };
    starts.map(pick).collect()
}
