//! What the programs of Tenure share: `tenure` with its server, command line and agent, and `tenure-agent` for nodes alone.
//!
//! Invariant: nothing here knows the server, the domain or a database, so that a small program can depend on it.

pub mod colour;
pub mod encoding;
pub mod exit;
pub mod files;
pub mod logs;
pub mod terminal;
pub mod token;

/// Makes `ring` what this process does TLS with; HTTP clients need that before the first of them is built.
pub fn install_tls() {
    // Fails only when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
