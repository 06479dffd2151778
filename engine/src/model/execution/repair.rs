//! The repairs that an operator can make to an execution that cannot go on by itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A way to mend an execution. Which slot is meant is counted from 0, as the execution shows its slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumDiscriminants)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
#[strum(serialize_all = "snake_case")]
#[strum_discriminants(
    name(RepairKind),
    derive(strum::IntoStaticStr, strum::EnumString, strum::VariantArray, Hash, PartialOrd, Ord)
)]
#[strum_discriminants(
    strum(serialize_all = "snake_case"),
    doc = "The kinds of [`Repair`], as settings name them."
)]
pub enum Repair {
    /// Try again with other data: a merge patch (RFC 7396) of the workflow's data, which must still be readable as such.
    Edit {
        /// The patch.
        patch: Value,
    },
    /// The slot's work has been done, by hand or as it turned out: go on with this result.
    MarkDone {
        /// Which slot.
        slot: u32,
        /// What the action would have answered; `null` for one that answers nothing, and for an undo.
        #[serde(default)]
        output: Value,
        /// What shows it: a link, a ticket, a sentence.
        evidence: String,
    },
    /// The slot's work has certainly not been done: it may be sent again.
    MarkNotDone {
        /// Which slot.
        slot: u32,
        /// What shows it.
        evidence: String,
    },
    /// Go on without: the step, if its author allows it, or the undo of one slot, whose work then stays and is listed.
    Skip {
        /// Which slot's undo; `null` for a step.
        #[serde(default)]
        slot: Option<u32>,
    },
    /// Undo the slot's work by another undo that the workflow has, or with other arguments.
    UndoWith {
        /// Which slot.
        slot: u32,
        /// The undo's name.
        undo: String,
        /// Its arguments.
        arguments: Value,
    },
}

impl Repair {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }
}
