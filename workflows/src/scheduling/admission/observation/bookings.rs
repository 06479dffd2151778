//! Moves bookings when workloads are observed on other nodes than booked. Pure.
//!
//! Invariant: each booking keeps its amount, and no node is booked above its capacity.

use crate::tenancy::NodeId;
use std::collections::BTreeMap;

/// Amounts by node.
pub(super) type Spread = BTreeMap<NodeId, u64>;

/// The booking of one kind for one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Booking {
    /// The booked amounts on the inspected nodes.
    pub(super) booked: Spread,
    /// The observed amounts, if it was observed.
    pub(super) seen: Option<Spread>,
    /// True if it was observed where it is booked, or may not be moved for another reason.
    pub(super) firm: bool,
}

/// Moves observed bookings to their observed nodes, and planned bookings out of their way. Returns the changed bookings; `None` if they do not fit.
pub(super) fn settle(
    capacity: &Spread,
    bookings: &BTreeMap<String, Booking>,
) -> Option<BTreeMap<String, Spread>> {
    let mut free = capacity.clone();
    let mut settled: BTreeMap<&str, Spread> = BTreeMap::new();
    let mut left: BTreeMap<&str, u64> =
        bookings.iter().map(|(name, it)| (name.as_str(), it.booked.values().sum())).collect();
    // First the firm bookings, then those observed elsewhere, then their unobserved parts, then plans.
    let firm = bookings.iter().filter(|(_, it)| it.firm).map(|(name, it)| (name, &it.booked));
    let seen =
        bookings.iter().filter(|(_, it)| !it.firm).filter_map(|(name, it)| Some((name, it.seen.as_ref()?)));
    let rest =
        bookings.iter().filter(|(_, it)| !it.firm && it.seen.is_some()).map(|(name, it)| (name, &it.booked));
    let plans =
        bookings.iter().filter(|(_, it)| !it.firm && it.seen.is_none()).map(|(name, it)| (name, &it.booked));
    for (name, wanted) in firm.chain(seen).chain(rest).chain(plans) {
        let (spread, left) = (settled.entry(name).or_default(), left.get_mut(name.as_str())?);
        for (node, amount) in wanted {
            let room = free.entry(node.clone()).or_default();
            let there = spread.entry(node.clone()).or_default();
            // An earlier round for the same workload already took the present amount.
            let taken = amount.saturating_sub(*there).min(*room).min(*left);
            (*there, *room, *left) = (*there + taken, *room - taken, *left - taken);
        }
    }
    for (name, left) in left {
        place(&mut free, settled.entry(name).or_default(), left)?;
    }
    let mut changed = BTreeMap::new();
    for (name, mut spread) in settled {
        spread.retain(|_, amount| *amount > 0);
        let before = bookings.get(name).map(|it| &it.booked);
        if before != Some(&spread) {
            changed.insert(name.to_owned(), spread);
        }
    }
    Some(changed)
}

/// Books the rest on the nodes with the most room.
fn place(free: &mut Spread, spread: &mut Spread, mut left: u64) -> Option<()> {
    while left > 0 {
        let (node, room) = free.iter_mut().max_by_key(|(_, room)| **room).filter(|(_, room)| **room > 0)?;
        let taken = left.min(*room);
        *spread.entry(node.clone()).or_default() += taken;
        (*room, left) = (*room - taken, left - taken);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(of: &[(&str, u64)]) -> Spread {
        of.iter().map(|(node, amount)| (node.parse().unwrap(), *amount)).collect()
    }

    fn planned(of: &[(&str, u64)]) -> Booking {
        Booking { booked: spread(of), ..Booking::default() }
    }

    fn seen(booked: &[(&str, u64)], at: &[(&str, u64)]) -> Booking {
        Booking { seen: Some(spread(at)), ..planned(booked) }
    }

    fn settled(capacity: &[(&str, u64)], of: &[(&str, Booking)]) -> Option<BTreeMap<String, Spread>> {
        let bookings = of.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
        settle(&spread(capacity), &bookings)
    }

    #[test]
    fn a_booking_moves_to_its_observed_workload_and_planned_placements_move_away() {
        let both = [("n-0", 8), ("n-1", 8)];
        let moved = settled(&both, &[("r1", seen(&[("n-0", 8)], &[("n-1", 8)]))]).unwrap();
        assert_eq!(moved, [("r1".to_owned(), spread(&[("n-1", 8)]))].into());

        let swapped = [("r1", seen(&[("n-0", 8)], &[("n-1", 8)])), ("r2", planned(&[("n-1", 8)]))];
        let moved = settled(&both, &swapped).unwrap();
        assert_eq!(moved["r1"], spread(&[("n-1", 8)]));
        assert_eq!(moved["r2"], spread(&[("n-0", 8)]));
    }

    #[test]
    fn the_unobserved_part_of_a_workload_stays_where_it_is_planned() {
        let part = [("wide", seen(&[("n-0", 8)], &[("n-1", 3)]))];
        let moved = settled(&[("n-0", 8), ("n-1", 8)], &part).unwrap();
        assert_eq!(moved["wide"], spread(&[("n-0", 5), ("n-1", 3)]));
    }

    #[test]
    fn a_workload_observed_at_its_booking_is_not_moved_for_another() {
        let firm = Booking { firm: true, ..planned(&[("n-1", 8)]) };
        let both = [("n-0", 8), ("n-1", 8)];
        let moved = settled(&both, &[("a", firm), ("b", seen(&[("n-0", 8)], &[("n-1", 8)]))]).unwrap();
        assert_eq!(moved, BTreeMap::new());
    }

    /// For random observations, each booking keeps its amount and each node its capacity. Observed amounts are booked at the observed node if they fit.
    #[test]
    fn random_observations_neither_create_nor_lose_a_gpu() {
        let mut seed = 11_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let nodes: Vec<NodeId> = (0..4).map(|n| format!("n-{n}").parse().unwrap()).collect();
        for _ in 0..2_000 {
            let mut free: Vec<u64> = vec![8; 4];
            let mut bookings = BTreeMap::new();
            for name in 0..draw(6) {
                let mut booking = Booking { firm: draw(4) == 0, ..Booking::default() };
                for (node, room) in nodes.iter().zip(&mut free) {
                    let part = draw(5).min(*room);
                    *room -= part;
                    if part > 0 {
                        booking.booked.insert(node.clone(), part);
                    }
                }
                if !booking.firm && draw(2) == 0 {
                    let node = nodes[usize::try_from(draw(4)).unwrap()].clone();
                    booking.seen = Some([(node, draw(10))].into());
                }
                bookings.insert(format!("w-{name}"), booking);
            }
            let capacity: Spread = nodes.iter().map(|node| (node.clone(), 8)).collect();

            let changed = settle(&capacity, &bookings).expect("what was booked fits");

            let after = |name: &String| changed.get(name).unwrap_or(&bookings[name].booked).clone();
            let mut used = Spread::new();
            for (name, booking) in &bookings {
                let now = after(name);
                assert_eq!(now.values().sum::<u64>(), booking.booked.values().sum::<u64>(), "{name}");
                assert!(!booking.firm || now == booking.booked, "{name}");
                for (node, amount) in now {
                    *used.entry(node).or_default() += amount;
                }
            }
            assert!(used.iter().all(|(node, amount)| *amount <= capacity[node]), "{used:?}");
        }
    }
}
