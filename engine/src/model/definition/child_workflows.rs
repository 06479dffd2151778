//! The child workflows that the steps of a workflow start.
//!
//! Called when a workflow is registered.

use super::child_type::ChildType;
use crate::{Step, Workflow};
use strum::VariantArray as _;

/// Returns the workflows that `W` starts, each once.
pub(crate) fn children_of<W: Workflow>() -> Vec<ChildType<W::Platform>> {
    let mut found: Vec<ChildType<W::Platform>> = Vec::new();
    for example in W::examples() {
        for &state in W::State::VARIANTS {
            let Step::Act(act) = example.step(state) else { continue };
            found.extend(
                act.child_type.filter(|kind| !found.iter().any(|known| known.workflow == kind.workflow)),
            );
        }
    }
    found
}

/// Returns the workflows that `W` starts, directly or through its children, each once.
pub(crate) fn descendants_of<W: Workflow>() -> Vec<ChildType<W::Platform>> {
    let mut found = children_of::<W>();
    let mut next = 0;
    while let Some(kind) = found.get(next) {
        for kind in (kind.children)() {
            if kind.workflow != W::NAME && !found.iter().any(|known| known.workflow == kind.workflow) {
                found.push(kind);
            }
        }
        next += 1;
    }
    found
}
