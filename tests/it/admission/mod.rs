//! Admission: decisions, loans, the waiting line, and what a reclaim does to the account.

mod reclaim;
mod submit;
