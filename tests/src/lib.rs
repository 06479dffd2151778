//! x

pub mod books;
pub mod calls;
pub mod pairs;
pub mod world;
