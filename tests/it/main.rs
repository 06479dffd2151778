//! The promises of the whole, one module a subject. Names are sentences of the promise.

#![allow(missing_docs, reason = "a test is documented by its name")]

mod world;
mod world_kept;
