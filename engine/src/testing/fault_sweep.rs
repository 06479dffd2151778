//! The runs of a verification, and how each must end.

use super::{
    report::{Family, Report},
    run::{Run, run},
    scenario::{Fault, Scenario, differences},
    script::{Answer, CrashPoint, Interruption, Point, RunEnd, Script},
};
use crate::{
    Error, Outcome, Reason, Workflow, check, diagram, model::definition::child_workflows::descendants_of,
};
use std::collections::{BTreeSet, HashSet, VecDeque};

/// The faults of forward actions.
const FORWARD: [Fault; 5] =
    [Fault::FailsBefore, Fault::FailsAfter, Fault::Twice, Fault::LostBefore, Fault::LostAfter];
/// The faults of undos.
const BACKWARD: [Fault; 4] = [Fault::Twice, Fault::LostBefore, Fault::LostAfter, Fault::FailsForever];
/// The most runs that search for edges, for each scenario.
const MAX_EXPLORED: usize = 600;
/// The same for a scenario that is not thorough.
const MAX_GLANCED: usize = 60;

/// Verifies `W` in each scenario, with every fault, crash and interruption of this module.
///
/// # Errors
/// Returns an error if a scenario itself does not work.
pub async fn verify<W: Workflow>(scenes: &[&dyn Scenario<W>]) -> Result<Report, Error> {
    Ok(verify_all(Report::of(&diagram::<W>()), false, scenes).await?.report)
}

/// Same as [`verify`], and also requires every edge of the child workflows of `W`. Use it for workflows that run only
/// as children.
///
/// # Errors
/// Returns an error if a scenario itself does not work.
pub async fn verify_with_children<W: Workflow>(scenes: &[&dyn Scenario<W>]) -> Result<Report, Error> {
    Ok(verify_all(with_edges_of_children::<W>(), true, scenes).await?.report)
}

/// Same as [`verify_with_children`], with a second report for `C`, which `W` starts. It has the edges and undos that
/// executions of `C` took, and all violations.
///
/// # Errors
/// Returns an error if a scenario itself does not work.
pub async fn verify_with_child<W: Workflow, C: Workflow>(
    scenes: &[&dyn Scenario<W>],
) -> Result<(Report, Report), Error> {
    let Sweep { report, family, .. } = verify_all(with_edges_of_children::<W>(), true, scenes).await?;
    let child = report.of_child(&diagram::<C>(), family);
    Ok((report, child))
}

fn with_edges_of_children<W: Workflow>() -> Report {
    let mut report = Report::of(&diagram::<W>());
    for kind in descendants_of::<W>() {
        report.edges.extend(Report::of(&(kind.machine)().diagram()).edges);
    }
    report
}

async fn verify_all<W: Workflow>(
    report: Report,
    children: bool,
    scenes: &[&dyn Scenario<W>],
) -> Result<Sweep, Error> {
    let mut sweep = Sweep { report, children, family: Family::default(), known: BTreeSet::new() };
    sweep.report.violations = check::<W>().iter().map(ToString::to_string).collect();
    if !sweep.report.violations.is_empty() {
        return Ok(sweep);
    }
    for scene in scenes {
        sweep.run_scenario(*scene).await?;
    }
    Ok(sweep)
}

struct Sweep {
    report: Report,
    /// True if the edges of children count too.
    children: bool,
    /// The edges and undos of children.
    family: Family,
    /// Leftovers that were already reported, so that each cause is reported once, with its own fault.
    known: BTreeSet<String>,
}

impl Sweep {
    async fn run_scenario<W: Workflow>(&mut self, scene: &dyn Scenario<W>) -> Result<(), Error> {
        let clean = self.try_one(scene, "undisturbed", &Script::default(), None, "undisturbed").await?;
        for deed in &clean.deeds {
            self.report.actions.insert(deed.name.clone());
        }
        if scene.is_exhaustive() {
            self.faults(scene, &clean).await?;
            self.crashes(scene, &clean).await?;
        }
        self.interruptions(scene, &clean).await?;
        if scene.is_exhaustive() && !clean.child_edges.is_empty() {
            self.families(scene, &clean).await?;
        }
        self.explore(scene, &clean).await
    }

    /// Runs with child executions: tasks in the opposite order, and a cancelled child.
    async fn families<W: Workflow>(&mut self, scene: &dyn Scenario<W>, clean: &Run) -> Result<(), Error> {
        let backwards = Script { backwards: true, ..Script::default() };
        let base = self.try_one(scene, "backwards", &backwards, Some(clean), "the last task first").await?;
        if base.end != clean.end {
            self.complain(scene, "the last task first", &format!("it ended {:?}", base.end));
        }
        self.cut_everywhere(scene, &backwards, &base, Some(clean), "while going backwards").await?;
        for nth in 1..=clean.commits {
            for backwards in [false, true] {
                let interruption = Some(Interruption::CancelChild(nth));
                let script = Script { interruption, backwards, ..Script::default() };
                let what = format!("a cancel of a child after commit {nth}");
                self.try_one(scene, "child cancelled", &script, None, &what).await?;
            }
            let interruption = Some(Interruption::Cancel(nth));
            let script = Script { interruption, backwards: true, ..Script::default() };
            let what = format!("a cancel after commit {nth}, the last task first");
            self.try_one(scene, "cancelled, backwards", &script, None, &what).await?;
        }
        Ok(())
    }

    /// Tries each forward action with each fault; then each undo with each fault, on the run with the longest
    /// compensation.
    async fn faults<W: Workflow>(&mut self, scene: &dyn Scenario<W>, clean: &Run) -> Result<(), Error> {
        let mut longest: Option<(Script, Run)> = None;
        for (nth, deed) in clean.deeds.iter().enumerate() {
            for fault in FORWARD {
                let script = script_with_fault(Point { nth, undo: false }, fault, None);
                let what = format!("{} in {} {fault}", deed.name, deed.state);
                let tried =
                    self.try_one(scene, &format!("{fault}, forward"), &script, Some(clean), &what).await?;
                let length = |run: &Run| run.deeds.iter().filter(|deed| deed.undo).count();
                if fault == Fault::FailsAfter
                    && longest.as_ref().is_none_or(|(_, best)| length(best) <= length(&tried))
                {
                    longest = Some((script, tried));
                }
            }
        }
        let Some((script, base)) = longest else { return Ok(()) };
        for (nth, deed) in base.deeds.iter().filter(|deed| deed.undo).enumerate() {
            for fault in BACKWARD {
                let mut script = script.clone();
                script.faults.push((Point { nth, undo: true }, fault, None));
                let what = format!("undo {} of {} {fault}", deed.name, deed.state);
                self.try_one(scene, &format!("{fault}, undo"), &script, None, &what).await?;
            }
        }
        self.cut_everywhere(scene, &script, &base, None, "while turning back").await
    }

    async fn crashes<W: Workflow>(&mut self, scene: &dyn Scenario<W>, clean: &Run) -> Result<(), Error> {
        self.cut_everywhere(scene, &Script::default(), clean, Some(clean), "while going forward").await
    }

    async fn cut_everywhere<W: Workflow>(
        &mut self,
        scene: &dyn Scenario<W>,
        script: &Script,
        base: &Run,
        clean: Option<&Run>,
        when: &str,
    ) -> Result<(), Error> {
        for nth in 1..=base.commits {
            for (cut, side) in [(CrashPoint::Before(nth), "before"), (CrashPoint::After(nth), "after")] {
                let script = Script { crash_point: Some(cut), ..script.clone() };
                let what = format!("a crash {side} commit {nth} {when}");
                let run = self
                    .try_one(scene, &format!("crash {side} a commit {when}"), &script, clean, &what)
                    .await?;
                // A repeated attempt counts as one more, so the fault may hit another action, perhaps of a child,
                // which may also run in another order. Without children, all attempts at the same action are
                // equivalent.
                let alike = if run.child_edges.is_empty() {
                    bent_in(&run) == bent_in(base)
                } else {
                    run.first_faulted == base.first_faulted
                };
                if alike && run.end != base.end {
                    self.complain(scene, &what, &format!("it ended {:?} instead of {:?}", run.end, base.end));
                }
            }
        }
        Ok(())
    }

    async fn interruptions<W: Workflow>(
        &mut self,
        scene: &dyn Scenario<W>,
        clean: &Run,
    ) -> Result<(), Error> {
        for nth in 1..=clean.commits {
            let cancel = Script { interruption: Some(Interruption::Cancel(nth)), ..Script::default() };
            self.try_one(scene, "cancelled", &cancel, None, &format!("a cancel after commit {nth}")).await?;
            let pause = Script { interruption: Some(Interruption::PauseAndResume(nth)), ..Script::default() };
            let what = format!("a pause after commit {nth}");
            self.try_one(scene, "paused and resumed", &pause, Some(clean), &what).await?;
        }
        let middle = clean.commits / 2;
        let script = Script { interruption: Some(Interruption::Terminate(middle)), ..Script::default() };
        let run = self.try_one(scene, "terminated", &script, None, "a termination").await?;
        if middle > 1 && !matches!(run.end, RunEnd::Finished(Outcome::Terminated | Outcome::Completed)) {
            self.complain(scene, "a termination", &format!("it ended {:?}", run.end));
        }
        Ok(())
    }

    /// Answers approvals differently, and fails actions with the codes of edges, until every edge is taken or a run
    /// finds no new edge.
    async fn explore<W: Workflow>(&mut self, scene: &dyn Scenario<W>, clean: &Run) -> Result<(), Error> {
        let mut seen: HashSet<Script> = HashSet::from([Script::default()]);
        let mut queue: VecDeque<Script> = self.variations(&Script::default(), clean).into();
        let mut explored = 0;
        let most = if scene.is_exhaustive() { MAX_EXPLORED } else { MAX_GLANCED };
        while let Some(script) = queue.pop_front() {
            if !seen.insert(script.clone()) || explored >= most {
                continue;
            }
            explored += 1;
            let what = format!("answers {:?} with {:?}", script.answers, script.faults);
            let run = self.try_one(scene, "other answers", &script, None, &what).await?;
            if !self.report.uncovered().is_empty() {
                queue.extend(self.variations(&script, &run));
            }
        }
        Ok(())
    }

    fn variations(&self, script: &Script, run: &Run) -> Vec<Script> {
        let mut found = Vec::new();
        for (place, others) in run.questions.iter().enumerate() {
            let given = |at: usize| script.answers.get(at).copied().unwrap_or(Answer::Yes);
            if given(place) != Answer::Yes {
                continue;
            }
            for other in others {
                let answers = (0..place).map(given).chain([*other]).collect();
                found.push(Script { answers, ..script.clone() });
            }
        }
        let forward = run.deeds.iter().filter(|deed| !deed.undo).enumerate();
        for (nth, deed) in forward {
            let untaken =
                self.report.edges.difference(&self.report.taken_edges).filter(|edge| edge.from == deed.state);
            for edge in untaken.filter(|edge| edge.label != crate::model::definition::step::DONE) {
                let code = (edge.label != "failed").then(|| edge.label.clone());
                let mut script = script.clone();
                script.faults.push((Point { nth, undo: false }, Fault::FailsBefore, code));
                found.push(script);
            }
        }
        found
    }

    /// Runs and judges one run. If it goes the same way as `clean`, it must end the same way.
    async fn try_one<W: Workflow>(
        &mut self,
        scene: &dyn Scenario<W>,
        kind: &str,
        script: &Script,
        clean: Option<&Run>,
        what: &str,
    ) -> Result<Run, Error> {
        let run = run(scene, script).await?;
        self.report.count(kind);
        self.report.taken_edges.extend(run.edges.iter().cloned());
        self.report.taken_edges.extend(run.child_edges.iter().flatten().filter(|_| self.children).cloned());
        self.report.undone.extend(run.undone.iter().cloned());
        self.family.taken.extend(run.child_edges.iter().flatten().cloned());
        self.family.undone.extend(run.family_undone.iter().cloned());
        for complaint in &run.complaints {
            self.complain(scene, what, complaint);
        }
        for wrong in wrong_ends(&run, script) {
            self.complain(scene, what, &wrong);
        }
        let expected = match run.end {
            RunEnd::Finished(Outcome::Completed) => {
                let alike = |clean: &&Run| clean.edges == run.edges && clean.child_edges == run.child_edges;
                clean.filter(alike).map(|clean| &clean.after)
            }
            RunEnd::Finished(Outcome::Terminated) => None,
            RunEnd::Finished(_) if run.past_pivot || run.left_effects => None,
            RunEnd::Finished(_) => Some(&run.before),
            RunEnd::Parked(_) | RunEnd::Restless(_) => None,
        };
        let left = expected.map_or_else(Vec::new, |expected| differences(expected, &run.after));
        let fresh: Vec<_> = left.into_iter().filter(|line| self.known.insert(line.clone())).collect();
        if !fresh.is_empty() {
            self.complain(scene, what, &fresh.join("; "));
        }
        Ok(run)
    }

    fn complain<W: Workflow>(&mut self, scene: &dyn Scenario<W>, what: &str, wrong: &str) {
        let complaint = format!("{}: {what}: {wrong}", scene.name());
        if self.report.violations.len() < 50 && !self.report.violations.contains(&complaint) {
            self.report.violations.push(complaint);
        }
    }
}

/// Returns the first action with a fault, without the number of the attempt.
fn bent_in(run: &Run) -> Option<&str> {
    run.first_faulted.as_deref().map(|bent| bent.rsplit_once(' ').map_or(bent, |(place, _attempt)| place))
}

fn script_with_fault(point: Point, fault: Fault, code: Option<String>) -> Script {
    Script { faults: vec![(point, fault, code)], ..Script::default() }
}

fn refusals(script: &Script) -> usize {
    script.answers.iter().filter(|answer| **answer != Answer::Yes).count()
}

/// Returns the ends and parking reasons that are never allowed.
fn wrong_ends(run: &Run, script: &Script) -> Vec<String> {
    let mut wrong = Vec::new();
    match &run.end {
        RunEnd::Restless(doing) => wrong.push(format!("it never ends: {doing}")),
        // Another child may be refused again.
        RunEnd::Parked(_) if !run.child_edges.is_empty() && refusals(script) > 1 => {}
        RunEnd::Parked(reason) => wrong.push(format!("it is parked again after a retry: {reason:?}")),
        RunEnd::Finished(_) => {}
    }
    let undo_bent = script.faults.iter().any(|(point, fault, _)| point.undo && *fault == Fault::FailsForever);
    match run.parked {
        Some(Reason::CompensationBlocked) if !undo_bent => {
            wrong.push("an undo failed without a fault".into())
        }
        Some(Reason::PastPivotFailure) if !run.past_pivot => wrong.push("parked before the pivot".into()),
        Some(Reason::LimitReached | Reason::Poisoned | Reason::CommitRefused | Reason::Overdue) => {
            wrong.push(format!("parked for {:?}", run.parked))
        }
        Some(
            Reason::CompensationBlocked
            | Reason::PastPivotFailure
            | Reason::ProtectionFailed
            | Reason::OutcomeUnknown,
        )
        | None => {}
    }
    wrong
}
