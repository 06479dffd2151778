//! The engine's promises, on the in-memory store.

mod children;
mod household;
mod job;
mod ledger;
mod ownership;
mod people;
mod steps;
mod unsound;
