//! Quota changes: requests, increases, decreases, and the invariants in between.

mod books;
mod decrease;
mod increase;
mod layers;
mod pages;
mod requests;
pub(crate) mod stage;
