//! Builds a step that chooses by the data, and the end of a workflow.

use crate::{Choose, Outcome, Rule, StateSet, Step, Workflow, model::definition::step::Choice};

/// A choice that the data makes: the first condition that holds.
#[must_use = "say .otherwise(..)"]
pub struct ChooseBuilder<S> {
    options: Vec<Choice<S>>,
    chosen: Option<usize>,
}

/// Takes this way if `condition` holds.
pub fn when<S: StateSet>(condition: bool, label: &'static str, to: S) -> ChooseBuilder<S> {
    ChooseBuilder { options: Vec::new(), chosen: None }.or_when(condition, label, to)
}
impl<S: StateSet> ChooseBuilder<S> {
    /// Takes this way if `condition` holds and none before did.
    pub fn or_when(mut self, condition: bool, label: &'static str, to: S) -> Self {
        if condition && self.chosen.is_none() {
            self.chosen = Some(self.options.len());
        }
        self.options.push(Choice { label, to, waiver: None });
        self
    }

    /// The way just named stands for the consent of people, by a rule of policy.
    pub fn waived_by(mut self, rule: Rule) -> Self {
        if let Some(option) = self.options.last_mut() {
            option.waiver = Some(rule);
        }
        self
    }

    /// Takes this way if no condition held.
    pub fn otherwise<W: Workflow<State = S>>(mut self, label: &'static str, to: S) -> Step<W> {
        let taken = self.chosen.unwrap_or(self.options.len());
        self.options.push(Choice { label, to, waiver: None });
        Step::Choose(Choose { options: self.options, chosen: taken })
    }
}

/// Ends the execution.
pub fn end<W: Workflow>(outcome: Outcome) -> Step<W> {
    Step::End(outcome)
}
