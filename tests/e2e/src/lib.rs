//! What the tests against real servers share: finding, installing and starting them.
//!
//! Every server is started by a script in `tests/servers`, in a folder of its own that goes away with the test. What is
//! slow to build is kept outside the tree, under `TENURE_CACHE` (default `~/.cache/tenure`), by version.

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

/// Says that a test is skipped because `what` is not on this machine. Where `TENURE_SKIP_NONE` is set, as `.ci/run` does once it
/// has prepared every server, that is a failure.
///
/// # Panics
/// Where `TENURE_SKIP_NONE` is set.
pub fn skipped(what: &str, remedy: &str) {
    assert!(
        std::env::var_os("TENURE_SKIP_NONE").is_none(),
        "none is to be skipped, and {what} is not here: {remedy}"
    );
    println!("skipped: {what} is not here; {remedy}");
}
