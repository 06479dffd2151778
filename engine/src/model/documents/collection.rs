//! The collections of the engine's documents.

pub(crate) const OPEN: &str = "approvals";
pub(crate) const CLOSED: &str = "approvals-closed";
pub(crate) const REVIEWS: &str = "approval-reviews";
pub(crate) const REVIEWED: &str = "approval-reviews-done";
pub(crate) const NOTIFICATIONS: &str = "notifications";
pub(crate) const REQUESTS: &str = "requests";
pub(crate) const CHILDREN: &str = "children";
pub(crate) const PROPOSALS: &str = "proposals";
