//! Kueue's fair sharing: preempts workloads of the workspace with the highest share, as long as the demand's workspace stays below it.

use crate::scheduling::planner::{
    Algorithm, Attempt, Reason, Strategy, Verdict,
    model::{
        cohort_tree::NodeIx,
        snapshot::{LoadIx, RunningLoad},
    },
    preemption::{
        attempt::PreemptionRun, candidates::Source, dominant_share::Share, preemptor::Preemptor,
        tournament::Tournament,
    },
};
use std::collections::HashSet;

/// Preempts from the highest share down until the demand fits. Returns true if it fits.
pub(in crate::scheduling::planner) fn run<'a, 'b>(
    ask: &'b Preemptor<'a>,
    placed: bool,
    first: &HashSet<LoadIx>,
    attempts: &mut Vec<Attempt>,
) -> (PreemptionRun<'a, 'b>, Option<bool>) {
    let mut run = PreemptionRun::new(ask, placed, first.clone());
    let sources = sources(ask, &run);
    // Shares include the demand as if it were admitted.
    arrive(&mut run, 1);
    let within = run.sim.within(ask.node, &ask.contested);
    let strategies = match &ask.settings.algorithm {
        Algorithm::Fair { strategies } => strategies.as_slice(),
        Algorithm::Classical => &[],
    };
    let strategy = strategies.first().copied().unwrap_or(Strategy::LessThanOrEqualToFinalShare);
    let second = strategies.is_empty() || strategies.len() > 1;

    let preferred: &[bool] = if first.is_empty() { &[false] } else { &[true, false] };
    let mut kept = Vec::new();
    let mut fits = preferred.iter().any(|preferred| {
        let only = |load: &RunningLoad| first.contains(&load.key.load) == *preferred;
        take_in_turn(&mut run, &sources, within, strategy, only, &mut kept)
    });
    if !fits && second {
        fits = second_chance(&mut run, kept.clone());
    }
    arrive(&mut run, -1);

    attempts.push(Attempt { borrowing: true, nodes: Vec::new(), fits });
    if fits {
        run.fill_back(true);
    } else {
        run.give_up();
    }
    let judged: HashSet<LoadIx> = run.judged.iter().map(|(load, _)| *load).collect();
    for load in kept.into_iter().filter(|load| !judged.contains(&load.key.load)) {
        run.record_verdict(load, Verdict::Fairness);
    }
    (run, fits.then_some(true))
}

fn sources(ask: &Preemptor<'_>, run: &PreemptionRun<'_, '_>) -> Vec<Source> {
    let mut sources = Vec::new();
    if !ask.never(true) {
        sources.push(Source { node: ask.node, common: None });
    }
    if !ask.never(false) {
        let above: HashSet<NodeIx> = ask.above.iter().copied().collect();
        let common = |node| ask.snapshot.tree.path(node).skip(1).find(|cohort| above.contains(cohort));
        let others = ask.borrowers(&run.sim).into_iter();
        sources.extend(others.map(|node| Source { node, common: common(node) }));
    }
    sources
}

fn arrive(run: &mut PreemptionRun<'_, '_>, sign: i128) {
    for (kind, amount) in &run.ask.requests {
        run.sim.charge(run.ask.node, *kind, sign * amount);
    }
}

/// Returns true if the demand fits, with its own amounts included in the shares.
fn fits(run: &mut PreemptionRun<'_, '_>) -> bool {
    arrive(run, -1);
    let fits = run.fits(true);
    arrive(run, 1);
    fits
}

/// First rule: preempts own workloads by priority, and others while the rule allows it. If the demand is within its own quota, shares do not matter.
fn take_in_turn<'a>(
    run: &mut PreemptionRun<'a, '_>,
    sources: &[Source],
    within: bool,
    strategy: Strategy,
    only: impl Fn(&RunningLoad) -> bool,
    kept: &mut Vec<&'a RunningLoad>,
) -> bool {
    let ask = run.ask;
    let mut turn = Tournament::of_running(ask, &run.sim, sources);
    while let Some(node) = turn.next() {
        let own = node == ask.node;
        let shares = (!own && !within).then(|| both(&mut turn, run, node));
        // A removed workload only lowers a share. If the full share is too low, no workload of the workspace passes. The second rule checks only its first
        // workload; the others are kept for the explanation.
        let in_vain = shares.is_some_and(|(ours, before)| match strategy {
            Strategy::LessThanInitialShare => ours >= before,
            Strategy::LessThanOrEqualToFinalShare => ours > before,
        });
        let mut first = true;
        while let Some(load) = turn.pop(node) {
            if !only(load) || run.is_taken(load) {
                continue;
            }
            if in_vain {
                if !std::mem::take(&mut first) && run.has_enough_verdicts(kept.len()) {
                    turn.drop(node);
                    break;
                }
                kept.push(load);
                continue;
            }
            let reason = match shares {
                None if own => Reason::InClusterQueue,
                None => Reason::InCohortReclamation,
                Some((ours, before)) => {
                    if !passes(&mut turn, run, load, strategy, ours, before) {
                        kept.push(load);
                        continue;
                    }
                    Reason::InCohortFairSharing
                }
            };
            if run.take(load, reason) && fits(run) {
                return true;
            }
            break;
        }
        turn.refresh(&run.sim, node);
    }
    false
}

fn passes(
    turn: &mut Tournament<'_, '_>,
    run: &mut PreemptionRun<'_, '_>,
    load: &RunningLoad,
    strategy: Strategy,
    ours: Share,
    before: Share,
) -> bool {
    match strategy {
        Strategy::LessThanInitialShare => ours < before,
        Strategy::LessThanOrEqualToFinalShare => {
            charge(run, load, -1);
            let (_, theirs) = below_common(run.ask, load.node);
            let after = turn.share(&run.sim, theirs);
            charge(run, load, 1);
            ours <= after
        }
    }
}

fn charge(run: &mut PreemptionRun<'_, '_>, load: &RunningLoad, sign: i128) {
    for (kind, amount) in &load.usage {
        run.sim.charge(load.node, *kind, sign * amount);
    }
}

/// Second rule, for the remaining candidates: preempts one workload of each workspace whose share exceeds the demand's.
fn second_chance<'a>(run: &mut PreemptionRun<'a, '_>, kept: Vec<&'a RunningLoad>) -> bool {
    let mut turn = Tournament::from_sorted(run.ask, &run.sim, kept);
    while let Some(node) = turn.next() {
        let (ours, before) = both(&mut turn, run, node);
        if ours < before
            && let Some(load) = turn.pop(node)
            && !run.is_taken(load)
            && run.take(load, Reason::InCohortFairSharing)
            && fits(run)
        {
            return true;
        }
        turn.drop(node);
        turn.refresh(&run.sim, node);
    }
    false
}

/// Returns the shares of the demand's and the other branch, just below their common cohort.
fn both(turn: &mut Tournament<'_, '_>, run: &PreemptionRun<'_, '_>, node: NodeIx) -> (Share, Share) {
    let (ours, theirs) = below_common(run.ask, node);
    (turn.share(&run.sim, ours), turn.share(&run.sim, theirs))
}

fn below_common(ask: &Preemptor<'_>, node: NodeIx) -> (NodeIx, NodeIx) {
    let tree = &ask.snapshot.tree;
    let mut theirs = node;
    for cohort in tree.path(node).skip(1) {
        if let Some(at) = ask.above.iter().position(|above| *above == cohort) {
            let ours = at.checked_sub(1).and_then(|below| ask.above.get(below)).copied();
            return (ours.unwrap_or(ask.node), theirs);
        }
        theirs = cohort;
    }
    (ask.node, theirs)
}
