//! Tests that need more than one module, or the internals of the embedded store.

mod conformance;
mod crash;
mod damage;
mod differential;
mod disk;
mod dump;
mod encryption;
mod faults;
mod fixture;
mod format;
mod index_crash;
mod lifecycle;
mod maintenance;
mod pages;
mod process_kill;
mod rng;
mod transfer;
