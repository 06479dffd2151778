//! What people touch: the server, its HTTP interface, and the command line, which is one program, `tenure`.
//!
//! [`main`] reads the command line. Without a command it serves: the embedded store, the engine with its workflows, and
//! HTTP `/v1`. Every other command speaks to a server over HTTP, or works on files. Nothing is decided here that the
//! core decides; this crate says who may ask, and turns answers into words.

mod agent;
mod auth;
mod cli;
mod config;
mod encoding;
mod exit;
mod http;
mod notify;
mod oidc;
mod server;
mod state;
mod telemetry;
mod terminal;
mod tls;
mod types;

pub use auth::{Role, Verb};
pub use cli::{Reading, commands, reads};
pub use exit::exits;
pub use http::{Access, Rule, codes, openapi, rules};

use engine::{Engine, Unsound};
use std::process::ExitCode;
use workflows::platform::Platform;

/// Makes `ring` what this process does TLS with; HTTP clients need that before the first of them is built.
pub fn install_tls() {
    // Fails only when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    main_with(Ok)
}

/// The program, whose server has workflows beside those of the product, or in place of those of the same name.
#[must_use]
pub fn main_with(more: fn(Engine<Platform>) -> Result<Engine<Platform>, Unsound>) -> ExitCode {
    install_tls();
    cli::run(more).into()
}
