//! Quotas that change: requests, increases, decreases, and what holds meanwhile.

mod books;
mod decrease;
mod increase;
mod layers;
mod pages;
mod requests;
pub(crate) mod stage;
