//! after any interruption the tighter limit is in force.

use super::stage::{Stage, gpu, request};
use async_trait::async_trait;
use backends::simulated::{
    Fault, FaultKind, LocalWorld, Request, Response, Script, Verb, World, simulated_platform,
};
use engine::{Action as _, ActionError, Attribution, Event};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use store::{ExecutionId, Key, Memory, Store as _};
use workflows::{
    platform::{ChangeCohortQuota, CreateCohort, LimitNames, LimitRestored, ReadLimits, RestoreCohortQuota},
    quota_change::{decrease::QuotaDecrease, increase::QuotaIncrease},
    tenancy::*,
};

/// A simulated platform that compares every layer with the ledger around each of its effects.
struct Watched {
    world: LocalWorld,
    store: Arc<Memory>,
    broken: Mutex<Vec<String>>,
    looks: Mutex<u32>,
    /// How many more times another writer changes the hard limit just before it is read back.
    meddling: Mutex<u32>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.world.fmt(f)
    }
}

impl Watched {
    fn new(meddling: u32) -> (Arc<Self>, Arc<Memory>) {
        let store = Arc::new(Memory::new());
        let (world, broken) = (LocalWorld::new(), Mutex::default());
        let looks = Mutex::default();
        let watched = Self { world, store: store.clone(), broken, looks, meddling: Mutex::new(meddling) };
        (Arc::new(watched), store)
    }

    async fn document<T: engine::Entity>(&self, id: &str) -> Option<T> {
        let found = self.store.document(&Key::new(T::COLLECTION, id)).await.unwrap();
        found.map(|document| serde_json::from_slice(&document.body).unwrap())
    }

    /// Checks `ledger ≤ hard limit ≤ queue ≤ cohort ≤ ledger + earmarks`, where a hard limit has room for the borrowing
    /// limit.
    async fn look(&self, when: &str) {
        let Some(quota) = self.document::<Quota>("acme/research").await else { return };
        let marks = self.document::<Earmarks>("acme").await.map_or(0, |marks| {
            marks.open.values().filter(|m| m.workspace.as_str() == "research").map(|m| m.amount).sum::<u64>()
        });
        let snapshot = self.world.snapshot();
        let number = |address: &str, pointer: &str| {
            let spec = snapshot.get(&format!("kubernetes/west-1/{address}"));
            spec.and_then(|object| object["spec"].pointer(pointer)).and_then(Value::as_u64)
        };
        let cohort = number("Cohort/t-acme", "/quotas/research~1gpu~1H100");
        let queue = number("ClusterQueue/t-acme--research", "/resourceGroups/0/nominalQuota");
        let hard = number("ResourceQuota/t-acme--research/tenure", "/hard/requests.nvidia.com~1gpu");
        let (Some(cohort), Some(queue), Some(hard)) = (cohort, queue, hard) else { return };
        *self.looks.lock().unwrap() += 1;
        let ledger = quota.allowances[&gpu("H100")].nominal;
        let room = |nominal: u64| (nominal + 1).min(8);
        let holds = ledger <= queue && queue <= cohort && cohort <= ledger + marks;
        if !holds || hard < room(ledger) || hard > room(queue) {
            let said = format!(
                "{when}: ledger {ledger}, hard {hard}, queue {queue}, cohort {cohort}, earmarked {marks}"
            );
            self.broken.lock().unwrap().push(said);
        }
    }
}

#[async_trait]
impl World for Watched {
    async fn call(&self, request: Request) -> Result<Response, ActionError> {
        let meddles = {
            let mut left = self.meddling.lock().unwrap();
            let reads_back = request.action == "KeepLimits" && request.verb == Verb::Read;
            let meddles = reads_back && request.kind == "ResourceQuota" && *left > 0;
            *left -= u32::from(meddles);
            meddles.then_some(*left)
        };
        if let Some(nth) = meddles {
            let key = format!("meddler/{nth}");
            let spec = serde_json::json!({ "hard": { "requests.nvidia.com/gpu": 1, "pods": 100 } });
            let meddler = Request {
                verb: Verb::Patch,
                step: key.clone(),
                key,
                spec,
                tenant: "acme".into(),
                ..request.clone()
            };
            self.world.call(meddler).await.unwrap();
        } else {
            self.look(&format!("before {}", request.action)).await;
        }
        let after = format!("after {}", request.action);
        let answer = self.world.call(request).await;
        if *self.meddling.lock().unwrap() == 0 && meddles.is_none() {
            self.look(&after).await;
        }
        answer
    }

    fn local(&self) -> Option<&dyn std::any::Any> {
        self.world.local()
    }
}

async fn phase(stage: &Stage, id: ExecutionId) -> (String, String) {
    let record = stage.engine.record(id).await.unwrap();
    (record.phase, record.reason.unwrap_or_default())
}

/// Advances the clock past every retry.
async fn settle(stage: &Stage) {
    for _ in 0..10 {
        stage.pass(engine::MINUTE).await;
    }
}

/// Every layer's change fails in every way; parked executions are repaired and retried.
#[tokio::test]
async fn the_tighter_limit_applies_at_every_effect_of_every_failed_change() {
    let (watched, store) = Watched::new(0);
    let stage = Stage::on("H100", store, watched.clone()).await;
    let whats = [
        FaultKind::FailBefore,
        FaultKind::FailAfter,
        FaultKind::RefuseBefore,
        FaultKind::RefuseAfter,
        FaultKind::AnswerLost,
    ];
    let actions = ["ChangeCohortQuota", "ChangeQueueQuota", "ChangeResourceQuota"];
    let mut ends = std::collections::BTreeMap::<String, u32>::new();
    for action in actions {
        for what in whats {
            for (more, asks) in [(true, "by: 2"), (false, "by: 2")] {
                let before = stage.quota("research").await.allowances[&gpu("H100")].nominal;
                let fault = Fault::on(action, what);
                watched.world.script(Script { faults: vec![fault], random: None });
                let id = if more {
                    stage.begin(QuotaIncrease::new(request(asks))).await.unwrap()
                } else {
                    stage.begin(QuotaDecrease::new(request(asks))).await.unwrap()
                };
                settle(&stage).await;
                if phase(&stage, id).await.0 == "parked" {
                    let order = Attribution { by: "olga".into(), reason: "mended".into() };
                    stage.engine.deliver(id, Event::RetryRequested(order)).await.unwrap();
                    stage.engine.run_until_idle().await.unwrap();
                }
                let (at, reason) = phase(&stage, id).await;
                assert_eq!(at, "finished", "{action} {what:?}: {reason}");
                let now = stage.quota("research").await.allowances[&gpu("H100")].nominal;
                *ends.entry(reason.clone()).or_default() += 1;
                if reason == "rolled_back" {
                    assert_eq!(now, before, "{action} {what:?}");
                    if !more {
                        // Returns to the quota from which the next increase starts.
                        watched.world.script(Script::default());
                        stage.decrease(asks).await;
                    }
                } else if !more {
                    assert_eq!(now, before - 2);
                }
                watched.look("at rest").await;
                assert_eq!(stage.all::<Earmarks>().await, []);
                if more && reason == "rolled_back" {
                    watched.world.script(Script::default());
                    stage.increase(asks).await;
                }
            }
        }
    }

    assert_eq!(*watched.broken.lock().unwrap(), Vec::<String>::new());
    assert_eq!(watched.world.violations(), Vec::<String>::new());
    assert!(*watched.looks.lock().unwrap() > 500, "the layers were compared");
    assert!(ends["rolled_back"] >= 5 && ends["completed"] >= 10, "{ends:?}");
}

#[tokio::test]
async fn a_drifted_limit_is_set_again_three_times_and_then_parks_past_the_pivot() {
    let (watched, store) = Watched::new(3);
    let stage = Stage::on("H100", store, watched.clone()).await;
    let id = stage.increase("by: 2").await;
    settle(&stage).await;
    assert_eq!(stage.state(id).await, "Effective", "three conflicts are tolerated");

    let (watched, store) = Watched::new(4);
    let stage = Stage::on("H100", store, watched.clone()).await;
    let id = stage.increase("by: 2").await;
    settle(&stage).await;

    assert_eq!(stage.state(id).await, "Verifying");
    assert_eq!(phase(&stage, id).await, ("parked".into(), "past_pivot_failure".into()));
    let body = stage.engine.execution(id).await.unwrap().1.body.to_string();
    assert!(body.contains("quota.drifted"), "{body}");
    assert_eq!(stage.quota("research").await.allowances[&gpu("H100")].nominal, 2, "nothing is granted yet");
    let order = Attribution { by: "olga".into(), reason: "the other controller is off".into() };
    stage.engine.deliver(id, Event::RetryRequested(order)).await.unwrap();
    stage.engine.run_until_idle().await.unwrap();
    assert_eq!(stage.state(id).await, "Effective");
}

/// A limit that has changed since it was read is not overwritten, and the undo keeps later values of other writers.
#[tokio::test]
async fn changes_by_others_are_neither_overwritten_nor_undone() {
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let calls = tests::actions::calls::Calls::new().await;
    let quotas = std::collections::BTreeMap::from([("research/gpu/H100".to_owned(), 2)]);
    let (cluster, tenant) = ("west-1".to_owned(), "acme".to_owned());
    let make = CreateCohort { cluster: cluster.clone(), tenant: tenant.clone(), quotas };
    make.run(&platform, &calls.at("Making", false, 1)).await.unwrap();
    let cohort = Some("research/gpu/H100".to_owned());
    let of = LimitNames { cluster, tenant, workspace: "research".into(), cohort, ..LimitNames::default() };
    let change = |from, to| ChangeCohortQuota { of: of.clone(), from: Some(from), to: Some(to) };
    let said = || async {
        let read = ReadLimits { of: of.clone() };
        read.run(&platform, &calls.at("Reading", false, 1)).await.unwrap().cohort
    };

    let stale = change(3, 4).run(&platform, &calls.at("Raising", false, 1)).await.unwrap_err();
    assert_eq!((stale.code.as_str(), said().await), ("quota.drifted", Some(2)));
    change(2, 4).run(&platform, &calls.at("Changing", false, 1)).await.unwrap();
    change(4, 9).run(&platform, &calls.at("Meddling", false, 1)).await.unwrap();
    let undo = RestoreCohortQuota { change: change(2, 4) };
    let left = undo.run(&platform, &calls.at("Changing", true, 1)).await.unwrap();
    assert_eq!((left, said().await), (LimitRestored::Left { now: serde_json::json!(9) }, Some(9)));
    change(9, 4).run(&platform, &calls.at("Mending", false, 1)).await.unwrap();
    let back = undo.run(&platform, &calls.at("Changing", true, 2)).await.unwrap();
    assert_eq!((back, said().await), (LimitRestored::Before, Some(2)));
}
