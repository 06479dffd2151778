//! The promises of the whole, one module a subject. Names are sentences of the promise.

#![allow(missing_docs, reason = "a test is documented by its name")]

#[allow(dead_code, reason = "the example has a main of its own")]
#[path = "../../engine/examples/hello.rs"]
mod example;

mod admission;
mod cli;
mod crash;
mod decisions;
mod engine;
mod fleet;
mod hello;
mod http;
mod offboarding;
mod onboarding;
mod placement;
mod policy;
mod served;
mod tenancy;
mod workloads;
mod world;
mod world_kept;
