//! What can be done, and which roles may: the one table of rights.

use super::Role::{
    self, Admin, Auditor, Breakglass, CapacityManager, Compliance, Dpo, Finance, PlatformOps, Security,
    TenantOwner,
};

/// Something a caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Verb {
    /// Read tenants.
    ReadTenants,
    /// Ask for a tenant, or for the plan of one.
    Onboard,
    /// Read regions and clusters.
    ReadFleet,
    /// Read nodes.
    ReadNodes,
    /// Add nodes, clusters and regions.
    ImportFleet,
    /// Read executions, their journals and diagrams.
    ReadExecutions,
    /// Turn an execution back.
    Cancel,
    /// Pause, resume or retry an execution.
    Repair,
    /// Close an execution by force.
    Terminate,
    /// Read approvals.
    ReadApprovals,
    /// Decide on an approval; the plan's seats say who counts.
    Decide,
    /// Read workflows and their diagrams.
    ReadWorkflows,
    /// Read who may use the service.
    ReadUsers,
    /// Add and remove users.
    ManageUsers,
}

/// Everyone.
const ALL: &[Role] = &[
    PlatformOps,
    CapacityManager,
    Finance,
    Security,
    Compliance,
    Dpo,
    TenantOwner,
    Auditor,
    Breakglass,
    Admin,
];
/// Everyone who works for the platform.
const STAFF: &[Role] =
    &[PlatformOps, CapacityManager, Finance, Security, Compliance, Dpo, Auditor, Breakglass, Admin];
/// Everyone who may decide; the plan's seats say about what.
const DECIDERS: &[Role] =
    &[PlatformOps, CapacityManager, Finance, Security, Compliance, Dpo, TenantOwner, Breakglass, Admin];

impl Verb {
    /// The roles that may do it.
    #[must_use]
    pub fn roles(self) -> &'static [Role] {
        match self {
            Self::ReadTenants
            | Self::ReadNodes
            | Self::ReadExecutions
            | Self::ReadApprovals
            | Self::ReadWorkflows => ALL,
            Self::ReadFleet => STAFF,
            Self::Onboard => &[PlatformOps, CapacityManager, TenantOwner, Admin],
            Self::ImportFleet => &[PlatformOps, CapacityManager, Admin],
            Self::Cancel => &[PlatformOps, TenantOwner, Breakglass, Admin],
            Self::Repair | Self::Terminate => &[PlatformOps, Breakglass, Admin],
            Self::Decide => DECIDERS,
            Self::ReadUsers => &[Security, Auditor, Admin],
            Self::ManageUsers => &[Admin],
        }
    }
}
