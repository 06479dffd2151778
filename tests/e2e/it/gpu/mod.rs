//! GPUs with the real bindings, on a fake of the driver's libraries that is built with these tests.
//!
//! The tests cover the path from an action to the C interface and back. The NVIDIA driver itself is simulated.

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
