//! x

pub mod calls;
pub mod pairs;
pub mod world;
