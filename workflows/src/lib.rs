//! x

pub mod actuators;
pub mod backends;
pub mod platform;
