//! Taking lent GPUs back: who must give way, and what is done to them.
//!
//! [`planner`] decides, as a pure function; [`cases`] reads published cases, so that its answers can be compared.

pub mod cases;
pub mod planner;
