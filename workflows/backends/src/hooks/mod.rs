//! Hooks by name, and the protocol between Tenure and the program or service that implements one.
//!
//! `docs/backends/hooks.md` specifies the protocol; this module is its only parser.

mod protocol;
mod registry;
mod system;

pub use crate::hooks::registry::{HookBackend, HookRegistry, HookTraits};
pub use protocol::{Answer, ErrorBody, Request, Verb, retry_delay};
pub use system::System;
