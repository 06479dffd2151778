//! Moves the bookings of slices to the GPUs on which workloads were observed.
//!
//! Uses the settlement of whole GPUs with one GPU of a node as the place, because the room of a partitioned GPU depends on the workloads that share it.
//! Invariant: each workload keeps its number of slices. A planned slice goes to a GPU of another workspace only if the tenant shares GPUs or no other GPU has
//! room, and never to a barred GPU. Earmarks keep their GPU, or their demand is served again.

use super::{
    bookings::{Booking, Spread, Users, settle},
    relocate::{EarlierSightings, Moves, Sighting},
};
use crate::{
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::{GpuKind, GpuUser, NodeId, NodeUse, ObservedPlacement, Workload, WorkspaceName},
};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};

/// A GPU of a node.
pub(super) type GpuPlace = (NodeId, u16);

/// Returns the amount on each GPU that a placement names. A node with an unnamed GPU or slice has none.
pub(super) fn by_gpu(placement: &ObservedPlacement) -> Spread<GpuPlace> {
    let mut amounts = Spread::new();
    for (node, part) in placement.nodes.iter().filter(|(_, part)| part.names_all()) {
        let indexes: Option<Vec<u16>> = part.gpus.iter().map(|gpu| gpu.index).collect();
        for index in indexes.into_iter().flatten() {
            *amounts.entry((node.clone(), index)).or_default() += 1;
        }
    }
    amounts
}

/// Returns the number of slices on each observed GPU, if only the GPUs are known: at least one on each, then as many as are booked there, then the rest.
pub(super) fn on_observed(
    total: u64,
    observed: &Spread<GpuPlace>,
    booked: &Spread<GpuPlace>,
) -> Spread<GpuPlace> {
    let (mut amounts, mut left) = (Spread::new(), total);
    let one: Spread<GpuPlace> = observed.keys().map(|at| (at.clone(), 1)).collect();
    for limits in [&one, booked, observed] {
        for (at, limit) in limits.iter().filter(|(at, _)| observed.contains_key(*at)) {
            take(&mut amounts, &mut left, at, *limit);
        }
    }
    amounts
}

/// Raises the amount at a place to `limit`, as far as `left` reaches.
fn take(amounts: &mut Spread<GpuPlace>, left: &mut u64, at: &GpuPlace, limit: u64) {
    let there = amounts.entry(at.clone()).or_default();
    let more = limit.saturating_sub(*there).min(*left);
    *there += more;
    *left -= more;
    if *there == 0 {
        amounts.remove(at);
    }
}

impl Sighting {
    /// Returns true if the observation differs from the booking, as precisely as it names GPUs.
    fn runs_elsewhere(&self) -> bool {
        let named: BTreeSet<&NodeId> = self.by_gpu.keys().map(|(node, _)| node).collect();
        let mut booked = Spread::new();
        for part in self.workload.placed.iter().filter(|part| named.contains(&part.node)) {
            booked.extend(part.gpus.iter().map(|(gpu, n)| ((part.node.clone(), *gpu), u64::from(*n))));
        }
        !self.is_booked_so() || booked != self.by_gpu
    }
}

/// The slices of one kind on the inspected nodes.
#[derive(Default)]
struct SliceBook {
    /// The slices of each GPU.
    capacity: Spread<GpuPlace>,
    /// GPUs that are not barred.
    open: BTreeSet<GpuPlace>,
    bookings: BTreeMap<String, Booking<GpuPlace>>,
    /// The workloads that are booked or were observed on each GPU.
    users: BTreeMap<GpuPlace, BTreeSet<String>>,
    owners: BTreeMap<String, WorkspaceName>,
    /// Workloads whose slices are earmarked.
    aside: BTreeSet<String>,
}

impl SliceBook {
    fn add(&mut self, node: &NodeUse, kind: &GpuKind) {
        for (index, gpu) in (0_u16..).zip(&node.gpus).filter(|(_, gpu)| gpu.profile == kind.profile) {
            let at = (node.node.clone(), index);
            self.capacity.insert(at.clone(), u64::from(gpu.slices));
            if gpu.barred.is_none() {
                self.open.insert(at.clone());
            }
            for user in &gpu.users {
                let booking = self.bookings.entry(user.workload.clone()).or_default();
                *booking.booked.entry(at.clone()).or_default() += u64::from(user.slices);
                self.users.entry(at.clone()).or_default().insert(user.workload.clone());
                self.owners.insert(user.workload.clone(), user.workspace.clone());
                if user.in_transit {
                    booking.firm = true;
                    self.aside.insert(user.workload.clone());
                }
            }
        }
    }

    /// Returns the slices of a GPU without those of the bookings selected by `which`. A booking with an observation counts where it was observed.
    fn room(&self, at: &GpuPlace, which: impl Fn(&str, &Booking<GpuPlace>) -> bool) -> u64 {
        let there = self.users.get(at).into_iter().flatten();
        let there = there.filter_map(|name| Some((name, self.bookings.get(name)?)));
        let counted = there.filter(|(name, booking)| which(name, booking));
        let used: u64 = counted.filter_map(|(_, it)| it.seen.as_ref().unwrap_or(&it.booked).get(at)).sum();
        self.capacity.get(at).copied().unwrap_or(0).saturating_sub(used)
    }

    /// Returns true if only `name` and other workloads of its workspace are booked on a GPU.
    fn is_of_workspace(&self, at: &GpuPlace, name: &str) -> bool {
        let own = self.owners.get(name);
        let is_booked = |name: &str| self.bookings.get(name).is_some_and(|it| it.booked.contains_key(at));
        let mut there = self.users.get(at).into_iter().flatten();
        there.all(|other| !is_booked(other) || self.owners.get(other) == own)
    }

    /// Returns the GPUs of a workload. If an observation names only its node, these are the booked GPUs there, then idle slices, then planned ones.
    fn seen_at(&self, name: &str, sighting: &Sighting, on: &Spread) -> Spread<GpuPlace> {
        let mut seen = Spread::new();
        for (node, amount) in on {
            let named = sighting.by_gpu.iter().filter(|(at, _)| at.0 == *node);
            let named: Spread<GpuPlace> = named.map(|(at, amount)| (at.clone(), *amount)).collect();
            if !named.is_empty() {
                seen.extend(named.into_iter().filter(|(at, _)| self.capacity.contains_key(at)));
                continue;
            }
            let mut left = *amount;
            let gpus = || self.capacity.keys().filter(|at| at.0 == *node);
            let booked = |at: &GpuPlace| self.bookings.get(name)?.booked.get(at).copied();
            for at in gpus() {
                take(&mut seen, &mut left, at, booked(at).unwrap_or(0));
            }
            let idle = |at: &GpuPlace| self.room(at, |other, _| other != name);
            for at in gpus().filter(|at| self.open.contains(*at) && self.is_of_workspace(at, name)) {
                take(&mut seen, &mut left, at, idle(at));
            }
            for at in gpus() {
                take(&mut seen, &mut left, at, idle(at));
            }
            for at in gpus() {
                take(&mut seen, &mut left, at, self.room(at, |other, it| it.firm && other != name));
            }
        }
        seen
    }

    /// Returns the bookings after the move. Without another way, slices of a plan go to a GPU of another workspace.
    fn settled(&self, sharing: bool) -> Option<BTreeMap<String, Spread<GpuPlace>>> {
        let settle_with = |sharing: bool| {
            settle(&self.capacity, &self.bookings, |name, at, users| self.may_use(sharing, name, at, users))
        };
        settle_with(sharing).or_else(|| settle_with(true))
    }

    fn may_use(&self, sharing: bool, name: &str, at: &GpuPlace, users: &Users<'_, GpuPlace>) -> bool {
        let booked = self.bookings.get(name).is_some_and(|it| it.booked.contains_key(at));
        let own = self.owners.get(name);
        let mut there = users.get(at).into_iter().flatten();
        (booked || self.open.contains(at)) && (sharing || there.all(|other| self.owners.get(*other) == own))
    }

    /// Returns true if an earmark keeps an observed workload from its GPU.
    fn earmark_blocks(&self, changed: &BTreeMap<String, Spread<GpuPlace>>) -> bool {
        let aside = |at: &GpuPlace| {
            let mut aside = self.aside.iter().filter_map(|name| self.bookings.get(name));
            aside.any(|booking| booking.booked.contains_key(at))
        };
        self.bookings.iter().any(|(name, booking)| {
            let there = changed.get(name).unwrap_or(&booking.booked);
            let mut seen = booking.seen.iter().flatten();
            seen.any(|(at, amount)| there.get(at).copied().unwrap_or(0) < *amount && aside(at))
        })
    }
}

impl AdmissionTx {
    /// Moves bookings of slices to the observed GPUs.
    pub(super) fn relocate_slices(
        &mut self,
        view: &mut View,
        sightings: &BTreeMap<String, Sighting>,
        earlier: EarlierSightings,
        moves: &mut Moves,
    ) -> Result<(), Undecided> {
        let movers: Vec<&Sighting> = sightings.values().filter(|seen| seen.runs_elsewhere()).collect();
        let kinds = movers.iter().flat_map(|mover| mover.counts.keys());
        let kinds: BTreeSet<GpuKind> = kinds.filter(|kind| kind.profile.is_some()).cloned().collect();
        for kind in &kinds {
            let of_kind = || movers.iter().filter(|mover| mover.counts.contains_key(kind));
            let seen = of_kind().flat_map(|mover| mover.counts.get(kind)).flat_map(BTreeMap::keys);
            let booked = of_kind().flat_map(|mover| mover.workload.placed.iter().map(|part| &part.node));
            let nodes: BTreeSet<NodeId> = seen.chain(booked).cloned().collect();
            let sharing = self.tenant.allow_gpu_sharing;
            let mut book = self.slice_book(view, (kind, &nodes), (sightings, earlier), moves)?;
            let Some(mut changed) = book.settled(sharing) else { continue };
            if book.earmark_blocks(&changed) {
                // Beneficiaries of these earmarked slices get others.
                self.drop_earmarks(view, &nodes.iter().cloned().collect::<Vec<_>>())?;
                book = self.slice_book(view, (kind, &nodes), (sightings, earlier), moves)?;
                let Some(again) = book.settled(sharing) else { continue };
                changed = again;
            }
            self.rebook_slices(view, &book, &changed)?;
            moves.moved.extend(changed.into_keys().filter(|name| sightings.contains_key(name)));
        }
        Ok(())
    }

    fn slice_book(
        &mut self,
        view: &mut View,
        (kind, nodes): (&GpuKind, &BTreeSet<NodeId>),
        (sightings, earlier): (&BTreeMap<String, Sighting>, EarlierSightings),
        moves: &mut Moves,
    ) -> Result<SliceBook, Undecided> {
        view.prefetch::<NodeUse>(nodes.iter().map(ToString::to_string))?;
        let mut book = SliceBook::default();
        for id in nodes {
            // Another tenant's node has no room for the workload. The booking of that part stays.
            if let Some(node) = self.node(view, id)?.filter(|node| node.model == kind.model) {
                moves.changed_before.entry(id.clone()).or_insert(node.changed_at);
                book.add(node, kind);
            }
        }
        let names: Vec<String> = book.bookings.keys().cloned().collect();
        view.prefetch::<Workload>(names.iter().map(|name| Workload::key(&self.tenant.id, name)))?;
        let mut firm = BTreeSet::new();
        for name in &names {
            let stays = match sightings.get(name) {
                Some(sighting) => !sighting.runs_elsewhere(),
                None => earlier == EarlierSightings::Stay && self.was_seen_on(view, name, nodes)?,
            };
            firm.extend(stays.then(|| name.clone()));
        }
        for (name, booking) in &mut book.bookings {
            booking.firm |= firm.contains(name);
        }
        for name in names {
            let on = sightings.get(&name).and_then(|sighting| Some((sighting, sighting.counts.get(kind)?)));
            let Some((sighting, on)) = on.filter(|_| !firm.contains(&name)) else { continue };
            let seen = book.seen_at(&name, sighting, on);
            for at in seen.keys() {
                book.users.entry(at.clone()).or_default().insert(name.clone());
            }
            if let Some(booking) = book.bookings.get_mut(&name) {
                let on_others = booking.booked.iter().filter(|((node, _), _)| !on.contains_key(node));
                booking.unseen = on_others.map(|(at, amount)| (at.clone(), *amount)).collect();
                booking.seen = Some(seen);
            }
        }
        Ok(book)
    }

    /// Exchanges the slices of these workloads for an equal number of others.
    fn rebook_slices(
        &mut self,
        view: &mut View,
        book: &SliceBook,
        changed: &BTreeMap<String, Spread<GpuPlace>>,
    ) -> Result<(), Undecided> {
        let before = |name: &String| book.bookings.get(name).into_iter().flat_map(|it| it.booked.keys());
        let places = changed.iter().flat_map(|(name, spread)| before(name).chain(spread.keys()));
        let touched: BTreeSet<NodeId> = places.map(|(node, _)| node.clone()).collect();
        for id in &touched {
            self.change_node(view, id, |node| {
                for (index, gpu) in (0_u16..).zip(&mut node.gpus) {
                    let at = (id.clone(), index);
                    if !book.capacity.contains_key(&at) {
                        continue;
                    }
                    gpu.users.retain(|user| !changed.contains_key(&user.workload));
                    for (name, spread) in changed {
                        let slices = spread.get(&at).and_then(|amount| u16::try_from(*amount).ok());
                        let user = slices.zip(book.owners.get(name)).map(|(slices, workspace)| GpuUser {
                            workload: name.clone(),
                            workspace: workspace.clone(),
                            slices,
                            in_transit: false,
                        });
                        gpu.users.extend(user);
                    }
                }
            })?;
        }
        for (name, spread) in changed {
            self.follow_booking(view, name, spread.keys().map(|(node, _)| node.clone()))?;
            self.tell_new_plan(view, name)?;
        }
        Ok(())
    }
}
