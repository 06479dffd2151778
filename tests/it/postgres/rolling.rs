//! Rolling upgrade: servers are replaced one by one by a later version, and clients see no errors.

use std::{path::Path, time::Duration};
use tests::{
    campaigns::rolling::run,
    servers::postgres::{Cluster, Disk, installed},
};

/// S08, S58. No client gets an error or needs to retry; nothing is stranded, repeated or lost. Executions of the earlier version
/// end on either version. The earlier version does not work on executions of the later one, and answers queries about them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_servers_are_upgraded_without_an_error_for_clients() {
    let Some(bin) = installed() else { return };
    let _alone = tests::alone().await;
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(bin, Disk::Quick).unwrap();
    let (tenure, world) = (env!("CARGO_BIN_EXE_tenure-under-test"), env!("CARGO_BIN_EXE_world"));

    let rolled =
        run(Path::new(tenure), Path::new(world), dir.path(), &cluster, (140, Duration::from_millis(1_500)))
            .await;

    println!(
        "{}\n  {} calls; stops {:?}; ended at schema (1, 2, of these begun at 1): {:?}; {:?}",
        rolled.outcome, rolled.calls, rolled.stops, rolled.schemas, rolled.took
    );
    assert!(rolled.errors.is_empty(), "{:#?}", rolled.errors);
    assert!(rolled.calls > 300, "{} calls", rolled.calls);
    assert!(rolled.outcome.wrong.is_empty(), "{}", rolled.outcome);
    assert_eq!(rolled.outcome.ends.keys().collect::<Vec<_>>(), ["completed"]);
    let (earlier, later, upgraded) = rolled.schemas;
    assert!(earlier > 0 && later > upgraded && upgraded > 0, "{:?}", rolled.schemas);
    for (code, took) in &rolled.stops {
        assert_eq!(*code, Some(0));
        assert!(*took >= Duration::from_secs(3) && *took < Duration::from_secs(20), "{took:?}");
    }
    let states: Vec<_> =
        rolled.engines.iter().map(|one| (one["state"].clone(), one["holds"].clone())).collect();
    assert_eq!(states.iter().filter(|(state, _)| state == "ended").count(), 3, "{states:?}");
    assert!(states.iter().all(|(state, held)| state != "ended" || held == 0), "{states:?}");

    assert_eq!(rolled.between.0, 200, "{:?}", rolled.between);
    let [begun, shown, wrong, vote] = &rolled.across[..] else { panic!("{:?}", rolled.across) };
    assert_eq!((begun.0, begun.1["schema"].as_u64()), (202, Some(2)), "{begun:?}");
    assert_eq!((shown.0, shown.1["data"]["greeting"].as_str()), (200, Some("welcome")), "{shown:?}");
    assert_eq!((wrong.0, wrong.1["code"].as_str()), (409, Some("approval.plan_changed")), "{wrong:?}");
    assert_eq!(vote.0, 200, "{vote:?}");
    let ours = rolled.engines.iter().all(|one| one["state"] != "silent");
    assert!(ours, "{:?}", rolled.engines);
}
