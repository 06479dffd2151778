//! The additions of `tenure-under-test` to the server: external calls, a clock that tests set, and a later version.

pub mod door;
pub mod later;
pub mod shifted;
