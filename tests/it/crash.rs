//! Kills of whole processes.

use std::{path::Path, time::Duration};
use tests::campaigns::crash::{Size, run};

/// The bench `crash` does the same for 200 tenants and a minute of kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_are_onboarded_exactly_once_while_the_server_is_killed_repeatedly() {
    let _alone = tests::alone().await;
    let dir = tempfile::tempdir().unwrap();
    let size = Size {
        tenants: 40,
        nodes: 100,
        // The same number of kills also where a server takes two seconds to start.
        killing: Duration::from_secs(22),
        every: Duration::from_secs(2),
        rest: Duration::from_secs(40),
    };

    let outcome = run(
        Path::new(env!("CARGO_BIN_EXE_tenure-under-test")),
        Path::new(env!("CARGO_BIN_EXE_world")),
        dir.path(),
        size,
    )
    .await;

    println!("{outcome}");
    assert!(outcome.wrong.is_empty(), "{outcome}");
    assert!(outcome.kills >= 5, "{outcome}");
    assert!(outcome.ends.get("completed").is_some_and(|done| *done >= 15), "{outcome}");
}
