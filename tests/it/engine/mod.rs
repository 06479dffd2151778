//! The engine's promises, on the in-memory store.

mod batches;
mod between;
mod children;
mod corners;
mod family;
mod household;
mod job;
mod ledger;
mod messages;
mod ownership;
mod people;
mod promises;
mod repairs;
mod steps;
mod unsound;
