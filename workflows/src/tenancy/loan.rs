//! A loan: GPUs of one workspace that another uses while they are idle. A row of its own, so that what is lent can be
//! shown, charged once, and called back.

use super::{Resource, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::Timestamp;

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
    pub fn ended(self) -> bool {
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
    pub lender: WorkspaceName,
    /// Who borrows.
    pub borrower: WorkspaceName,
    /// What.
    pub resource: Resource,
    /// How much of it is still lent; once it has ended, how much was lent last.
    pub amount: u64,
    /// The workload that runs on it.
    pub workload: String,
    /// The decision that granted it: the id of a [`Admission`](super::Admission).
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
        format!("{tenant}/{number:012}")
    }
}

impl Entity for Loan {
    const COLLECTION: &'static str = "loans";

    fn id(&self) -> String {
        Self::key(&self.tenant, self.number)
    }
}
