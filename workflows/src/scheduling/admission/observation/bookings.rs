//! Moves bookings when workloads are observed at other places than booked. Pure.
//!
//! A place is a node for whole GPUs, and one GPU of a node for slices. Invariant: each booking keeps its amount, and no place is booked above its capacity.

use crate::tenancy::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Amounts by place.
pub(super) type Spread<P = NodeId> = BTreeMap<P, u64>;

/// The workloads whose amounts are already settled, by place.
pub(super) type Users<'a, P = NodeId> = BTreeMap<P, BTreeSet<&'a str>>;

/// The booking of one kind for one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Booking<P = NodeId> {
    /// The booked amounts at the inspected places.
    pub(super) booked: Spread<P>,
    /// The observed amounts, if it was observed.
    pub(super) seen: Option<Spread<P>>,
    /// The booked amounts of which the observation says nothing. They stay before others.
    pub(super) unseen: Spread<P>,
    /// True if it was observed where it is booked, or may not be moved for another reason.
    pub(super) firm: bool,
}

impl<P> Default for Booking<P> {
    fn default() -> Self {
        Self { booked: Spread::new(), seen: None, unseen: Spread::new(), firm: false }
    }
}

/// Moves observed bookings to their observed places, and planned bookings out of their way. A planned amount goes only to places that `may_use` allows. Returns
/// the changed bookings; `None` if they do not fit.
pub(super) fn settle<P: Clone + Ord>(
    capacity: &Spread<P>,
    bookings: &BTreeMap<String, Booking<P>>,
    may_use: impl Fn(&str, &P, &Users<'_, P>) -> bool,
) -> Option<BTreeMap<String, Spread<P>>> {
    let mut state = Settlement { free: capacity.clone(), settled: BTreeMap::new(), users: BTreeMap::new() };
    let mut left: BTreeMap<&str, u64> =
        bookings.iter().map(|(name, it)| (name.as_str(), it.booked.values().sum())).collect();
    // First the firm bookings, then those observed elsewhere, then their unobserved parts, then plans.
    let firm = bookings.iter().filter(|(_, it)| it.firm).map(|(name, it)| (name.as_str(), &it.booked, true));
    let moving = || bookings.iter().filter(|(_, it)| !it.firm);
    let seen = moving().filter_map(|(name, it)| Some((name.as_str(), it.seen.as_ref()?, true)));
    let unseen = moving().map(|(name, it)| (name.as_str(), &it.unseen, false));
    let rest =
        moving().filter(|(_, it)| it.seen.is_some()).map(|(name, it)| (name.as_str(), &it.booked, false));
    let plans =
        moving().filter(|(_, it)| it.seen.is_none()).map(|(name, it)| (name.as_str(), &it.booked, false));
    for (name, wanted, runs_there) in firm.chain(seen).chain(unseen).chain(rest).chain(plans) {
        let left = left.get_mut(name)?;
        for (at, amount) in wanted {
            if !runs_there && !may_use(name, at, &state.users) {
                continue;
            }
            // An earlier round for the same workload already took the present amount.
            let more = amount.saturating_sub(state.amount(name, at)).min(*left);
            *left -= state.book(name, at, more);
        }
    }
    for (name, left) in left {
        state.place(name, left, &may_use)?;
    }
    let mut changed = BTreeMap::new();
    for (name, spread) in state.settled {
        let before = bookings.get(name).map(|it| &it.booked);
        if before != Some(&spread) {
            changed.insert(name.to_owned(), spread);
        }
    }
    Some(changed)
}

/// The state of a settlement.
struct Settlement<'a, P> {
    free: Spread<P>,
    /// The settled amounts by workload, none of them zero.
    settled: BTreeMap<&'a str, Spread<P>>,
    users: Users<'a, P>,
}

impl<'a, P: Clone + Ord> Settlement<'a, P> {
    fn amount(&self, name: &str, at: &P) -> u64 {
        self.settled.get(name).and_then(|spread| spread.get(at)).copied().unwrap_or(0)
    }

    /// Books at most `wanted` at a place. Returns the booked amount.
    fn book(&mut self, name: &'a str, at: &P, wanted: u64) -> u64 {
        let Some(room) = self.free.get_mut(at) else { return 0 };
        let taken = wanted.min(*room);
        *room -= taken;
        if taken > 0 {
            *self.settled.entry(name).or_default().entry(at.clone()).or_default() += taken;
            self.users.entry(at.clone()).or_default().insert(name);
        }
        taken
    }

    /// Books the rest at the allowed places with the most room.
    fn place(
        &mut self,
        name: &'a str,
        mut left: u64,
        may_use: &impl Fn(&str, &P, &Users<'_, P>) -> bool,
    ) -> Option<()> {
        while left > 0 {
            let allowed = self.free.iter().filter(|(at, room)| **room > 0 && may_use(name, at, &self.users));
            let at = allowed.max_by_key(|(_, room)| **room).map(|(at, _)| at.clone())?;
            left -= self.book(name, &at, left);
        }
        Some(())
    }
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
        settle(&spread(capacity), &bookings, |_, _, _| true)
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

            let changed = settle(&capacity, &bookings, |_, _, _| true).expect("what was booked fits");

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
