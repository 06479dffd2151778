//! Admission: decisions, loans, the waiting line, and what a reclaim does to the account.

mod dimensions;
mod histories;
mod line;
mod many;
mod overdue;
mod promises;
mod reclaim;
mod submit;
mod together;
