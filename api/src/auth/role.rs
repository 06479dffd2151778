//! The roles a user can hold.

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

/// A role, by the name that policies use for it.
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
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
    clap::ValueEnum,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Role {
    /// Runs the platform: imports fleets, starts and repairs executions, decides on onboardings.
    PlatformOps,
    /// Plans capacity.
    CapacityManager,
    /// Decides about money.
    Finance,
    /// Decides about security.
    Security,
    /// Decides about law and contract.
    Compliance,
    /// Data protection officer.
    Dpo,
    /// Speaks for a tenant.
    TenantOwner,
    /// Reads everything, changes nothing.
    Auditor,
    /// Acts in an emergency.
    Breakglass,
    /// Manages users, and may take any seat of an approval; never on its own request.
    Admin,
}

impl Role {
    /// The role's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The names under which someone with `roles` may take a seat: `admin` may take any.
    #[must_use]
    pub(crate) fn seats(roles: &[Self]) -> Vec<&'static str> {
        let held: &[Self] = if roles.contains(&Self::Admin) { Self::VARIANTS } else { roles };
        held.iter().map(|role| role.name()).collect()
    }
}
