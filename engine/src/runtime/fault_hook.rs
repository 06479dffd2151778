//! The hook by which tests make attempts go wrong.
//!
//! Called before each attempt, if [`Options::fault_injector`](crate::Options::fault_injector) is set.

use crate::{ActionError, Call};
use serde_json::Value;

/// Bends attempts, so that a sweep can try every way in which one can go wrong.
pub trait FaultInjector: Send + Sync + 'static {
    /// What to do to the attempt of the action `name` that `call` describes.
    fn inject(&self, name: &str, arguments: &Value, call: &Call) -> InjectedFault;
}

/// One way to bend an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum InjectedFault {
    /// Leave it alone.
    NoFault,
    /// Report this without performing it.
    Before(ActionError),
    /// Perform it, and report this.
    After(ActionError),
    /// Perform it twice.
    Twice,
}
