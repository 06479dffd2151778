//! Tests that need more than one module, or the inside of the embedded store.

mod conforming;
mod crash;
mod cut;
mod damage;
mod differential;
mod dump;
mod faults;
mod format;
mod holding;
mod killed;
mod kit;
mod lifecycle;
mod random;
mod sealing;
mod transferring;
