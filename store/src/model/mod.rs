//! The interface of a store: identities, records, commits, queries, limits, errors and the [`Store`](crate::Store)
//! trait.
//!
//! Called by every implementation. Invariant: no input or output, and no dependence on an implementation.

pub(crate) mod commit;
pub(crate) mod composite_key;
pub(crate) mod encrypted_body;
pub(crate) mod error;
pub(crate) mod filter;
pub(crate) mod health;
pub(crate) mod histogram;
pub(crate) mod id;
pub(crate) mod limits;
pub(crate) mod maintenance;
pub(crate) mod page;
pub(crate) mod page_key;
pub(crate) mod query;
pub(crate) mod record;
pub(crate) mod store;
