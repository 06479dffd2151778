//! Actions without an engine: their call metadata, and each action with its undo.

pub mod calls;
pub mod pairs;
