//! GPUs by the real bindings, over a stand-in for the driver's libraries that is built with these tests.
//!
//! What is proven is the path from an action to the C interface and back. What an NVIDIA driver does itself is played.

mod abi;
mod bench;
mod conformance;
mod diagnosis;
mod free;
mod health;
mod interrupted;
mod layout;
mod plan;
mod real;
mod rollback;
mod scrub;
