//! The collections that the engine keeps beside its records.

pub(crate) const OPEN: &str = "approvals";
pub(crate) const CLOSED: &str = "approvals-closed";
pub(crate) const REVIEWS: &str = "approval-reviews";
pub(crate) const REVIEWED: &str = "approval-reviews-done";
pub(crate) const NOTIFICATIONS: &str = "notifications";
pub(crate) const REQUESTS: &str = "requests";
pub(crate) const CHILDREN: &str = "children";
pub(crate) const PROPOSALS: &str = "proposals";
