//! Long runs in which servers and databases are killed, replaced or moved, with checks at the end.

pub mod chaos;
pub mod crash;
pub mod errands;
pub mod moving;
pub mod rolling;
