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
    /// Let somebody decide in one's place, for a time; for others only as admin.
    Delegate,
    /// Review what was decided alone.
    Review,
    /// Read workflows and their diagrams.
    ReadWorkflows,
    /// Read who may use the service.
    ReadUsers,
    /// Add and remove users.
    ManageUsers,
    /// Read platform policies.
    ReadPolicies,
    /// Put a platform policy into force.
    PublishPolicy,
    /// Read workspaces, quotas, loans, reservations, workloads, usage and decisions on admission.
    ReadAccounts,
    /// Promise GPUs to a workspace, or take the promise back.
    Reserve,
    /// Ask for GPUs for a workload, or say that it has ended.
    Submit,
    /// Say what was seen of a cluster.
    PushFacts,
    /// Call lent GPUs back, or ask who would have to give way.
    Reclaim,
    /// Ask for another quota, or for the plan of one.
    ChangeQuota,
    /// Ask for another service level, or for the plan of one.
    ChangeSla,
    /// Report an incident.
    ReportIncident,
    /// Say that a model runs short in a region.
    ManageCapacity,
    /// Send events; what one asks for takes the right to ask for it.
    SendEvents,
    /// Ask that a tenant leaves, or what would be destroyed then.
    Offboard,
    /// Say what the data of an asset is.
    Classify,
    /// Read what sweeps found, and when they run.
    ReadSweeps,
    /// Run a sweep now.
    RunSweeps,
    /// Read when what is started, and what became of it.
    ReadSchedules,
    /// Set, delete, pause, resume and trigger schedules, and make up for what they left out.
    ManageSchedules,
    /// Read channels, and what became of what they were to tell.
    ReadChannels,
    /// Try a channel, and send what it did not take again.
    ManageChannels,
    /// Rewrite executions of earlier versions as this one writes them.
    Migrate,
    /// Read holds.
    ReadHolds,
    /// Place and release holds.
    Hold,
    /// Read certificates of destruction.
    ReadCertificates,
    /// Tell an execution that something it waits for has happened.
    Signal,
    /// Read the audit, its checkpoints, and export it.
    ReadAudit,
    /// Read which finished executions would be forgotten.
    ReadRetention,
    /// Forget the finished executions that are kept no longer, now.
    RunRetention,
    /// Read limits, and how each key stands.
    ReadLimits,
    /// Set limits, and close and open keys.
    ManageLimits,
    /// Hold the store, so that nothing is performed, and let it go.
    HoldStore,
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
            | Self::ReadAccounts
            | Self::ReadHolds
            | Self::ReadCertificates
            | Self::ReadWorkflows => ALL,
            Self::ReadFleet
            | Self::ReadPolicies
            | Self::ReadSweeps
            | Self::ReadSchedules
            | Self::ReadChannels
            | Self::ReadLimits => STAFF,
            Self::Onboard => &[PlatformOps, CapacityManager, TenantOwner, Admin],
            Self::ImportFleet => &[PlatformOps, CapacityManager, Admin],
            Self::Cancel => &[PlatformOps, TenantOwner, Breakglass, Admin],
            Self::Repair | Self::Terminate => &[PlatformOps, Breakglass, Admin],
            Self::Decide | Self::Delegate => DECIDERS,
            Self::Review => &[PlatformOps, Security, Compliance, Dpo, TenantOwner, Admin],
            Self::ReadUsers => &[Security, Auditor, Admin],
            Self::ManageUsers => &[Admin],
            Self::PublishPolicy => &[PlatformOps, Admin],
            Self::Reserve => &[PlatformOps, CapacityManager, TenantOwner, Admin],
            Self::Submit => &[PlatformOps, CapacityManager, TenantOwner, Admin],
            Self::Reclaim => &[PlatformOps, CapacityManager, TenantOwner, Breakglass, Admin],
            Self::ChangeQuota | Self::ChangeSla => &[PlatformOps, CapacityManager, TenantOwner, Admin],
            Self::ReportIncident => &[PlatformOps, Security, Breakglass, Admin],
            Self::ManageCapacity => &[PlatformOps, CapacityManager, Admin],
            Self::SendEvents => {
                &[PlatformOps, CapacityManager, Security, Compliance, TenantOwner, Breakglass, Admin]
            }
            Self::Offboard => &[PlatformOps, Compliance, TenantOwner, Admin],
            Self::Classify => &[PlatformOps, Security, Compliance, Dpo, Admin],
            Self::PushFacts
            | Self::RunSweeps
            | Self::ManageSchedules
            | Self::ManageChannels
            | Self::Migrate => &[PlatformOps, Admin],
            Self::Hold => &[Finance, Security, Compliance, Dpo, Admin],
            Self::ManageLimits => &[PlatformOps, CapacityManager, Breakglass, Admin],
            Self::Signal => &[PlatformOps, TenantOwner, Breakglass, Admin],
            Self::ReadAudit => &[Security, Compliance, Dpo, TenantOwner, Auditor, Admin],
            Self::ReadRetention => STAFF,
            Self::RunRetention => &[PlatformOps, Admin],
            Self::HoldStore => &[PlatformOps, Breakglass, Admin],
        }
    }

    /// Whether it begins something, or decides on what there is: not while the store is held, which may not be as things are.
    #[must_use]
    pub fn waits_for_release(self) -> bool {
        match self {
            Self::Onboard
            | Self::Submit
            | Self::Reserve
            | Self::PushFacts
            | Self::Reclaim
            | Self::ChangeQuota
            | Self::ChangeSla
            | Self::ReportIncident
            | Self::ManageCapacity
            | Self::SendEvents
            | Self::Offboard
            | Self::ImportFleet
            | Self::RunRetention => true,
            Self::ReadTenants
            | Self::ReadFleet
            | Self::ReadNodes
            | Self::ReadExecutions
            | Self::Cancel
            | Self::Repair
            | Self::Terminate
            | Self::ReadApprovals
            | Self::Decide
            | Self::Delegate
            | Self::Review
            | Self::ReadWorkflows
            | Self::ReadUsers
            | Self::ManageUsers
            | Self::ReadPolicies
            | Self::PublishPolicy
            | Self::ReadAccounts
            | Self::Classify
            | Self::ReadSweeps
            | Self::RunSweeps
            | Self::ReadSchedules
            | Self::ManageSchedules
            | Self::ReadChannels
            | Self::ManageChannels
            | Self::Migrate
            | Self::ReadHolds
            | Self::Hold
            | Self::ReadCertificates
            | Self::Signal
            | Self::ReadAudit
            | Self::ReadRetention
            | Self::ReadLimits
            | Self::ManageLimits
            | Self::HoldStore => false,
        }
    }
}
