//! The results of the checks.

use serde::Serialize;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ok,
    Warning,
    Failed,
}

/// One check with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The check: `configuration`, `data`, `store`, `clock`, `server`, `token`, `targets`, `audit`, `executions`, `tls`,
    /// `identity provider`, `notifications`, `traces`.
    pub(super) check: &'static str,
    pub(super) state: State,
    /// The result as text.
    pub(super) says: String,
    /// The remedy, unless the check passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// The results of all checks.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn ok(&mut self, check: &'static str, says: impl Into<String>) {
        self.0.push(Finding { check, state: State::Ok, says: says.into(), remedy: None });
    }

    pub(super) fn warning(
        &mut self,
        check: &'static str,
        says: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(State::Warning, check, says.into(), remedy.into());
    }

    pub(super) fn failed(&mut self, check: &'static str, says: impl Into<String>, remedy: impl Into<String>) {
        self.add(State::Failed, check, says.into(), remedy.into());
    }

    pub(super) fn add(&mut self, state: State, check: &'static str, says: String, remedy: String) {
        self.0.push(Finding { check, state, says, remedy: Some(remedy) });
    }

    pub(super) fn count(&self, state: State) -> usize {
        self.0.iter().filter(|finding| finding.state == state).count()
    }
}
