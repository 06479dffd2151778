//! Reports keys of clusters that are too old.

use super::report::{SweepReport, all};
use crate::{platform::Platform, tenancy::ClusterKey};
use engine::{DAY, Engine, Error};

/// The age in days after which a key is reported. The sweep does not rotate it, because the cluster needs the new secret.
const OLD: u32 = 90;

pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    let now = engine.clock().now();
    for key in all::<ClusterKey>(engine, swept).await? {
        if key.revoked_at.is_none() && now.since(key.created_at) > OLD * DAY {
            let days = now.since(key.created_at).as_secs() / 86_400;
            let cluster = &key.cluster;
            swept.add_finding(format!(
                "the key of cluster {cluster} is {days} days old: replace it with `tenure cluster key rotate {cluster}`"
            ));
        }
    }
    Ok(())
}
