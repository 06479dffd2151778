//! Three servers, one database, and trouble.

use std::{path::Path, time::Duration};
use tests::{
    campaign::Size,
    chaos::run,
    postgres::{Cluster, Disk, installed},
};

/// S07, S08, S09, S10, S11. The bench `chaos` does the same for ten minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_while_servers_and_their_database_fail() {
    let Some(bin) = installed() else { return };
    let _alone = tests::alone().await;
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(bin, Disk::Synced).unwrap();
    let size = Size {
        tenants: 30,
        nodes: 80,
        killing: Duration::from_secs(30),
        every: Duration::from_secs(2),
        rest: Duration::from_secs(90),
    };

    let (tenure, world) = (env!("CARGO_BIN_EXE_tenure-under-test"), env!("CARGO_BIN_EXE_world"));
    let (outcome, troubles) =
        run(Path::new(tenure), Path::new(world), dir.path(), &mut cluster, size, 3).await;

    println!("{outcome}\n  {troubles:?}");
    assert!(outcome.wrong.is_empty(), "{outcome}");
    assert!(outcome.kills >= 4, "{outcome}");
    assert!(outcome.ends.get("completed").is_some_and(|done| *done >= 10), "{outcome}");
}
