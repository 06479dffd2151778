//! The server of Tenure: HTTP `/v1`, sign-in, notifications, telemetry, and its background jobs.
//!
//! Started by the command line (`cli`) with [`server::serve`]: the store, the engine with its workflows, and HTTP. The engine's core makes the decisions; this
//! crate authorises callers and formats answers.

pub mod auth;
pub mod config;
mod http;
pub mod notify;
pub mod oidc;
pub mod server;
mod state;
mod telemetry;
pub mod tls;
mod types;

pub use auth::{Role, Verb};
pub use http::{Access, DryRunBy, RouteInfo, codes, openapi, rules};
