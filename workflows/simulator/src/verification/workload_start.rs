//! Verifies starts of admitted workloads in a small scenario with all injected faults.

use crate::verification::{
    fixture::{Fixture, FixtureDocuments, failed, tenant},
    reclaim::matter,
};
use backends::simulated::{LocalWorld, local_world, simulated_platform};
use engine::{
    Entity, Error,
    testing::{Report, Scenario, World, verify},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use store::Key;
use workflows::{
    platform::Platform,
    tenancy::{
        Admission, Allowance, Checkpoint, NodeAllocation, Tenant, Workload, WorkloadClass, WorkspaceClass,
    },
    workload_start::WorkloadStart,
};

const LEDGER: [&str; 3] = [Tenant::COLLECTION, NodeAllocation::COLLECTION, Workload::COLLECTION];

/// Verifies the start of a workload with all faults of the engine.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn workload_start() -> Result<Report, Error> {
    let mut plays = Vec::new();
    for (name, decision) in [("an admitted workload", 1), ("a workload that was admitted again", 7)] {
        plays.push(Start::set(name, decision).await?);
    }
    let scenes: Vec<&dyn Scenario<WorkloadStart>> =
        plays.iter().map(|play| play as &dyn Scenario<WorkloadStart>).collect();
    verify::<WorkloadStart>(&scenes).await
}

struct Start {
    name: &'static str,
    set: FixtureDocuments,
    data: WorkloadStart,
}

impl Start {
    async fn set(name: &'static str, decision: u64) -> Result<Self, Error> {
        let owned = Allowance { nominal: 4, borrowing_limit: None, lending_limit: None };
        let stage = Fixture {
            nodes: 1,
            workspaces: vec![("research", WorkspaceClass::Research, owned)],
            jobs: vec![("train", "research", 2, WorkloadClass::Service, Checkpoint::None)],
            policy: Vec::new(),
        };
        let set = stage.set(&LEDGER).await?;
        let tenant = tenant().map_err(failed)?;
        let decision = Admission::key(&tenant, decision);
        Ok(Self { name, set, data: WorkloadStart::new(tenant, "train".into(), decision) })
    }
}

impl Scenario<WorkloadStart> for Start {
    fn name(&self) -> String {
        self.name.into()
    }

    fn data(&self) -> WorkloadStart {
        self.data.clone()
    }

    fn world(&self) -> World<Platform> {
        let platform = simulated_platform(Arc::new(LocalWorld::new()));
        World { platform, documents: self.set.documents.clone(), collections: LEDGER.to_vec() }
    }

    /// Compares only the ledger: a workload that runs after its start was abandoned still matches its admission.
    fn snapshot(&self, _: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        documents.iter().filter_map(|(key, body)| Some((key.to_string(), matter(key, body)?))).collect()
    }

    fn violations(&self, platform: &Platform) -> Vec<String> {
        local_world(platform).map(LocalWorld::violations).unwrap_or_default()
    }
}
