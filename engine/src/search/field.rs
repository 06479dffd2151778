//! What an execution can be found by.

use crate::{Outcome, Reason};
use strum::VariantArray as _;

/// The phases of an execution, as records name them.
pub(super) const PHASES: &[&str] = &["forward", "compensating", "parked", "paused", "finished"];

/// A field of the language, by the name that people write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Field {
    /// Whose it is.
    Tenant,
    /// What it runs.
    Workflow,
    /// Where it stands.
    State,
    /// What it is doing.
    Phase,
    /// Why somebody has to look, or how it finished.
    Reason,
    /// What it is about.
    Subject,
    /// The same as [`Field::Subject`].
    Resource,
    /// Who asked for it.
    RequestedBy,
    /// Whether it has not finished.
    Open,
    /// What is being done, or undone.
    Action,
    /// What went wrong last.
    Error,
    /// Who is asked, or has voted.
    Approver,
    /// The roles that an open approval asks for.
    Asked,
    /// The people who have voted.
    Voted,
    /// What started it, if another execution did.
    Parent,
    /// What whoever asked for it has written on it.
    Label,
    /// The schedule by which it was started.
    Schedule,
    /// How long ago it was asked for.
    Age,
    /// How long ago it last changed.
    Idle,
    /// When it was asked for.
    Created,
    /// When it last changed.
    Updated,
}

/// What can be said of a field.
pub(super) enum FieldType {
    /// A text, found in any of these fields of the record.
    Text(&'static [&'static str]),
    /// One of these texts, found in this column.
    Word(&'static str, Vec<&'static str>),
    /// `true` or `false`.
    Flag,
    /// How long ago; `true` counts from the start, `false` from the last change.
    Span(bool),
    /// When; as for a span.
    Moment(bool),
}

impl Field {
    /// Its name.
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

/// Why somebody has to look at an open execution.
pub(super) fn reasons() -> impl Iterator<Item = &'static str> {
    Reason::VARIANTS.iter().map(|reason| reason.into())
}

fn outcomes() -> impl Iterator<Item = &'static str> {
    Outcome::VARIANTS.iter().map(|outcome| outcome.into())
}
