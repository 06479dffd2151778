//! One attempt: preempts candidates until the demand fits, then returns the unnecessary ones.

use crate::scheduling::planner::{
    Reason, Verdict,
    model::{
        cohort_tree::TreeOverlay,
        snapshot::{LoadIx, RunningLoad},
    },
    placement,
    preemption::preemptor::Preemptor,
};
use std::collections::HashSet;

/// Workloads that are preempted and returned together: a single workload, or the gang that its loss breaks.
#[derive(Clone, Debug)]
pub(in crate::scheduling::planner) struct PreemptionUnit {
    pub(in crate::scheduling::planner) lead: LoadIx,
    pub(in crate::scheduling::planner) members: Vec<LoadIx>,
    pub(in crate::scheduling::planner) reason: Reason,
}

/// The state of an attempt.
pub(in crate::scheduling::planner) struct PreemptionRun<'a, 'b> {
    pub(in crate::scheduling::planner) ask: &'b Preemptor<'a>,
    pub(in crate::scheduling::planner) sim: TreeOverlay<'a>,
    pub(in crate::scheduling::planner) units: Vec<PreemptionUnit>,
    taken: HashSet<LoadIx>,
    /// The verdicts in order.
    pub(in crate::scheduling::planner) judged: Vec<(LoadIx, Verdict)>,
    /// True if the demand also needs nodes.
    placed: bool,
    /// Workloads to preempt before all others.
    pub(in crate::scheduling::planner) first: HashSet<LoadIx>,
}

impl<'a, 'b> PreemptionRun<'a, 'b> {
    pub(in crate::scheduling::planner) fn new(
        ask: &'b Preemptor<'a>,
        placed: bool,
        first: HashSet<LoadIx>,
    ) -> Self {
        let (units, judged) = (Vec::new(), Vec::new());
        Self { ask, sim: ask.sim(), units, taken: HashSet::new(), judged, placed, first }
    }

    pub(in crate::scheduling::planner) fn is_taken(&self, load: &RunningLoad) -> bool {
        self.taken.contains(&load.key.load)
    }

    pub(in crate::scheduling::planner) fn record_verdict(&mut self, load: &RunningLoad, verdict: Verdict) {
        self.judged.push((load.key.load, verdict));
    }

    /// Returns true if the demand fits by quota and, if required, on nodes.
    pub(in crate::scheduling::planner) fn fits(&self, borrowing: bool) -> bool {
        self.ask.fits(&self.sim, borrowing)
            && (!self.placed || placement::place(self.ask, self.all_taken()).is_some())
    }

    /// Returns every workload that is removed in this attempt.
    pub(in crate::scheduling::planner) fn all_taken(&self) -> impl Iterator<Item = LoadIx> {
        let members = self.units.iter().flat_map(|unit| unit.members.iter().copied());
        members.chain(self.ask.freed.iter().copied())
    }

    /// Preempts a candidate, with its gang if the gang cannot run without it. Does nothing if a member of the gang is protected.
    pub(in crate::scheduling::planner) fn take(&mut self, load: &'a RunningLoad, reason: Reason) -> bool {
        let at = load.key.load;
        let mut members = vec![at];
        if let Some(broken) = self.broken(load) {
            if let Some(filter) = broken.iter().find_map(|other| self.ask.filter(other)) {
                self.record_verdict(load, Verdict::Filtered(filter));
                return false;
            }
            let gang: HashSet<LoadIx> = broken.iter().map(|other| other.key.load).collect();
            // Members that were preempted earlier can be returned only together with the gang.
            for unit in self.units.extract_if(.., |unit| gang.contains(&unit.lead)) {
                members.extend(unit.members);
            }
            members.extend(broken.iter().map(|other| other.key.load).filter(|at| !self.taken.contains(at)));
            members.sort_unstable();
            members.dedup();
        }
        for member in &members {
            if self.taken.insert(*member) {
                self.charge(*member, -1);
            }
        }
        self.record_verdict(load, Verdict::Taken { reason });
        self.units.push(PreemptionUnit { lead: at, members, reason });
        true
    }

    /// Returns the other members of a gang that falls below its minimum without this workload.
    fn broken(&self, load: &RunningLoad) -> Option<Vec<&'a RunningLoad>> {
        let gang = load.workload.gang.as_ref()?;
        let members = self.ask.snapshot.gangs.get(&(load.node, gang.id.clone()))?;
        let others = members.iter().filter(|at| **at != load.key.load);
        let mut others: Vec<&RunningLoad> = others.filter_map(|at| self.ask.snapshot.load(*at)).collect();
        others.sort_by(|a, b| a.key.cmp(&b.key));
        let left = others.iter().filter(|other| !self.is_taken(other)).count();
        (left < usize::try_from(gang.min_available).unwrap_or(usize::MAX)).then_some(others)
    }

    fn charge(&mut self, at: LoadIx, sign: i128) {
        let Some(load) = self.ask.snapshot.load(at) else { return };
        for (kind, amount) in &load.usage {
            self.sim.charge(load.node, *kind, sign * amount);
        }
    }

    /// Returns victims that the demand does not need, starting with the last but one.
    pub(in crate::scheduling::planner) fn fill_back(&mut self, borrowing: bool) {
        if !self.ask.settings.fill_back {
            return;
        }
        let mut returned = HashSet::new();
        for at in (0..self.units.len().saturating_sub(1)).rev() {
            // A unit without members counts as returned. Such units are removed at the end, which keeps this linear.
            let Some(unit) = self.units.get_mut(at) else { continue };
            let (lead, members) = (unit.lead, std::mem::take(&mut unit.members));
            members.iter().for_each(|member| self.charge(*member, 1));
            if self.fits(borrowing) {
                for member in &members {
                    self.taken.remove(member);
                }
                returned.insert(lead);
            } else {
                members.iter().for_each(|member| self.charge(*member, -1));
                if let Some(unit) = self.units.get_mut(at) {
                    unit.members = members;
                }
            }
        }
        self.units.retain(|unit| !unit.members.is_empty());
        for (load, verdict) in &mut self.judged {
            if returned.remove(load) {
                *verdict = Verdict::Returned;
            }
        }
    }

    /// Returns true if the explanation is full. If the demand cannot fit anyway, the remaining candidates need no check.
    pub(in crate::scheduling::planner) fn has_enough_verdicts(&self, besides: usize) -> bool {
        self.judged.len().saturating_add(besides) > self.ask.settings.explain
    }

    /// Records that all victims together were not enough.
    pub(in crate::scheduling::planner) fn give_up(&mut self) {
        for (_, verdict) in &mut self.judged {
            if matches!(verdict, Verdict::Taken { .. }) {
                *verdict = Verdict::NotEnough;
            }
        }
    }
}
