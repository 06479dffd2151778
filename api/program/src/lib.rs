//! Shared code of the programs `tenure` and `tenure-agent`.
//!
//! Invariant: this crate knows no server, domain or database, so that small programs can depend on it.

pub mod colour;
pub mod encoding;
pub mod exit;
pub mod files;
pub mod logs;
pub mod terminal;
pub mod token;

/// Installs `ring` as the TLS provider of this process. Call it before the first HTTP client is built.
pub fn install_tls() {
    // Fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
