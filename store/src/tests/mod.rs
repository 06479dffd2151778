//! Tests that need more than one module, or the inside of the embedded store.

mod conforming;
mod kit;
mod lifecycle;
