//! Child workflows: the builder, the registry of their types, and the slots that start, await and cancel them.
//!
//! Called by authors and by the worker. Invariant: a slot starts one child, and the commit that ends the child wakes
//! the slot.

pub(crate) mod build;
pub(crate) mod child_workflows;
pub(crate) mod offspring;
pub(crate) mod run;
