//! Permissions. The policies of [`policy`](crate::auth::policy) grant them to roles.

use crate::auth::{Role, policy::AccessPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::LazyLock};
use strum::VariantArray as _;

/// A permission.
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
    /// Request a tenant, or preview its onboarding.
    Onboard,
    /// Read regions and clusters.
    ReadFleet,
    /// Read nodes.
    ReadNodes,
    /// Add nodes, clusters and regions.
    ImportFleet,
    /// Read executions, their journals and diagrams.
    ReadExecutions,
    /// Cancel an execution.
    Cancel,
    /// Pause, resume or retry an execution.
    Repair,
    /// Terminate an execution.
    Terminate,
    /// Read approvals.
    ReadApprovals,
    /// Vote on an approval; the seats of the plan decide which votes count.
    Decide,
    /// Delegate votes; only an admin may delegate for others.
    Delegate,
    /// Review a break-glass decision.
    Review,
    /// Read workflows and their diagrams.
    ReadWorkflows,
    /// Read the users of the service.
    ReadUsers,
    /// Add and remove users.
    ManageUsers,
    /// Read platform policies.
    ReadPolicies,
    /// Publish a platform policy.
    PublishPolicy,
    /// Read workspaces, quotas, loans, reservations, workloads, usage and admission decisions.
    ReadAccounts,
    /// Reserve GPUs for a workspace, or remove a reservation.
    Reserve,
    /// Submit a workload, or end it.
    Submit,
    /// Report observed facts of a cluster.
    PushFacts,
    /// Issue or revoke the key of a cluster.
    ManageClusterKeys,
    /// Reclaim lent GPUs, or preview the victims.
    Reclaim,
    /// Request a quota change, or preview it.
    ChangeQuota,
    /// Request a change of service level, or preview it.
    ChangeSla,
    /// Report an incident.
    ReportIncident,
    /// Report a shortage of a GPU model in a region.
    ManageCapacity,
    /// Send events; the request in an event needs its own permission too.
    SendEvents,
    /// Request the offboarding of a tenant, or preview it.
    Offboard,
    /// Classify the data of an asset.
    Classify,
    /// Read sweep reports and the schedule of sweeps.
    ReadSweeps,
    /// Run a sweep now.
    RunSweeps,
    /// Read schedules and their occurrences.
    ReadSchedules,
    /// Set, delete, pause, resume, trigger and backfill schedules.
    ManageSchedules,
    /// Read notification channels and their deliveries.
    ReadChannels,
    /// Test a channel, and manage its deliveries.
    ManageChannels,
    /// Migrate executions to the current schema.
    Migrate,
    /// Read holds.
    ReadHolds,
    /// Place and release holds.
    Hold,
    /// Read certificates of destruction.
    ReadCertificates,
    /// Withdraw a wrong certificate of destruction.
    WithdrawCertificates,
    /// Send a signal to an execution.
    Signal,
    /// Read the audit, its checkpoints, and export it.
    ReadAudit,
    /// Read the finished executions that can be removed.
    ReadRetention,
    /// Remove finished executions whose retention period is over.
    RunRetention,
    /// Read limits and the state of keys.
    ReadLimits,
    /// Set limits, and close and open keys.
    ManageLimits,
    /// Read metrics and the details of health checks.
    ReadMetrics,
    /// Hold and release the store.
    HoldStore,
}

impl Verb {
    /// Returns the roles that have the permission in the built-in policies, for a user of the operator.
    #[must_use]
    pub fn roles(self) -> &'static [Role] {
        static ROLES: LazyLock<BTreeMap<&str, Vec<Role>>> = LazyLock::new(|| {
            let law = AccessPolicy::shipped();
            Verb::VARIANTS.iter().map(|verb| (verb.name(), law.roles(*verb))).collect()
        });
        ROLES.get(self.name()).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns true if the action starts something or decides on present facts, so that it is rejected while the store is on hold.
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
