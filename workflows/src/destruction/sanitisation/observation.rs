//! References from a record to the action results that it is based on.
//!
//! Invariant: a reference is created from the result that it names, so that every observed part of a record has one. A record that rests on a
//! statement has none.

use crate::platform::{
    Devices, EncryptedBy, FilledGpu, ObserveAbsence, QualifyFinding, QualifyNode, ReadDevices, ReadProgress,
    ReimageNode, RemainingThing, RemoveThing, Removed, Reset, ResetMachine, SampleDrive, Samples,
    SanitiseLog, ScrubGpu, ShredKey, Shredded, SurveyTenant, TenantResource, VerifiedSystems, VerifyAbsent,
    VerifyNothingLeft,
};
use engine::Action;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// The part of a record that an observation supports.
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
    /// The device as it reported itself.
    Device,
    /// The work and its outcome.
    Done,
    /// The installation of a machine.
    Installed,
    /// The diagnosis of a machine.
    Diagnosed,
    /// The destruction of the key that encrypts the resource.
    Key,
    /// The key that encrypts a retained resource.
    Kept,
    /// The observation that the resource is gone.
    Looked,
}

/// The observations of a record.
pub type Observations = BTreeMap<Aspect, ObservationRef>;

/// A reference to one result in the journal: the action, and the resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObservationRef {
    action: String,
    about: String,
}

/// Marks a type as the result of action `A`, or as a part of it.
pub(crate) trait AnswerOf<A: Action> {}

impl AnswerOf<ShredKey> for Shredded {}
impl AnswerOf<RemoveThing> for Removed {}
/// The observed encryption key of a resource.
impl AnswerOf<SurveyTenant> for EncryptedBy {}
/// A locked resource, with its description.
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
    /// Returns the reference to a result of `A` about one resource, node or device.
    pub(crate) fn new<A: Action>(_answer: &impl AnswerOf<A>, about: impl fmt::Display) -> Self {
        Self { action: A::NAME.to_owned(), about: about.to_string() }
    }

    /// Returns the action's name in the journal.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// Returns the resource, node or device of the result.
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

/// The action that looked for a resource that must be gone.
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
    /// Returns the reference to the result of this action about one resource.
    pub(crate) fn answered(self, answer: &VerifiedSystems, about: impl fmt::Display) -> ObservationRef {
        match self {
            Self::Absent => ObservationRef::new::<VerifyAbsent>(answer, about),
            Self::NothingLeft => ObservationRef::new::<VerifyNothingLeft>(answer, about),
            Self::EachThing => ObservationRef::new::<ObserveAbsence>(answer, about),
        }
    }
}
