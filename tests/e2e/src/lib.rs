//! The shared parts of tests against real servers: finding, installing and starting them.
//!
//! A script in `tests/servers` starts each server, in a temporary folder of the test. Slow builds are cached outside
//! the tree by version, under `TENURE_CACHE` (default `~/.cache/tenure`).

pub mod excuses;
pub mod gateway;
pub mod kubelet;
pub mod softhsm;

use std::path::PathBuf;

/// The folder of the scripts.
#[must_use]
pub fn scripts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../servers"))
}

/// Reports that a test is skipped because `what` is not installed. If `TENURE_SKIP_NONE` is set, as `.ci/run` does after
/// preparing every server, that is a failure.
///
/// # Panics
/// If `TENURE_SKIP_NONE` is set.
pub fn skipped(what: &str, remedy: &str) {
    assert!(
        std::env::var_os("TENURE_SKIP_NONE").is_none(),
        "TENURE_SKIP_NONE is set, and {what} is missing: {remedy}"
    );
    println!("skipped: {what} is not here; {remedy}");
}
