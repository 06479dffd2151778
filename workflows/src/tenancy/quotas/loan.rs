//! A loan: GPUs of one workspace, or of the tenant's pool, that another workspace uses while they are idle. Each loan is a document, so that it can be shown,
//! charged once, and reclaimed.

use crate::tenancy::{Lender, Resource, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::{CompositeKey, Timestamp};

/// The state of a loan.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LoanState {
    /// The borrower uses it.
    Active,
    /// The borrower was notified of the reclaim.
    RecallNotified,
    /// The borrower's workload is being evicted.
    Draining,
    /// Returned. Final.
    Returned,
    /// Past its longest duration while another workload waits.
    Overdue,
    /// Written off, for example after the loss of a node. Final.
    WrittenOff,
}

impl LoanState {
    /// Returns true in a final state.
    #[must_use]
    pub fn is_ended(self) -> bool {
        match self {
            Self::Returned | Self::WrittenOff => true,
            Self::Active | Self::RecallNotified | Self::Draining | Self::Overdue => false,
        }
    }
}

/// A loan. For a tenant and kind, open loans add up to the usage above nominal quotas (I-8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    /// The number, unique within the tenant, from 1.
    pub number: u64,
    /// The tenant.
    pub tenant: TenantId,
    /// The lender.
    pub lender: Lender,
    /// The borrower.
    pub borrower: WorkspaceName,
    /// The resource.
    pub resource: Resource,
    /// The amount that is still lent; after the end, the last lent amount.
    pub amount: u64,
    /// The workload that runs on it.
    pub workload: String,
    /// The id of the [`Admission`](crate::tenancy::Admission) that granted it.
    pub decision: String,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// The time before which it is not reclaimed.
    pub protected_until: Timestamp,
    /// The time after which it is reclaimed as soon as another workload waits.
    pub due: Timestamp,
    /// The state.
    pub state: LoanState,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Loan {
    /// Returns the id of a tenant's loan.
    #[must_use]
    pub fn key(tenant: &TenantId, number: u64) -> String {
        CompositeKey::of(&[&tenant, &format_args!("{number:012}")]).into()
    }
}

impl Entity for Loan {
    const COLLECTION: &'static str = "loans";
    const RETENTION: engine::Retention<Self> =
        engine::Retention::Until(|loan| loan.ended_at.map(|at| at.after(engine::DAY * 400)));

    fn id(&self) -> String {
        Self::key(&self.tenant, self.number)
    }
}

/// An open loan, as copied into the tenant's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLoan {
    /// The number.
    pub number: u64,
    /// The lender.
    pub lender: Lender,
    /// The borrower.
    pub borrower: WorkspaceName,
    /// The workload that runs on it.
    pub workload: String,
    /// The amount.
    pub amount: u64,
    /// The time before which it is not reclaimed.
    pub protected_until: Timestamp,
    /// The time after which it is reclaimed as soon as another workload waits.
    pub due: Timestamp,
}

/// The open loans of one kind in a tenant. A decision cannot query ranges, so one document lists them, and every change of a loan rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLoans {
    /// The tenant.
    pub tenant: TenantId,
    /// The resource.
    pub resource: Resource,
    /// Oldest first.
    pub open: Vec<OpenLoan>,
}

impl OpenLoans {
    /// The most open loans of one tenant and kind, so that the list stays below the store's limit for a document (256 KiB). More borrowers must wait.
    pub const MOST: usize = 600;

    /// Returns the id of the list of a tenant's open loans of `resource`.
    #[must_use]
    pub fn key(tenant: &TenantId, resource: &Resource) -> String {
        CompositeKey::of(&[&tenant]).tail(resource).into()
    }
}

impl Entity for OpenLoans {
    const COLLECTION: &'static str = "open-loans";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::key(&self.tenant, &self.resource)
    }
}
