//! Admission: decisions, loans, the queue, and the effects of a reclaim on the account.

mod again;
mod dimensions;
mod guarded;
mod histories;
mod idle;
mod line;
mod many;
mod observed;
mod overdue;
mod promises;
mod reclaim;
mod spared;
mod submit;
mod together;
