//! Verifies reclaim and its evictions in small scenarios with all injected faults.

use crate::verification::fixture::{Fixture, FixtureDocuments, failed, h100, tenant};
use backends::simulated::{Fault, FaultKind, LocalWorld, Script, local_world, simulated_platform};
use engine::{
    Entity, Error, View,
    testing::{ConcurrentChange, Report, Scenario, World, verify_with_child},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use store::{Key, Put};
use workflows::{
    platform::{Platform, StartWorkload},
    policy::{PolicyInForce, PublishedPolicy},
    reclaim::{Reclaim, ReclaimCause, eviction::Eviction},
    scheduling::admission,
    tenancy::{
        Admission, Allowance, Checkpoint, Cohort, LastObservation, Loan, MonthlyUsage, Node, NodeAllocation,
        NodeUse, Occupancy, OpenLoans, RunningList, Tenant, Workload, WorkloadClass, WorkspaceClass,
        WorkspaceQueue,
    },
};

/// The collections that a run may change.
const LEDGER: [&str; 13] = [
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
];
const OVERDUE: &str = "loans are overdue";
const GIVEN: [&str; 3] =
    [PublishedPolicy::COLLECTION, PolicyInForce::COLLECTION, LastObservation::COLLECTION];

/// Verifies reclaim with all faults of the engine, in scenarios that together reach all its paths.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn reclaim() -> Result<Report, Error> {
    Ok(reclaim_and_eviction().await?.0)
}

/// The same runs, with one report for reclaim and one for the evictions that it starts.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn reclaim_and_eviction() -> Result<(Report, Report), Error> {
    let mut plays = Vec::new();
    for case in cases() {
        plays.push(case.set().await?);
    }
    let scenes: Vec<&dyn Scenario<Reclaim>> =
        plays.iter().map(|play| play as &dyn Scenario<Reclaim>).collect();
    verify_with_child::<Reclaim, Eviction>(&scenes).await
}

struct Case {
    name: &'static str,
    /// The workload on lent GPUs.
    victim: (WorkloadClass, Checkpoint),
    /// The number of demanded GPUs, of two that are lent.
    demand: u64,
    /// True if the beneficiary has no quota, so that its demand does not start a reclaim.
    borrows: bool,
    cause: fn() -> Option<ReclaimCause>,
    policy: Vec<(&'static str, &'static str)>,
    fault: Option<Fault>,
    /// The number of commits after which the demand is withdrawn, if it is.
    withdrawn: Option<usize>,
    /// True to inject all faults.
    thorough: bool,
}

fn for_demand() -> Option<ReclaimCause> {
    Some(ReclaimCause::Demand { workspace: "production".parse().ok()?, workload: "serve".into() })
}

/// A reclaim of up to `AMOUNT` of research's four GPUs.
fn for_excess<const AMOUNT: u64>() -> Option<ReclaimCause> {
    Some(ReclaimCause::Excess { workspace: "research".parse().ok()?, amount: AMOUNT })
}

/// Each case reaches a path that no earlier case reaches, because later cases are checked only for the remaining paths.
#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let usual = || Case {
        name: "",
        victim: (WorkloadClass::Batch, Checkpoint::Signal),
        demand: 2,
        borrows: false,
        cause: for_demand,
        policy: Vec::new(),
        fault: None,
        withdrawn: None,
        thorough: true,
    };
    let glance = || Case { thorough: false, ..usual() };
    vec![
        Case { name: "no GPUs must be freed", demand: 0, ..usual() },
        Case { name: "no workload can be evicted", cause: for_excess::<5>, ..usual() },
        Case {
            name: "the demand is withdrawn before the fence, and it is planned only once",
            withdrawn: Some(2),
            policy: vec![("replans: 3", "replans: 0")],
            ..glance()
        },
        Case { name: "the demand is withdrawn meanwhile", withdrawn: Some(6), ..glance() },
        Case {
            name: "an unknown process has its GPUs open",
            fault: Some(Fault::on("ListGpuClients", FaultKind::HandleLeaked).times(0)),
            ..glance()
        },
        Case {
            name: "a victim does not leave its node",
            fault: Some(Fault::on("EvictWorkload", FaultKind::WorkloadClings).times(0)),
            ..glance()
        },
        Case {
            name: "its memory is not cleaned",
            fault: Some(Fault::on("ScrubGpus", FaultKind::ScrubFallsShort).times(0)),
            ..glance()
        },
        Case {
            name: "a service is evicted, because its workspace has too much",
            victim: (WorkloadClass::Service, Checkpoint::None),
            borrows: true,
            cause: for_excess::<2>,
            policy: vec![("workloads: [batch, interactive]", "workloads: [batch, interactive, service]")],
            ..usual()
        },
        Case {
            name: "a victim saves its work on request",
            victim: (WorkloadClass::Batch, Checkpoint::Api),
            ..usual()
        },
        Case { name: "approval is needed", policy: vec![("victim_gpus: 8", "victim_gpus: 1")], ..glance() },
        Case {
            name: "policy blocks a plan beyond its guard",
            policy: vec![
                ("victim_gpus: 8", "victim_gpus: 1"),
                ("reclaim_wider_than_guard: approve", "reclaim_wider_than_guard: block"),
            ],
            ..glance()
        },
        Case { name: "a batch job is evicted", ..usual() },
        Case { name: OVERDUE, borrows: true, cause: || Some(ReclaimCause::Overdue), ..usual() },
    ]
}

/// Returns the documents of a scenario with overdue loans, and its running workloads.
pub(super) async fn overdue() -> Result<(Vec<Put>, Vec<StartWorkload>), Error> {
    for case in cases() {
        if case.name == OVERDUE {
            let play = case.set().await?;
            return Ok((play.set.documents, play.set.running));
        }
    }
    Ok((Vec::new(), Vec::new()))
}

struct ReclaimScene {
    case: Case,
    set: FixtureDocuments,
    data: Reclaim,
}

impl Case {
    async fn set(self) -> Result<ReclaimScene, Error> {
        let owned = |nominal, borrowing_limit| Allowance { nominal, borrowing_limit, lending_limit: None };
        let (class, checkpoint) = self.victim;
        let mut jobs = vec![
            ("own", "research", 2, WorkloadClass::Batch, Checkpoint::Signal),
            ("lent", "research", 2, class, checkpoint),
        ];
        // A job without further demand is submitted before the others and has its GPUs.
        let serve = if self.borrows {
            ("serve", "guest", self.demand, WorkloadClass::Batch, Checkpoint::None)
        } else {
            ("serve", "production", self.demand.max(1), WorkloadClass::Service, Checkpoint::None)
        };
        jobs.insert(if self.demand == 0 { 0 } else { jobs.len() }, serve);
        // The numbers of checks and the waiting times affect only the number of commits, so the smallest are used. A
        // victim may be all that a workspace has, so the guard is wide, except in cases about approvals.
        let mut policy = vec![
            ("max_staleness: 2m", "max_staleness: 3650d"),
            ("reads: 3", "reads: 1"),
            ("gone: 3m, confirm: 2m", "gone: 3s, confirm: 10s"),
            ("ratio: 2, share: 0.25", "ratio: 2, share: 1"),
        ];
        policy.extend(self.policy.iter().copied());
        let stage = Fixture {
            nodes: 1,
            workspaces: vec![
                ("production", WorkspaceClass::Production, owned(2, Some(1))),
                ("research", WorkspaceClass::Research, owned(2, None)),
                ("guest", WorkspaceClass::Research, owned(0, Some(2))),
            ],
            jobs,
            policy,
        };
        let set = stage.set(&[LEDGER.as_slice(), &GIVEN].concat()).await?;
        let (tenant, resource) = (tenant().map_err(failed)?, h100().map_err(failed)?);
        let cause = (self.cause)().unwrap_or(ReclaimCause::Overdue);
        Ok(ReclaimScene { case: self, set, data: Reclaim::new(tenant, resource, cause) })
    }
}

impl Scenario<Reclaim> for ReclaimScene {
    fn name(&self) -> String {
        self.case.name.into()
    }

    fn data(&self) -> Reclaim {
        self.data.clone()
    }

    fn world(&self) -> World<Platform> {
        let world = LocalWorld::new();
        for start in &self.set.running {
            world.run_workload(start);
        }
        world.script(Script { faults: self.case.fault.iter().cloned().collect(), random: None });
        let platform = simulated_platform(Arc::new(world));
        World { platform, documents: self.set.documents.clone(), collections: LEDGER.to_vec() }
    }

    fn snapshot(&self, platform: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        let mut all = local_world(platform).map(LocalWorld::snapshot).unwrap_or_default();
        // A withdrawn demand leaves the queue, whatever the result of the reclaim.
        let of_demand = |key: &Key| {
            key.id.ends_with("/serve")
                || [WorkspaceQueue::COLLECTION, Cohort::COLLECTION].contains(&key.collection.as_str())
        };
        let ours = documents.iter().filter(|(key, _)| !(self.case.withdrawn.is_some() && of_demand(key)));
        all.extend(ours.filter_map(|(key, body)| Some((format!("ledger {key}"), matter(key, body)?))));
        all
    }

    fn is_exhaustive(&self) -> bool {
        self.case.thorough
    }

    fn concurrent_change(&self) -> Option<ConcurrentChange> {
        let decide = |view: &mut View| admission::finish(view, &tenant()?, "serve").map(drop);
        self.case.withdrawn.map(|after| ConcurrentChange { after, decide })
    }

    fn violations(&self, platform: &Platform) -> Vec<String> {
        local_world(platform).map(LocalWorld::violations).unwrap_or_default()
    }
}

/// Returns the part of a document that is compared after a run: holdings, but no times or decisions.
pub(super) fn matter(key: &Key, body: &Value) -> Option<Value> {
    let field = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
    match key.collection.as_str() {
        Workload::COLLECTION => Some(json!([field("state"), field("placed")])),
        Occupancy::COLLECTION => Some(field("nodes")),
        NodeUse::COLLECTION => Some(field("gpus")),
        Cohort::COLLECTION => Some(json!([
            field("reclaims").as_object().map(serde_json::Map::len),
            field("accounts")
                .as_object()?
                .iter()
                .map(|(name, account)| json!([name, used(account), account.get("waiting")]))
                .collect::<Vec<_>>(),
        ])),
        WorkspaceQueue::COLLECTION => {
            let waiting = field("waiting");
            let names: Vec<_> =
                waiting.as_array()?.iter().map(|waits| waits.get("workload").cloned()).collect();
            Some(json!(names))
        }
        OpenLoans::COLLECTION => {
            let open = field("open");
            let of = |loan: &Value, name: &str| loan.get(name).cloned();
            let loans: Vec<_> = open
                .as_array()?
                .iter()
                .map(|l| json!([of(l, "lender"), of(l, "borrower"), of(l, "amount")]))
                .collect();
            Some(json!(loans))
        }
        _ => None,
    }
}

fn used(account: &Value) -> Vec<Value> {
    let balances = account.get("balances").and_then(Value::as_object);
    let each = balances.into_iter().flatten();
    each.map(|(kind, balance)| json!([kind, balance.get("used"), balance.get("in_transit")])).collect()
}
