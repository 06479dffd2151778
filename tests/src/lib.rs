//! x

pub mod world;
