//! The engine's promises, on the in-memory store.

mod job;
mod ownership;
mod people;
mod steps;
mod unsound;
