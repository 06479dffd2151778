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
pub(super) enum Kind {
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

    pub(super) fn named(word: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|field| field.name() == word)
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Tenant => Kind::Text(&["tenant"]),
            Self::Workflow => Kind::Text(&["workflow"]),
            Self::State => Kind::Text(&["state"]),
            Self::Phase => Kind::Word("phase", PHASES.to_vec()),
            Self::Reason => Kind::Word("reason", reasons().chain(outcomes()).collect()),
            Self::Subject | Self::Resource => Kind::Text(&["subject"]),
            Self::RequestedBy => Kind::Text(&["requested_by"]),
            Self::Open => Kind::Flag,
            Self::Action => Kind::Text(&["action"]),
            Self::Error => Kind::Text(&["error"]),
            Self::Approver => Kind::Text(&["asked", "voted"]),
            Self::Asked => Kind::Text(&["asked"]),
            Self::Voted => Kind::Text(&["voted"]),
            Self::Parent => Kind::Text(&["parent"]),
            Self::Label => Kind::Text(&["label"]),
            Self::Schedule => Kind::Text(&["schedule"]),
            Self::Age => Kind::Span(true),
            Self::Idle => Kind::Span(false),
            Self::Created => Kind::Moment(true),
            Self::Updated => Kind::Moment(false),
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
