//! The reclaim workflow in a replay: registration, counts, and recorded missed promises.

use crate::replay::{Replay, ReplayError};
use engine::{Engine, Entity as _, InvalidWorkflow};
use store::ExecutionId;
use workflows::{
    platform::Platform,
    reclaim::{Reclaim, eviction::Eviction},
    sweeps::MissedPromise,
    tenancy::Resource,
    workload_start::WorkloadStart,
};

/// A reclaim that has not ended, as the replay knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenReclaim {
    /// True if it has evicted a workload.
    evicts: bool,
}

/// Registers the workflows of a replay.
pub(crate) fn register(engine: Engine<Platform>) -> Result<Engine<Platform>, InvalidWorkflow> {
    engine.with_workflow::<WorkloadStart>()?.with_workflow::<Eviction>()?.with_workflow::<Reclaim>()
}

impl Replay<'_> {
    /// Records that a reclaim has begun to evict.
    pub(crate) fn evicts(&mut self, execution: ExecutionId, wanted: f64) {
        let open = self.open.entry(execution).or_default();
        if !std::mem::replace(&mut open.evicts, true) {
            self.gauge.reclaims += 1;
            self.gauge.requested_gpus += wanted;
        }
    }

    /// Returns true if a workload's missed promise was recorded, where operators and alerts see it.
    pub(crate) async fn flagged(&self, resource: &Resource, workload: &str) -> Result<bool, ReplayError> {
        let prefix = format!("{}/{resource}/{workload}/", self.scene.tenant);
        let page = self.stage.engine.store().documents(MissedPromise::COLLECTION, &prefix, None, 1).await;
        Ok(!page.map_err(engine::Error::from)?.items.is_empty())
    }
}
