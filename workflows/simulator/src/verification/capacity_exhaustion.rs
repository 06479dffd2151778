//! Verifies capacity exhaustion in a small region with all injected faults.

use crate::verification::fixture::{self, fleet};
use backends::simulated::{LocalWorld, simulated_platform};
use engine::{
    ActionError, Entity, Error,
    testing::{Report, Scenario, World, verify},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use store::{Key, Put};
use workflows::{
    capacity::{CapacityExhaustion, LoweredBuffer},
    platform::{Platform, StartWorkload},
    tenancy::{
        Cluster, Cohort, FreePool, FreePoolChunk, GpuModel, Gpus, NameError, Node, Region, RegionId,
        RegionIndex,
    },
};

const LEDGER: [&str; 3] = [Region::COLLECTION, Cohort::COLLECTION, LoweredBuffer::COLLECTION];
const GIVEN: [&str; 5] = [
    RegionIndex::COLLECTION,
    Cluster::COLLECTION,
    FreePool::COLLECTION,
    FreePoolChunk::COLLECTION,
    Node::COLLECTION,
];

/// Verifies capacity exhaustion with all faults of the engine.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn capacity_exhaustion() -> Result<Report, Error> {
    let documents = fleet(&[LEDGER.as_slice(), &GIVEN].concat()).await?;
    let name = |e: NameError| Error::Undecided(ActionError::permanent("name.invalid", e));
    let (region, model) = ("eu-west".parse().map_err(name)?, "H100".parse().map_err(name)?);
    let play = |name, wanted| {
        let trigger = "somebody waits".to_owned();
        let data = CapacityExhaustion::new(
            RegionId::clone(&region),
            GpuModel::clone(&model),
            wanted,
            trigger,
            Vec::new(),
        );
        ShortageScene { name, data, documents: documents.clone(), running: Vec::new() }
    };
    let mut lent = play("loans are overdue", Gpus(1_000));
    lent.data.tenants = vec![fixture::tenant().map_err(fixture::failed)?];
    let (documents, running) = super::reclaim::overdue().await?;
    lent.documents.extend(documents);
    lent.running = running;
    let plays = [play("enough capacity", Gpus(0)), play("too little capacity", Gpus(1_000)), lent];
    let scenes: Vec<&dyn Scenario<CapacityExhaustion>> =
        plays.iter().map(|play| play as &dyn Scenario<CapacityExhaustion>).collect();
    verify(&scenes).await
}

struct ShortageScene {
    name: &'static str,
    data: CapacityExhaustion,
    documents: Vec<Put>,
    running: Vec<StartWorkload>,
}

impl Scenario<CapacityExhaustion> for ShortageScene {
    fn name(&self) -> String {
        self.name.into()
    }

    fn data(&self) -> CapacityExhaustion {
        self.data.clone()
    }

    fn world(&self) -> World<Platform> {
        let world = LocalWorld::new();
        self.running.iter().for_each(|start| world.run_workload(start));
        let platform = simulated_platform(Arc::new(world));
        World { platform, documents: self.documents.clone(), collections: LEDGER.to_vec() }
    }

    fn is_exhaustive(&self) -> bool {
        self.data.tenants.is_empty()
    }

    /// Returns the buffer, and the workspaces that admit nothing.
    fn snapshot(&self, _: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        let matter = |key: &Key, body: &Value| match key.collection.as_str() {
            Region::COLLECTION => body.get("buffer").cloned(),
            LoweredBuffer::COLLECTION => body.get("before").cloned(),
            Cohort::COLLECTION => Some(shut(body)),
            _ => None,
        };
        documents.iter().filter_map(|(key, body)| Some((key.to_string(), matter(key, body)?))).collect()
    }
}

/// Returns the workspaces that admit nothing.
fn shut(cohort: &Value) -> Value {
    let accounts = cohort.get("accounts").and_then(Value::as_object).into_iter().flatten();
    accounts
        .filter(|(_, account)| account.get("admitting") != Some(&"open".into()))
        .map(|(name, _)| name.as_str())
        .collect()
}
