//! Hooks by name, and what passes between Tenure and whatever stands behind one: a program or a service.
//!
//! `docs/backends/hooks.md` is the protocol for those who write one; what is here is its one reading.

mod protocol;
mod registry;
mod system;

pub use crate::hooks::registry::{HookBackend, HookRegistry, HookTraits};
pub use protocol::{Answer, ErrorBody, Request, Verb, retry_delay};
pub use system::System;
