//! A platform whose capabilities are all simulated.

use super::{LocalWorld, Simulated, World, signer::simulated_signer};
use crate::record_keys::NoRecordKeys;
use std::{collections::BTreeMap, sync::Arc};
use workflows::platform::Platform;

/// The simulator in a platform's field `simulator`.
struct Simulator(Arc<dyn World>);

/// Returns a platform whose capabilities are all implemented by one simulator, in this process or in another.
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

/// Returns the simulator of this platform if it is in this process, for snapshots and scripts in tests.
#[must_use]
pub fn local_world(platform: &Platform) -> Option<&LocalWorld> {
    let simulator = platform.simulator.as_deref()?.downcast_ref::<Simulator>()?;
    simulator.0.local()?.downcast_ref()
}
