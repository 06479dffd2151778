//! The roles of users.

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

/// A role, by its name in policies.
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
    /// Runs the platform: imports nodes, starts and repairs executions, decides on onboardings.
    PlatformOps,
    /// Plans capacity.
    CapacityManager,
    /// Decides about costs.
    Finance,
    /// Decides about security.
    Security,
    /// Decides about law and contracts.
    Compliance,
    /// Data protection officer.
    Dpo,
    /// Acts for a tenant.
    TenantOwner,
    /// Reads everything, changes nothing.
    Auditor,
    /// Acts in an emergency.
    Breakglass,
    /// Manages users, and may take any seat of an approval, except on its own request.
    Admin,
}

impl Role {
    /// Returns the name of the role.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the seats that a user with `roles` may take: `admin` may take any.
    #[must_use]
    pub(crate) fn seats(roles: &[Self]) -> Vec<&'static str> {
        let held: &[Self] = if roles.contains(&Self::Admin) { Self::VARIANTS } else { roles };
        held.iter().map(|role| role.name()).collect()
    }
}
