//! Three servers, one database, and faults.

use std::{path::Path, time::Duration};
use tests::{
    campaigns::chaos::{Size, Wanted, run},
    servers::postgres::{Cluster, Disk, installed},
};

/// S07, S08, S09, S10, S11. The bench `chaos` does the same for ten minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_while_servers_and_their_database_fail() {
    let Some(bin) = installed() else { return };
    let _alone = tests::alone().await;
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(bin, Disk::Synced).unwrap();
    let size = Size {
        wanted: Wanted { onboardings: 36, reclaims: 16, lenders: 8, at_once: 24 },
        trouble: Duration::from_secs(22),
        every: Duration::from_millis(300)..Duration::from_secs(1),
        database: Duration::from_secs(5)..Duration::from_secs(12),
    };

    let (tenure, world) = (env!("CARGO_BIN_EXE_tenure-under-test"), env!("CARGO_BIN_EXE_world"));
    let outcome = run(Path::new(tenure), Path::new(world), dir.path(), cluster, size, 3).await;

    println!("{outcome}");
    assert!(outcome.wrong.is_empty(), "{outcome}");
    assert_eq!(outcome.taken.len(), 3, "every fault occurred: {outcome}");
    assert!(outcome.database.0 >= 1, "{outcome}");
    assert!(outcome.ends.get("onboarding Active").is_some_and(|done| done.len() >= 25), "{outcome}");
    assert!(outcome.ends.get("reclaim Restored").is_some_and(|done| done.len() >= 6), "{outcome}");
}
