//! The pure arithmetic of quotas and loans, as Kueue defines it.

pub(crate) mod arithmetic;
pub(crate) mod match_loans;
