//! Guards against unsafe actions (S-90), independent of the requester.

use crate::policy::parsing::reader::Fields;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::VariantArray as _;

/// The mode of each guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guards {
    modes: BTreeMap<GuardName, GuardMode>,
}

/// The guards.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GuardName {
    /// The end of a tenant whose workloads with a service level still run.
    EndOfTenantInUse,
    /// A new partition of a GPU that is in use.
    MigChangeOnBusyGpu,
    /// The release of a node that was not sanitised.
    NodeReleaseUnsanitised,
    /// Destruction under a legal hold.
    DestroyUnderHold,
    /// A reclaim beyond its limits.
    ReclaimWiderThanGuard,
}

/// The mode of a guard for an unsafe action.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GuardMode {
    /// Stop the action.
    Block,
    /// Require an approval.
    Approve,
}

impl GuardName {
    /// Returns true if an approval may allow the action; false for actions that would break I-3, I-6 or I-13.
    #[must_use]
    pub fn may_be_approved(self) -> bool {
        match self {
            Self::EndOfTenantInUse | Self::ReclaimWiderThanGuard => true,
            Self::MigChangeOnBusyGpu | Self::NodeReleaseUnsanitised | Self::DestroyUnderHold => false,
        }
    }
}

impl Guards {
    /// Returns the mode of the guard; `block` for a guard that policy does not name.
    #[must_use]
    pub fn mode(&self, guard: GuardName) -> GuardMode {
        self.modes.get(&guard).copied().unwrap_or(GuardMode::Block)
    }

    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let known: Vec<&str> = GuardName::VARIANTS.iter().map(|guard| (*guard).into()).collect();
        let fields = top.layer("guards", &known)?;
        let reader = fields.reader();
        let mut modes = BTreeMap::new();
        for guard in GuardName::VARIANTS {
            let item = fields.required((*guard).into())?;
            let mode = reader.one_of::<GuardMode>(item)?;
            if mode == GuardMode::Approve && !guard.may_be_approved() {
                let problem = "only `block` is allowed: an approval could expose data to the next tenant, or destroy data under a hold";
                reader.note(item, problem.into(), "write `block`");
            }
            modes.insert(*guard, mode);
        }
        Some(Self { modes })
    }
}
