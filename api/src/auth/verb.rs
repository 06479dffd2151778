//! What can be done. Which roles may, the policies of [`policy`](crate::auth::policy) say.

use crate::auth::{Role, policy::AccessPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::LazyLock};
use strum::VariantArray as _;

/// Something a caller can do.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
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
    /// Issue the next key of a cluster, or revoke the one that it has.
    ManageClusterKeys,
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
    /// Try a channel, and see to its deliveries.
    ManageChannels,
    /// Rewrite executions of earlier versions as this one writes them.
    Migrate,
    /// Read holds.
    ReadHolds,
    /// Place and release holds.
    Hold,
    /// Read certificates of destruction.
    ReadCertificates,
    /// Withdraw a certificate of destruction that turned out wrong.
    WithdrawCertificates,
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
    /// Read metrics, and what the checks of health say.
    ReadMetrics,
    /// Hold the store, so that nothing is performed, and let it go.
    HoldStore,
}

impl Verb {
    /// The roles that may do it by the policies that are shipped, each held alone by somebody who works for the platform.
    #[must_use]
    pub fn roles(self) -> &'static [Role] {
        static ROLES: LazyLock<BTreeMap<&str, Vec<Role>>> = LazyLock::new(|| {
            let law = AccessPolicy::shipped();
            Verb::VARIANTS.iter().map(|verb| (verb.name(), law.roles(*verb))).collect()
        });
        ROLES.get(self.name()).map(Vec::as_slice).unwrap_or_default()
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
            | Self::ManageClusterKeys
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
            | Self::WithdrawCertificates
            | Self::Signal
            | Self::ReadAudit
            | Self::ReadRetention
            | Self::ReadLimits
            | Self::ManageLimits
            | Self::ReadMetrics
            | Self::HoldStore => false,
        }
    }
}
