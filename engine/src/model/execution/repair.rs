//! The repairs that an operator can make to an execution that cannot continue by itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A repair of an execution. Slots are counted from 0, in the order in which the execution shows them.
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
    /// Retry with other data: a merge patch (RFC 7396) of the workflow's data. The result must be valid data.
    Edit {
        /// The patch.
        patch: Value,
    },
    /// The slot's work has been done by other means: continue with this result.
    MarkDone {
        /// Which slot.
        slot: u32,
        /// The result of the action; `null` for an action without a result, and for an undo.
        #[serde(default)]
        output: Value,
        /// The evidence: a link, a ticket, a sentence.
        evidence: String,
    },
    /// The slot's work has certainly not been done: it may be sent again.
    MarkNotDone {
        /// Which slot.
        slot: u32,
        /// The evidence.
        evidence: String,
    },
    /// Skip an optional step, or the undo of one slot. The effects of a slot that is not undone are listed.
    Skip {
        /// Which slot's undo; `null` for a step.
        #[serde(default)]
        slot: Option<u32>,
    },
    /// Undo the slot with another undo of the workflow, or with other arguments.
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
