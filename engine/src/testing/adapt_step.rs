//! Adapts a step of one workflow to another that contains its data: for tests in which a later version of a workflow
//! runs beside an earlier one.

use crate::{Act, Approval, Branch, Choose, Step, Wait, Workflow, model::definition::step::Choice};

impl<W: Workflow> Step<W> {
    /// Returns the same step for `L`, whose data contains that of `W` at `inner`. `state` maps the names of the
    /// states.
    #[must_use]
    pub fn map_workflow<L: Workflow<Platform = W::Platform>>(
        self,
        inner: fn(&mut L) -> &mut W,
        state: impl Fn(W::State) -> L::State,
    ) -> Step<L> {
        match self {
            Self::Act(act) => Step::Act(act.map_workflow(inner, state)),
            Self::Approval(approval) => Step::Approval(Approval {
                seats: approval.seats,
                within: approval.within,
                procedure: approval.procedure,
                granted: state(approval.granted),
                refused: state(approval.refused),
                expired: state(approval.expired),
            }),
            Self::Wait(wait) => Step::Wait(Wait {
                signal: wait.signal,
                earlier: wait.earlier,
                within: wait.within,
                then: state(wait.then),
                expired: state(wait.expired),
            }),
            Self::Choose(choose) => {
                let option = |choice: Choice<W::State>| Choice {
                    label: choice.label,
                    to: state(choice.to),
                    waiver: choice.waiver,
                };
                let options = choose.options.into_iter().map(option).collect();
                Step::Choose(Choose { options, chosen: choose.chosen })
            }
            Self::End(outcome) => Step::End(outcome),
        }
    }
}

impl<W: Workflow> Act<W> {
    fn map_workflow<L: Workflow<Platform = W::Platform>>(
        self,
        inner: fn(&mut L) -> &mut W,
        state: impl Fn(W::State) -> L::State,
    ) -> Act<L> {
        let branch = |branch: Branch<W>| Branch {
            action: branch.action,
            undo: branch.undo,
            record: branch.record.map(|keep| {
                let kept: crate::model::definition::step::Recorder<L> =
                    Box::new(move |outer, output| keep(inner(outer), output));
                kept
            }),
        };
        Act {
            branches: self.branches.into_iter().map(branch).collect(),
            commitment: self.commitment,
            retry: self.retry,
            attempt_within: self.attempt_within,
            heartbeat: self.heartbeat,
            within: self.within,
            at_once: self.at_once,
            keys: self.keys,
            while_pending: self.while_pending,
            next: state(self.next),
            on_failure: self.on_failure.into_iter().map(|(code, to)| (code, state(to))).collect(),
            or_else: self.or_else.map(&state),
            optional: self.optional,
            skip_to: self.skip_to.map(&state),
            child_type: self.child_type,
        }
    }
}
