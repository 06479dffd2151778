//! The hook with which tests inject faults into attempts.
//!
//! Called before each attempt if [`Options::fault_injector`](crate::Options::fault_injector) is set.

use crate::{ActionError, Call};
use serde_json::Value;

/// Injects faults into attempts, so that a sweep can try every failure.
pub trait FaultInjector: Send + Sync + 'static {
    /// Returns the fault for the attempt of the action `name` that `call` describes.
    fn inject(&self, name: &str, arguments: &Value, call: &Call) -> InjectedFault;

    /// Returns the error that replaces the answer of a probe that found the action done. `None` keeps the answer.
    fn inject_probe(&self, _name: &str, _arguments: &Value, _call: &Call) -> Option<ActionError> {
        None
    }
}

/// A fault of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum InjectedFault {
    /// No fault.
    NoFault,
    /// Report this result without running the action.
    Before(ActionError),
    /// Run the action, and report this result.
    After(ActionError),
    /// Run the action twice.
    Twice,
}
