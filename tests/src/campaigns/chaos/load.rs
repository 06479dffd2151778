//! The load of the campaign: a steady mix of onboardings and of owners who reclaim lent GPUs.

use super::{troubles::Dice, watch::Eyes};
use crate::processes::{Caller, World};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};

/// GPUs of one node, and of one lending tenant.
const NODE: u64 = 8;
/// The maximum duration of anything before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(240);
/// Reclaims start at once and repeatedly, and observations of a cluster stay valid.
fn policy() -> Value {
    json!({
        "policy": "platform", "version": 3,
        "lending": { "cool_down": "0s",
                     "thrash": { "reclaims": 1_000, "within": "1m", "limit_share": 1, "hold": "1m" } },
        "admission": { "max_staleness": "1d" },
        "reclaim": {
            "deadline": "1h", "grace": "2m", "confirm": { "reads": 2, "apart": "1s" },
            "guard": { "ratio": 8, "share": 1, "victim_gpus": 8, "victim_age": "1d" },
            "limits": { "plan": "1m", "fence": "1m", "notify": "2m", "evict": "2m" },
        },
    })
}

/// The amount of load.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Tenants to onboard.
    pub onboardings: usize,
    /// Loans to reclaim.
    pub reclaims: usize,
    /// Tenants with lending and reclaims, one loan at a time each.
    pub lenders: usize,
    /// Tenants that may be in progress at once.
    pub at_once: usize,
}

impl Wanted {
    /// Returns the number of nodes that is enough for all of them.
    #[must_use]
    pub fn nodes(&self) -> usize {
        // Every fourth tenant has two.
        self.lenders + self.onboardings * 5 / 4 + 8
    }
}

/// The results as callers saw them.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// The subjects of started executions and their ends, as their callers saw them.
    pub(super) ends: BTreeMap<String, String>,
    /// Tenants whose onboarding was cancelled during its run.
    pub(super) cancelled: BTreeSet<String>,
    pub(super) wrong: Vec<String>,
}

/// The load's callers and results.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) staff: Caller,
    pub(super) world: Arc<World>,
    pub(super) eyes: Arc<Eyes>,
    pub(super) told: Arc<Mutex<Told>>,
}

impl Load {
    /// Sets the policy and adds the lending tenants before the faults; runs one execution of each kind, as the
    /// reference for its effects.
    pub(super) async fn prepare(&self, wanted: Wanted) {
        let (status, said) = self.staff.call(Method::POST, "/v1/policies", None, Some(policy())).await;
        assert!(status.is_success(), "{said}");
        let (mut coming, places) = (JoinSet::new(), Arc::new(Semaphore::new(16)));
        for lender in 0..wanted.lenders {
            let (load, places) = (self.clone(), places.clone());
            coming.spawn(async move {
                let _place = places.acquire().await;
                load.lender(lender).await;
            });
        }
        for n in [0, 3] {
            let load = self.clone();
            coming.spawn(async move { load.onboard(&format!("peace-{n}"), n, None).await });
        }
        coming.join_all().await;
        self.lend_and_call_back("lender-0", "peace").await;
    }

    /// Sends the load evenly over `span`, nothing after `until`, and waits until all has ended.
    pub(super) async fn run(&self, wanted: Wanted, mut dice: Dice, (span, until): (Duration, Instant)) {
        let began = Instant::now();
        let places = Arc::new(Semaphore::new(wanted.at_once));
        let mut asking = JoinSet::new();
        for lender in 0..wanted.lenders {
            let (load, rounds) = (self.clone(), wanted.reclaims.div_ceil(wanted.lenders));
            let pace = span / u32::try_from(rounds).unwrap_or(1);
            let first =
                pace / u32::try_from(wanted.lenders).unwrap_or(1) * u32::try_from(lender).unwrap_or(0);
            asking.spawn(async move {
                for round in 0..rounds {
                    let due = began + first + pace * u32::try_from(round).unwrap_or(0);
                    tokio::time::sleep_until(due.into()).await;
                    if Instant::now() > until {
                        return;
                    }
                    load.lend_and_call_back(&format!("lender-{lender}"), &round.to_string()).await;
                }
            });
        }
        let pace = span / u32::try_from(wanted.onboardings).unwrap_or(1);
        for n in 0..wanted.onboardings {
            tokio::time::sleep_until((began + pace * u32::try_from(n).unwrap_or(0)).into()).await;
            let Ok(place) = places.clone().acquire_owned().await else { break };
            if Instant::now() > until {
                break;
            }
            // Some are cancelled, so that nodes are returned and reused.
            let cancel = (n % 8 == 7).then(|| Duration::from_millis(dice.below(3_000)));
            let load = self.clone();
            asking.spawn(async move {
                load.onboard(&format!("tenant-{n}"), n, cancel).await;
                drop(place);
            });
        }
        asking.join_all().await;
    }

    fn wrong(&self, what: String) {
        self.told.lock().unwrap().wrong.push(what);
    }

    /// Returns the end of the onboarding or reclaim of this subject.
    async fn end(&self, subject: String) -> Option<String> {
        let ended = self.eyes.ended(&subject, PATIENCE).await;
        match &ended {
            Some(state) => _ = self.told.lock().unwrap().ends.insert(subject, state.clone()),
            None => self.wrong(format!("{subject} has not ended {PATIENCE:?} after its request")),
        }
        ended
    }

    /// Onboards a tenant; every fourth has two nodes and needs an approval.
    async fn onboard(&self, name: &str, n: usize, cancel: Option<Duration>) {
        let (tier, gpus) = if n % 4 == 3 { ("enterprise", 2 * NODE) } else { ("research", NODE) };
        let wish = json!({
            "name": name,
            "tenant": { "tier": tier, "isolation": "dedicated", "data_residency": "eu-only",
                        "allow_preemption": false, "allow_gpu_sharing": false },
            "workspaces": [{ "name": "main", "class": "production" }],
            "entitlement": { "gpu_model": "H100", "gpus": gpus, "region": "eu" },
        });
        let key = format!("ask-{name}");
        let (status, said) = self.staff.call(Method::POST, "/v1/tenants", Some(&key), Some(wish)).await;
        if status != StatusCode::ACCEPTED {
            return self.wrong(format!("{name} was not accepted: {status} {said}"));
        }
        if let Some(after) = cancel {
            tokio::time::sleep(after).await;
            let path = format!("/v1/executions/{}:cancel", said["id"].as_str().unwrap_or_default());
            let why = json!({ "reason": "they changed their minds" });
            self.staff.call(Method::POST, &path, None, Some(why)).await;
            self.told.lock().unwrap().cancelled.insert(name.to_owned());
        }
        self.end(format!("tenant/{name}")).await;
    }

    /// Adds a tenant with an owning and a borrowing workspace, observed to be idle.
    async fn lender(&self, n: usize) {
        let name = format!("lender-{n}");
        let half = json!({ "gpus": NODE / 2 });
        let wish = json!({
            "name": name,
            "tenant": { "tier": "research", "isolation": "dedicated", "data_residency": "eu-only",
                        "allow_preemption": true, "allow_gpu_sharing": false },
            "workspaces": [{ "name": "serving", "class": "production", "quotas": half },
                           { "name": "research", "class": "research", "quotas": half }],
            "entitlement": { "gpu_model": "H100", "gpus": NODE, "region": "eu" },
        });
        let (status, said) = self.staff.call(Method::POST, "/v1/tenants", Some(&name), Some(wish)).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{said}");
        assert_eq!(self.end(format!("tenant/{name}")).await.as_deref(), Some("Active"));
        let idle = json!({ "H100": { "usable": NODE, "busy": 0 } });
        let nodes = self.staff.all(&format!("/v1/nodes?owner={name}")).await;
        let seen = nodes.iter().filter_map(|node| Some((node["id"].as_str()?.to_owned(), idle.clone())));
        let facts = json!({ "nodes": seen.collect::<BTreeMap<_, _>>() });
        let (status, said) =
            self.staff.call(Method::POST, "/v1/clusters/eu-1/facts", None, Some(facts)).await;
        assert!(status.is_success(), "{said}");
    }

    /// One workspace borrows all GPUs of the other, which then needs them back and gets them; both workloads end.
    async fn lend_and_call_back(&self, tenant: &str, round: &str) {
        let (borrower, owner) = (format!("borrower-{round}"), format!("owner-{round}"));
        if !self.borrow(tenant, &borrower).await {
            return;
        }
        let wants = json!({ "tenant": tenant, "workspace": "serving", "name": owner,
                            "requests": { "gpu/H100": NODE / 2 } });
        let (status, said) = self.staff.call(Method::POST, "/v1/workloads", None, Some(wants)).await;
        // At a retry after a lost answer it may already be admitted.
        if ![StatusCode::ACCEPTED, StatusCode::OK].contains(&status) {
            return self.wrong(format!("{tenant}/{owner} is neither admitted nor queued: {status} {said}"));
        }
        if self.end(format!("workload/{tenant}/{owner}")).await.is_none() {
            return;
        }
        let stands = self.staff.get(&format!("/v1/workloads/{tenant}/{owner}")).await;
        if stands["state"] != "admitted" {
            self.wrong(format!("{tenant}/{owner} reclaimed its loans, and is {}", stands["state"]));
        }
        for workload in [borrower, owner] {
            self.end_in_its_cluster(tenant, &workload).await;
            let path = format!("/v1/workloads/{tenant}/{workload}:finish");
            let (status, said) = self.staff.call(Method::POST, &path, None, Some(json!({}))).await;
            if !status.is_success() {
                self.wrong(format!("{tenant}/{workload} could not be finished: {status} {said}"));
            }
        }
    }

    /// Runs a borrowing workload in its cluster.
    async fn borrow(&self, tenant: &str, name: &str) -> bool {
        let wants = json!({ "tenant": tenant, "workspace": "research", "name": name, "checkpoint": "api",
                            "requests": { "gpu/H100": NODE } });
        let (status, said) = self.staff.call(Method::POST, "/v1/workloads", None, Some(wants)).await;
        let deadline = Instant::now() + PATIENCE;
        let mut stands = Value::Null;
        while stands["state"] != "admitted" {
            if Instant::now() > deadline {
                self.wrong(format!("{tenant}/{name} does not get idle GPUs: {status} {said} {stands}"));
                return false;
            }
            stands = self.staff.get(&format!("/v1/workloads/{tenant}/{name}")).await;
            if stands["state"] != "admitted" {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        let placed = stands["placed"].as_array().cloned().unwrap_or_default();
        let gpus = placed.iter().filter_map(|placed| {
            let gpus: Vec<u16> =
                placed["gpus"].as_object()?.keys().filter_map(|gpu| gpu.parse().ok()).collect();
            Some((placed["node"].as_str()?.to_owned(), gpus))
        });
        let gpus: BTreeMap<String, Vec<u16>> = gpus.collect();
        let runs = json!({ "workspace": "research", "active": true, "pods": true, "gpus": gpus });
        self.in_its_cluster("run", tenant, name, runs).await;
        true
    }

    async fn end_in_its_cluster(&self, tenant: &str, name: &str) {
        self.in_its_cluster("delete", tenant, name, Value::Null).await;
    }

    /// Simulates a cluster's own action on a workload.
    async fn in_its_cluster(&self, verb: &str, tenant: &str, name: &str, spec: Value) {
        let step = format!("cluster: {verb} {tenant}/{name}");
        let request = json!({
            "action": "Cluster", "step": step, "key": step, "epoch": 0, "deadline_ms": 10_000,
            "system": "kubernetes", "cluster": "eu-1", "verb": verb, "kind": "Workload",
            "name": format!("{tenant}/{name}"), "tenant": tenant, "spec": spec,
        });
        self.world.call(&request).await;
    }
}
