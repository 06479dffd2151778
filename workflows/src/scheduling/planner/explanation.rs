//! The explanation of a plan: every judged candidate in order, then the candidates that were not reached.

use crate::scheduling::planner::{
    Explanation, JudgedCandidate, Verdict,
    model::{
        cohort_tree::{NodeIx, TreeOverlay},
        snapshot::{LoadIx, Role, RunningLoad},
    },
    preemption::preemptor::Preemptor,
};
use std::collections::HashSet;

/// Lists the judged candidates, up to the limit in the settings.
pub(super) fn explain(ask: &Preemptor<'_>, judged: Vec<(LoadIx, Verdict)>, found: bool) -> Explanation {
    let mut list =
        List { most: ask.settings.explain, seen: HashSet::new(), explanation: Explanation::default() };
    list.explanation.contested =
        ask.contested.iter().filter_map(|kind| ask.snapshot.names.get(*kind).cloned()).collect();
    for (load, verdict) in judged {
        let Some(load) = ask.snapshot.load(load) else { continue };
        if !list.add(load, verdict) {
            return list.explanation;
        }
    }
    let sim = ask.sim();
    if !rest(ask, &sim, ask.node, found, &mut list) {
        return list.explanation;
    }
    let mut cohorts: Vec<NodeIx> = ask.above.last().into_iter().copied().collect();
    while let Some(cohort) = cohorts.pop() {
        let Some(Role::Cohort { cohorts: below, workspaces }) =
            ask.snapshot.entry(cohort).map(|entry| &entry.role)
        else {
            continue;
        };
        for workspace in workspaces.values().filter(|workspace| **workspace != ask.node) {
            if !rest(ask, &sim, *workspace, found, &mut list) {
                return list.explanation;
            }
        }
        cohorts.extend(below.values().rev());
    }
    list.explanation
}

struct List {
    most: usize,
    seen: HashSet<LoadIx>,
    explanation: Explanation,
}

impl List {
    /// Adds a workload that is not listed yet. Returns true if there is room for more.
    fn add(&mut self, load: &RunningLoad, verdict: Verdict) -> bool {
        if !self.seen.insert(load.key.load) {
            return true;
        }
        if self.explanation.candidates.len() >= self.most {
            self.explanation.cut = true;
            return false;
        }
        self.explanation.candidates.push(JudgedCandidate {
            workload: load.workload.id.clone(),
            workspace: load.workload.workspace.clone(),
            verdict,
        });
        true
    }
}

/// Lists the workloads of a workspace that were not reached. Returns true if there is room for more.
fn rest(ask: &Preemptor<'_>, sim: &TreeOverlay<'_>, workspace: NodeIx, found: bool, list: &mut List) -> bool {
    let sets = ask.contested.iter().filter_map(|kind| ask.snapshot.running(workspace, *kind));
    let mut loads = sets.flatten().filter_map(|key| ask.snapshot.load(key.load));
    let own = workspace == ask.node;
    let above = |node: &NodeIx| !sim.within(*node, &ask.contested);
    let mut path = ask.snapshot.tree.path(workspace).take_while(|node| !ask.above.contains(node));
    // Under fair sharing only the workspace itself must be above its own quota.
    let protected = !own && if ask.fair() { !above(&workspace) } else { !path.all(|node| above(&node)) };
    loads.all(|load| {
        let verdict = if ask.freed.contains(&load.key.load) {
            return true;
        } else if protected {
            Verdict::WithinNominal
        } else if !ask.allowed(load) {
            Verdict::Policy
        } else if let Some(filter) = ask.filter(load) {
            Verdict::Filtered(filter)
        } else if found {
            Verdict::NotNeeded
        } else {
            Verdict::WithinNominal
        };
        list.add(load, verdict)
    })
}
