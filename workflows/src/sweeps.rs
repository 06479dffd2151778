//! Sweeps: scheduled checks, on the schedules of the policy in force.
//!
//! Most work is started by events. A sweep finds conditions without an event, such as a broken promise, an overdue loan, an ended contract, or a
//! platform that differs from the ledger. One engine runs each occurrence and stores a report with its findings. A repeated occurrence starts nothing
//! twice.

mod abandoned_claims;
mod closed_tenants;
mod drift;
mod ended_contracts;
mod ended_quotas;
mod exhausted_capacity;
mod expiry;
mod failed_starts;
mod hold_matters;
mod missed_promises;
mod old_cluster_keys;
mod overdue_loans;
mod report;
mod run;

pub use ended_contracts::ContractEnded;
pub use exhausted_capacity::Shortage;
pub use expiry::{InUse, expire, expire_documents, tenants_on_hold};
pub use hold_matters::{HoldConcern, HoldMatter, HoldNotice, hold_matters};
pub use missed_promises::{MissedPromise, record_missed};
pub use report::SweepReport;
pub use run::{NAMED, run, run_due, schedules};
