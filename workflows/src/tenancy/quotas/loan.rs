//! A loan: GPUs of one workspace, or of the tenant's pool, that another workspace uses while they are idle. A row of its own, so that what is lent can be
//! shown, charged once, and called back.

use crate::tenancy::{Lender, Resource, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::{CompositeKey, Timestamp};

/// Where a loan stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LoanState {
    /// The borrower uses it.
    Active,
    /// The borrower knows that it is called back.
    RecallNotified,
    /// The borrower's workload is being evicted.
    Draining,
    /// Given back. An end.
    Returned,
    /// Past its longest duration while somebody waits.
    Overdue,
    /// Given up, such as with a node that was lost. An end.
    WrittenOff,
}

impl LoanState {
    /// Whether it is at an end.
    #[must_use]
    pub fn is_ended(self) -> bool {
        match self {
            Self::Returned | Self::WrittenOff => true,
            Self::Active | Self::RecallNotified | Self::Draining | Self::Overdue => false,
        }
    }
}

/// A loan. Over a tenant and kind, open loans sum up to what is used beyond nominal (I-8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    /// Its number within the tenant, from 1.
    pub number: u64,
    /// Whose workspaces these are.
    pub tenant: TenantId,
    /// Who lends.
    pub lender: Lender,
    /// Who borrows.
    pub borrower: WorkspaceName,
    /// What.
    pub resource: Resource,
    /// How much of it is still lent; once it has ended, how much was lent last.
    pub amount: u64,
    /// The workload that runs on it.
    pub workload: String,
    /// The decision that granted it: the id of a [`Admission`](crate::tenancy::Admission).
    pub decision: String,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// Until then it is not called back.
    pub protected_until: Timestamp,
    /// From then on it is called back as soon as somebody waits.
    pub due: Timestamp,
    /// Where it stands.
    pub state: LoanState,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Loan {
    /// The id of a tenant's loan.
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

/// A loan that is open, as the tenant's list of them repeats it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLoan {
    /// Its number.
    pub number: u64,
    /// Who lends.
    pub lender: Lender,
    /// Who borrows.
    pub borrower: WorkspaceName,
    /// The workload that runs on it.
    pub workload: String,
    /// How much.
    pub amount: u64,
    /// Until then it is not called back.
    pub protected_until: Timestamp,
    /// From then on it is called back as soon as somebody waits.
    pub due: Timestamp,
}

/// The open loans of one kind in a tenant: a decision cannot ask for ranges, so they are listed in one document that every
/// change of a loan rewrites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLoans {
    /// Whose.
    pub tenant: TenantId,
    /// Of what.
    pub resource: Resource,
    /// Oldest first.
    pub open: Vec<OpenLoan>,
}

impl OpenLoans {
    /// The most that are open at once in one tenant and kind, so that the list keeps under the store's limit for a document
    /// (256 KiB). Further borrowers wait.
    pub const MOST: usize = 600;

    /// The id of the list of a tenant's open loans of `resource`.
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
