//! What the program `tenure-under-test` adds to the server: calls from outside, a clock that tests move, a later version.

pub mod door;
pub mod later;
pub mod shifted;
