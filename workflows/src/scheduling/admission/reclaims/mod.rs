//! The steps of a reclaim in a tenant's account, from the fence to the grant.

pub(crate) mod earmarks;
pub(crate) mod spare_victims;
pub(crate) mod steps;
pub(crate) mod validate_fence;
