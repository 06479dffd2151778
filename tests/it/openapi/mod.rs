//! The OpenAPI description: it is valid, and the server follows it.

mod lint;
mod requests;
mod said;
mod streams;
mod tester;
mod world;
