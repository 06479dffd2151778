//! The fields that executions can be searched by.

use crate::{Outcome, Reason};
use strum::VariantArray as _;

/// The phases of an execution, as records name them.
pub(super) const PHASES: &[&str] = &["forward", "compensating", "parked", "paused", "finished"];

/// A field of the filter language, by its written name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Field {
    /// The tenant.
    Tenant,
    /// The workflow.
    Workflow,
    /// The state.
    State,
    /// The phase.
    Phase,
    /// Why an operator must act, or the outcome.
    Reason,
    /// The subject.
    Subject,
    /// Same as [`Field::Subject`].
    Resource,
    /// The requester.
    RequestedBy,
    /// True until it has finished.
    Open,
    /// The current action or undo.
    Action,
    /// The latest error.
    Error,
    /// A role that may approve, or a person who has voted.
    Approver,
    /// A role of an open approval.
    Asked,
    /// A person who has voted.
    Voted,
    /// The parent execution.
    Parent,
    /// A label that the requester set.
    Label,
    /// The schedule that started it.
    Schedule,
    /// The time since its start.
    Age,
    /// The time since its last change.
    Idle,
    /// The time of its start.
    Created,
    /// The time of its last change.
    Updated,
}

/// The type of a field.
pub(super) enum FieldType {
    /// A text, searched in any of these fields of the record.
    Text(&'static [&'static str]),
    /// One of these texts, searched in this column.
    Word(&'static str, Vec<&'static str>),
    /// `true` or `false`.
    Flag,
    /// A time span; `true` counts from the start, `false` from the last change.
    Span(bool),
    /// A moment; `true` and `false` as for a span.
    Moment(bool),
}

impl Field {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub(super) fn from_name(word: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|field| field.name() == word)
    }

    pub(super) fn kind(self) -> FieldType {
        match self {
            Self::Tenant => FieldType::Text(&["tenant"]),
            Self::Workflow => FieldType::Text(&["workflow"]),
            Self::State => FieldType::Text(&["state"]),
            Self::Phase => FieldType::Word("phase", PHASES.to_vec()),
            Self::Reason => FieldType::Word("reason", reasons().chain(outcomes()).collect()),
            Self::Subject | Self::Resource => FieldType::Text(&["subject"]),
            Self::RequestedBy => FieldType::Text(&["requested_by"]),
            Self::Open => FieldType::Flag,
            Self::Action => FieldType::Text(&["action"]),
            Self::Error => FieldType::Text(&["error"]),
            Self::Approver => FieldType::Text(&["asked", "voted"]),
            Self::Asked => FieldType::Text(&["asked"]),
            Self::Voted => FieldType::Text(&["voted"]),
            Self::Parent => FieldType::Text(&["parent"]),
            Self::Label => FieldType::Text(&["label"]),
            Self::Schedule => FieldType::Text(&["schedule"]),
            Self::Age => FieldType::Span(true),
            Self::Idle => FieldType::Span(false),
            Self::Created => FieldType::Moment(true),
            Self::Updated => FieldType::Moment(false),
        }
    }
}

/// Returns why an operator must act on an open execution.
pub(super) fn reasons() -> impl Iterator<Item = &'static str> {
    Reason::VARIANTS.iter().map(|reason| reason.into())
}

fn outcomes() -> impl Iterator<Item = &'static str> {
    Outcome::VARIANTS.iter().map(|outcome| outcome.into())
}
