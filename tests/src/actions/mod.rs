//! Actions without an engine: the calls that they get, and each action with the one that undoes it.

pub mod calls;
pub mod pairs;
