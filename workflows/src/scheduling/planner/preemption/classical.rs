//! Kueue's classical preemption: preempts workloads of workspaces above their nominal quota, by precedence in the tree and by priority.

use crate::scheduling::planner::{
    Attempt, Reason, Verdict,
    model::{
        cohort_tree::{KindIx, NodeIx, TreeOverlay},
        snapshot::{LoadIx, RunningLoad},
    },
    preemption::{
        attempt::PreemptionRun,
        candidates::{self, Merge, Queue, Source},
        preemptor::Preemptor,
    },
};
use std::collections::HashSet;

/// Workspaces with candidates, by the precedence of the demand over them.
struct Found {
    /// Workspaces that use quota of a subtree into which the demand fits.
    hierarchical: Vec<Source>,
    /// Workspaces that are preempted by priority, or if the demand does not borrow.
    priority: Vec<Source>,
    own: Vec<Source>,
}

/// Runs the attempts in order. Returns the last, and true if the demand fits.
pub(in crate::scheduling::planner) fn run<'a, 'b>(
    ask: &'b Preemptor<'a>,
    placed: bool,
    first: &HashSet<LoadIx>,
    attempts: &mut Vec<Attempt>,
) -> (PreemptionRun<'a, 'b>, Option<bool>) {
    let sim = ask.sim();
    let found = find(ask, &sim);
    let mut run = PreemptionRun::new(ask, placed, first.clone());
    for borrowing in modes(ask, &sim, &found) {
        run = PreemptionRun::new(ask, placed, first.clone());
        let fits = attempt(&mut run, &found, borrowing);
        attempts.push(Attempt { borrowing, nodes: Vec::new(), fits });
        if fits {
            run.fill_back(borrowing);
            return (run, Some(borrowing));
        }
        run.give_up();
    }
    (run, None)
}

/// Returns the borrowing modes in the order of their attempts. Kueue fixed this order before it introduced precedence.
///
/// Skips the mode without borrowing if the demand exceeds its own quota.
fn modes(ask: &Preemptor<'_>, sim: &TreeOverlay<'_>, found: &Found) -> Vec<bool> {
    let hierarchical = candidates::any(ask, &found.hierarchical);
    let others = hierarchical || candidates::any(ask, &found.priority);
    let under = ask.contested.iter().all(|kind| below(ask, sim, *kind));
    let mut modes = if !others || (ask.borrowing_forbidden() && !under) {
        vec![true]
    } else if ask.borrowing_forbidden() && !hierarchical {
        vec![false, true]
    } else {
        vec![true, false]
    };
    let own = |kind| ask.snapshot.tree.row(ask.node, kind).subtree;
    let more = ask.requests.iter().any(|(kind, amount)| *amount > own(*kind));
    modes.retain(|borrowing| *borrowing || !more);
    modes
}

/// Returns true if the workspace uses less than its nominal quota.
fn below(ask: &Preemptor<'_>, sim: &TreeOverlay<'_>, kind: KindIx) -> bool {
    sim.usage(ask.node, kind) < ask.snapshot.tree.row(ask.node, kind).subtree
}

fn find(ask: &Preemptor<'_>, sim: &TreeOverlay<'_>) -> Found {
    let own = if ask.never(true) { Vec::new() } else { vec![Source { node: ask.node, common: None }] };
    let mut found = Found { hierarchical: Vec::new(), priority: Vec::new(), own };
    if ask.never(false) {
        return found;
    }
    let (mut precedence, mut rest) = covers(sim, ask.node, ask.requests.clone());
    let mut done = None;
    for cohort in &ask.above {
        let into = if precedence { &mut found.hierarchical } else { &mut found.priority };
        collect(ask, sim, *cohort, done, into);
        let (fits, left) = covers(sim, *cohort, rest);
        precedence |= fits;
        rest = left;
        done = Some(*cohort);
    }
    found
}

/// Returns true if requests fit into a node's own quota, and the remaining amounts for the node above.
fn covers(
    sim: &TreeOverlay<'_>,
    node: NodeIx,
    mut requests: Vec<(KindIx, i128)>,
) -> (bool, Vec<(KindIx, i128)>) {
    let mut fits = true;
    for (kind, amount) in &mut requests {
        fits &= !sim.borrows_with(node, *kind, *amount);
        let kept = (sim.tree.row(node, *kind).local() - sim.usage(node, *kind)).max(0);
        *amount = (*amount - kept).max(0);
    }
    (fits, requests)
}

/// Collects workspaces below a cohort that exceed their own quota, through cohorts that also do.
fn collect(
    ask: &Preemptor<'_>,
    sim: &TreeOverlay<'_>,
    common: NodeIx,
    skip: Option<NodeIx>,
    into: &mut Vec<Source>,
) {
    let mut open = vec![common];
    while let Some(cohort) = open.pop() {
        for child in ask.over_quota_children(sim, cohort) {
            if ask.snapshot.is_workspace(child) {
                into.push(Source { node: child, common: Some(common) });
            } else if Some(child) != skip {
                open.push(child);
            }
        }
    }
}

fn attempt<'a>(run: &mut PreemptionRun<'a, '_>, found: &Found, borrowing: bool) -> bool {
    let hopeless = !could_fit(run.ask, found, borrowing);
    let preferred: &[bool] = if run.first.is_empty() { &[false] } else { &[true, false] };
    for preferred in preferred {
        let mut lists = [&found.hierarchical, &found.priority, &found.own]
            .map(|sources| -> Queue<'a, '_> { Merge::new(run.ask, sources).peekable() });
        for settled in [false, true] {
            for (precedence, list) in [true, false, false].into_iter().zip(&mut lists) {
                while let Some((load, source)) = list.next_if(|(load, _)| load.key.settled == settled) {
                    if run.first.contains(&load.key.load) != *preferred {
                        continue;
                    }
                    if hopeless && run.has_enough_verdicts(0) {
                        return false;
                    }
                    if consider(run, load, source, precedence, borrowing) && run.fits(borrowing) {
                        return true;
                    }
                }
            }
        }
    }
    false
}

/// Returns true if the demand fits once every candidate of this attempt is preempted. If not, candidates are checked only for the explanation.
fn could_fit(ask: &Preemptor<'_>, found: &Found, borrowing: bool) -> bool {
    let mut sim = ask.sim();
    let by_priority = !borrowing || !ask.borrowing_forbidden();
    let by_priority = found.priority.iter().filter(|_| by_priority);
    for source in found.hierarchical.iter().chain(&found.own).chain(by_priority) {
        for (kind, _) in &ask.requests {
            let used = sim.usage(source.node, *kind);
            sim.charge(source.node, *kind, -used);
        }
    }
    ask.fits(&sim, borrowing)
}

/// Preempts a candidate if this attempt and the current state allow it.
fn consider<'a>(
    run: &mut PreemptionRun<'a, '_>,
    load: &'a RunningLoad,
    source: Source,
    precedence: bool,
    borrowing: bool,
) -> bool {
    if run.is_taken(load) {
        return false;
    }
    if !run.ask.allowed(load) {
        run.record_verdict(load, Verdict::Policy);
        return false;
    }
    if let Some(filter) = run.ask.filter(load) {
        run.record_verdict(load, Verdict::Filtered(filter));
        return false;
    }
    let reason = match source.common {
        None => Reason::InClusterQueue,
        Some(common) => {
            let while_borrowing = run.ask.while_borrowing(load);
            if borrowing && !precedence && !while_borrowing {
                run.record_verdict(load, Verdict::OnlyWithoutBorrowing);
                return false;
            }
            if !still_above(run, load, common) {
                run.record_verdict(load, Verdict::WithinNominal);
                return false;
            }
            if !precedence && while_borrowing {
                Reason::InCohortReclaimWhileBorrowing
            } else {
                Reason::InCohortReclamation
            }
        }
    };
    run.take(load, reason)
}

/// Returns true if the workload's workspace and every cohort below the common one still exceed their own quota.
fn still_above(run: &PreemptionRun<'_, '_>, load: &RunningLoad, common: NodeIx) -> bool {
    let path = run.ask.snapshot.tree.path(load.node).take_while(|node| *node != common);
    path.into_iter().all(|node| !run.sim.within(node, &run.ask.contested))
}
