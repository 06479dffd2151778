//! From which answer of which action a record comes.
//!
//! Invariant: a reference is made from the answer that it names, so that no part of a record is called observed without one. A
//! record that rests on the statement of a person has none.

use crate::platform::{
    Devices, EncryptedBy, FilledGpu, ObserveAbsence, QualifyFinding, QualifyNode, ReadDevices, ReadProgress,
    ReimageNode, RemainingThing, RemoveThing, Removed, Reset, ResetMachine, SampleDrive, Samples,
    SanitiseLog, ScrubGpu, ShredKey, Shredded, SurveyTenant, TenantResource, VerifiedSystems, VerifyAbsent,
    VerifyNothingLeft,
};
use engine::Action;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// What of a record an observation is the source of.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::Display,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Aspect {
    /// The device as it described itself.
    Device,
    /// The work, and how it ended.
    Done,
    /// The installation of a machine.
    Installed,
    /// The diagnosis of a machine.
    Diagnosed,
    /// The destruction of the key with which the thing is encrypted.
    Key,
    /// The key under which a thing was seen that a retention rule keeps.
    Kept,
    /// The look for what should be gone.
    Looked,
}

/// The observations that a record rests on.
pub type Observations = BTreeMap<Aspect, ObservationRef>;

/// Names one answer in the journal: which action gave it, and about what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObservationRef {
    action: String,
    about: String,
}

/// Says that a value is, or is part of, what the action `A` answers.
pub(crate) trait AnswerOf<A: Action> {}

impl AnswerOf<ShredKey> for Shredded {}
impl AnswerOf<RemoveThing> for Removed {}
/// Under which key a thing was seen.
impl AnswerOf<SurveyTenant> for EncryptedBy {}
/// What was seen to be locked, in words.
impl AnswerOf<SurveyTenant> for (TenantResource, String) {}
impl AnswerOf<VerifyAbsent> for VerifiedSystems {}
impl AnswerOf<VerifyNothingLeft> for VerifiedSystems {}
impl AnswerOf<ObserveAbsence> for VerifiedSystems {}
impl AnswerOf<ObserveAbsence> for RemainingThing {}
impl AnswerOf<ReadDevices> for Devices {}
impl AnswerOf<ScrubGpu> for FilledGpu {}
impl AnswerOf<ReadProgress> for SanitiseLog {}
impl AnswerOf<SampleDrive> for Samples {}
impl AnswerOf<ResetMachine> for Reset {}
impl AnswerOf<ReimageNode> for () {}
impl AnswerOf<QualifyNode> for QualifyFinding {}

impl ObservationRef {
    /// The reference to an answer of `A` about one thing, node or device.
    pub(crate) fn new<A: Action>(_answer: &impl AnswerOf<A>, about: impl fmt::Display) -> Self {
        Self { action: A::NAME.to_owned(), about: about.to_string() }
    }

    /// The action, as the journal names it.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// The thing, node or device that the answer is about.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }
}

impl fmt::Display for ObservationRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.action, self.about)
    }
}

/// The action that looked for what should be gone, as far as its answer is kept apart from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// [`VerifyAbsent`].
    #[default]
    Absent,
    /// [`VerifyNothingLeft`].
    NothingLeft,
    /// [`ObserveAbsence`].
    EachThing,
}

impl Look {
    /// The reference to the answer of this look about one thing.
    pub(crate) fn answered(self, answer: &VerifiedSystems, about: impl fmt::Display) -> ObservationRef {
        match self {
            Self::Absent => ObservationRef::new::<VerifyAbsent>(answer, about),
            Self::NothingLeft => ObservationRef::new::<VerifyNothingLeft>(answer, about),
            Self::EachThing => ObservationRef::new::<ObserveAbsence>(answer, about),
        }
    }
}
