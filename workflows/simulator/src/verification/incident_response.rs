//! Verifies incident response with incidents of every kind and all injected faults.

use crate::verification::{
    fixture::{Fixture, FixtureDocuments, JobRow, failed, tenant},
    reclaim,
};
use backends::simulated::{Fault, FaultKind, LocalWorld, Script, local_world, simulated_platform};
use engine::{
    ActionError, Entity, Error,
    testing::{Report, Scenario, World, verify},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use store::{Key, Put, Timestamp};
use workflows::{
    incident::{IncidentCause, IncidentResponse},
    platform::Platform,
    policy::{PolicyInForce, PublishedPolicy},
    tenancy::{
        Admission, Allowance, Checkpoint, ClusterKey, Cohort, KeyScope, LastObservation, Loan, MonthlyUsage,
        Node, NodeAllocation, NodeUse, Occupancy, OpenLoans, RunningList, Tenant, TenantId, Workload,
        WorkloadClass, WorkspaceClass, WorkspaceQueue,
    },
};

/// The collections that a run may change and must restore. Holds stay in any case, because operators release them.
const LEDGER: [&str; 14] = [
    Tenant::COLLECTION,
    NodeAllocation::COLLECTION,
    Node::COLLECTION,
    Cohort::COLLECTION,
    Occupancy::COLLECTION,
    NodeUse::COLLECTION,
    Workload::COLLECTION,
    RunningList::COLLECTION,
    WorkspaceQueue::COLLECTION,
    Loan::COLLECTION,
    OpenLoans::COLLECTION,
    Admission::COLLECTION,
    MonthlyUsage::COLLECTION,
    ClusterKey::COLLECTION,
];
const GIVEN: [&str; 3] =
    [PublishedPolicy::COLLECTION, PolicyInForce::COLLECTION, LastObservation::COLLECTION];

/// Verifies incident response with all faults of the engine, in scenarios that together reach all its paths.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn incident_response() -> Result<Report, Error> {
    let plays = plays().await?;
    let scenes: Vec<&dyn Scenario<IncidentResponse>> =
        plays.iter().map(|play| play as &dyn Scenario<IncidentResponse>).collect();
    verify(&scenes).await
}

/// The tenant's node has four GPUs: the job runs on two of them, and another one needs more than the rest.
const JOBS: [JobRow; 2] = [
    ("train", "research", 2, WorkloadClass::Batch, Checkpoint::Signal),
    ("serve", "production", 4, WorkloadClass::Service, Checkpoint::None),
];

async fn plays() -> Result<Vec<IncidentScene>, Error> {
    let idle = set(&[]).await?;
    let busy = set(&JOBS).await?;
    let acme = tenant().map_err(failed)?;
    let node = || -> Result<IncidentCause, Error> {
        Ok(IncidentCause::GpuFault { tenant: acme.clone(), cluster: named("west-1")?, node: named("n-0")? })
    };
    let leak = IncidentCause::KeyLeak {
        tenant: acme.clone(),
        cluster: named("west-1")?,
        next_hash: Some("cd".into()),
    };
    let breach =
        IncidentCause::IsolationBreach { tenants: vec![acme.clone(), named::<TenantId>("unknown")?] };
    let says = |what| Fault::on("InspectGpus", what).times(0);
    let unfit = || Fault::on("ExamineNode", FaultKind::NodeUnfit).times(0);
    let reboot_fails = || Fault::on("RebootNode", FaultKind::RefuseBefore).times(0);
    let reset_fails = || Fault::on("ResetGpus", FaultKind::RefuseBefore).times(0);
    let play = |name, happening, set: &FixtureDocuments, faults| IncidentScene {
        name,
        happening,
        set: set.clone(),
        faults,
    };
    Ok(vec![
        play(
            "a node has errors, is unfit, and runs nothing",
            node()?,
            &idle,
            vec![says(FaultKind::NodeUnfit), unfit()],
        ),
        play("a node has errors, and a test finds none", node()?, &idle, vec![says(FaultKind::NodeUnfit)]),
        play(
            "its driver requests a reset, and workloads run on it",
            node()?,
            &busy,
            vec![says(FaultKind::AsksReset)],
        ),
        play("a reset fails", node()?, &idle, vec![says(FaultKind::AsksReset), reset_fails()]),
        play("its driver requests a reboot", node()?, &idle, vec![says(FaultKind::AsksReboot)]),
        play("a reboot fails", node()?, &idle, vec![says(FaultKind::AsksReboot), reboot_fails(), unfit()]),
        play("nothing is wrong with a node", node()?, &busy, vec![]),
        play("a key is known to others", leak, &busy, vec![]),
        play("tenants were not kept apart", breach, &busy, vec![]),
    ])
}

fn named<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str) -> Result<T, Error> {
    name.parse().map_err(|e: T::Err| Error::Undecided(ActionError::permanent("name.invalid", e.to_string())))
}

async fn set(jobs: &[JobRow]) -> Result<FixtureDocuments, Error> {
    let owned = |nominal| Allowance { nominal, borrowing_limit: None, lending_limit: None };
    let stage = Fixture {
        nodes: 1,
        workspaces: vec![
            ("production", WorkspaceClass::Production, owned(2)),
            ("research", WorkspaceClass::Research, owned(2)),
        ],
        jobs: jobs.to_vec(),
        policy: vec![("max_staleness: 2m", "max_staleness: 3650d")],
    };
    let mut set = stage.set(&[LEDGER.as_slice(), &GIVEN].concat()).await?;
    let key = ClusterKey {
        cluster: named("west-1")?,
        tenant: Some(tenant().map_err(failed)?),
        version: 1,
        hash: Some("ab".into()),
        scopes: vec![KeyScope::PushFacts, KeyScope::PullCommands],
        created_at: Timestamp(0),
        issued_by: None,
        earlier: None,
        revoked_at: None,
        revoked_by: None,
        revoked_for: None,
    };
    let body =
        serde_json::to_vec(&key).map_err(|e| Error::Undecided(ActionError::permanent("proof.stage", e)))?;
    set.documents.push(Put { key: Key::new(ClusterKey::COLLECTION, key.id()), body: Some(body) });
    Ok(set)
}

struct IncidentScene {
    name: &'static str,
    happening: IncidentCause,
    set: FixtureDocuments,
    /// Faults of the node.
    faults: Vec<Fault>,
}

impl Scenario<IncidentResponse> for IncidentScene {
    fn name(&self) -> String {
        self.name.into()
    }

    fn data(&self) -> IncidentResponse {
        IncidentResponse::new(self.happening.clone(), "dcgm".into(), "XID 79 on GPU 0".into())
    }

    fn world(&self) -> World<Platform> {
        let world = LocalWorld::new();
        self.set.running.iter().for_each(|start| world.run_workload(start));
        world.own_node("west-1", "n-0", "acme", 1);
        world.script(Script { faults: self.faults.clone(), random: None });
        let platform = simulated_platform(Arc::new(world));
        World { platform, documents: self.set.documents.clone(), collections: LEDGER.to_vec() }
    }

    fn snapshot(&self, platform: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        let mut all = local_world(platform).map(LocalWorld::snapshot).unwrap_or_default();
        all.extend(
            documents.iter().filter_map(|(key, body)| Some((format!("ledger {key}"), matter(key, body)?))),
        );
        all
    }

    fn violations(&self, platform: &Platform) -> Vec<String> {
        local_world(platform).map(LocalWorld::violations).unwrap_or_default()
    }
}

/// Returns the part of a document that is compared after a run: serving state, admissions and valid keys, but no times
/// or decisions.
fn matter(key: &Key, body: &Value) -> Option<Value> {
    let field = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
    match key.collection.as_str() {
        Node::COLLECTION => Some(json!([field("owner"), field("state")])),
        NodeUse::COLLECTION => Some(json!([field("serving"), field("gpus")])),
        ClusterKey::COLLECTION => {
            Some(json!([field("version"), field("hash"), field("revoked_at").is_null()]))
        }
        Cohort::COLLECTION => Some(json!([reclaim::matter(key, body)?, admitting(body)])),
        _ => reclaim::matter(key, body),
    }
}

/// Returns the workspaces of a cohort and whether each admits work.
pub(super) fn admitting(cohort: &Value) -> Vec<(String, Value)> {
    let accounts = cohort.get("accounts").and_then(Value::as_object).into_iter().flatten();
    let is_open = |account: &Value| json!(account.get("admitting") == Some(&"open".into()));
    accounts.map(|(name, account)| (name.clone(), is_open(account))).collect()
}
