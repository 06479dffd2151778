//! Sweeps: what is looked after by the clock, on the schedules of the policy in force.
//!
//! Events do the work as it comes; a sweep finds what no event told of: a promise that was broken, a loan that is overdue,
//! a quota or a contract that ends, a line that grew old, a platform that differs from the books. Each occurrence is
//! claimed by one engine and kept on record, with what it found; one that is repeated finds nothing new to start.

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
