//! A platform on which everything is simulated.

use super::{LocalWorld, Simulated, World, signer::simulated_signer};
use crate::record_keys::NoRecordKeys;
use std::{collections::BTreeMap, sync::Arc};
use workflows::platform::Platform;

/// The simulator of a platform, as the platform keeps it.
struct Simulator(Arc<dyn World>);

/// A platform on which everything is simulated by one world, in this process or in another.
#[must_use]
pub fn simulated_platform(world: Arc<dyn World>) -> Platform {
    let all = Arc::new(Simulated::new(world.clone()));
    Platform {
        kubernetes: all.clone(),
        slurm: all.clone(),
        gpus: all.clone(),
        keys: all.clone(),
        objects: all.clone(),
        identity: all.clone(),
        workloads: all.clone(),
        tenant_resources: all.clone(),
        machines: all.clone(),
        hooks: all,
        records: Arc::new(NoRecordKeys),
        signer: simulated_signer(),
        simulator: Some(Arc::new(Simulator(world))),
        served: BTreeMap::new(),
        unready: BTreeMap::new(),
    }
}

/// The world that simulates this platform, if it is in this process: for snapshots and scripts in tests.
#[must_use]
pub fn local_world(platform: &Platform) -> Option<&LocalWorld> {
    let simulator = platform.simulator.as_deref()?.downcast_ref::<Simulator>()?;
    simulator.0.local()?.downcast_ref()
}
