//! The reclaim workflow in a replay: registered, counted, and its broken promises found.

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

/// A reclaim that has not ended, as far as the replay knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenReclaim {
    /// Whether it has evicted anybody.
    evicts: bool,
}

/// The workflows of a replay.
pub(crate) fn register(engine: Engine<Platform>) -> Result<Engine<Platform>, InvalidWorkflow> {
    engine.with_workflow::<WorkloadStart>()?.with_workflow::<Eviction>()?.with_workflow::<Reclaim>()
}

impl Replay<'_> {
    /// A reclaim has begun to evict.
    pub(crate) fn evicts(&mut self, execution: ExecutionId, wanted: f64) {
        let open = self.open.entry(execution).or_default();
        if !std::mem::replace(&mut open.evicts, true) {
            self.gauge.reclaims += 1;
            self.gauge.requested_gpus += wanted;
        }
    }

    /// Whether a workload's broken promise was written down, where people and alerts see it.
    pub(crate) async fn flagged(&self, resource: &Resource, workload: &str) -> Result<bool, ReplayError> {
        let prefix = format!("{}/{resource}/{workload}/", self.scene.tenant);
        let page = self.stage.engine.store().documents(MissedPromise::COLLECTION, &prefix, None, 1).await;
        Ok(!page.map_err(engine::Error::from)?.items.is_empty())
    }
}
