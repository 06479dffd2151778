//! The API as it describes itself: whether the description is sound, and whether the server does what it says.

mod lint;
mod requests;
mod said;
mod streams;
mod tester;
mod world;
