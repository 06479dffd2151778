//! Proxies for TCP between processes: one with a switch, one that counts and delays, and a load balancer.

pub mod balancer;
pub mod counting;
pub mod tcp;
