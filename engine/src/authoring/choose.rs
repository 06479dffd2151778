//! Builds a step that chooses by the data, and the end of a workflow.

use crate::{Choose, Outcome, Rule, StateSet, Step, Workflow, model::definition::step::Choice};

/// A choice by the data: the first condition that is true.
#[must_use = "say .otherwise(..)"]
pub struct ChooseBuilder<S> {
    options: Vec<Choice<S>>,
    chosen: Option<usize>,
}

/// Takes this edge if `condition` is true.
pub fn when<S: StateSet>(condition: bool, label: &'static str, to: S) -> ChooseBuilder<S> {
    ChooseBuilder { options: Vec::new(), chosen: None }.or_when(condition, label, to)
}
impl<S: StateSet> ChooseBuilder<S> {
    /// Takes this edge if `condition` is true and no earlier one was.
    pub fn or_when(mut self, condition: bool, label: &'static str, to: S) -> Self {
        if condition && self.chosen.is_none() {
            self.chosen = Some(self.options.len());
        }
        self.options.push(Choice { label, to, waiver: None });
        self
    }

    /// Makes the previous edge a waiver: a rule of policy replaces the approval.
    pub fn waived_by(mut self, rule: Rule) -> Self {
        if let Some(option) = self.options.last_mut() {
            option.waiver = Some(rule);
        }
        self
    }

    /// Takes this edge if no condition was true.
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
