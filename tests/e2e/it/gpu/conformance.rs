//! The conformance kit for GPU layouts: by NVML in this process, and through an agent. Each object is a machine with one GPU, and
//! its layout represents the amount.

use super::bench::{Bench, CLUSTER, NODE};
use async_trait::async_trait;
use backends::{
    agents::{Agents, Answer, Executor, IssuedCommand, Output, PullRequest},
    nvml::LocalNode,
};
use e2e::excuses::holds;
use engine::ActionError;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tests::kit::{self, Subject, Trouble};
use tokio::task::JoinHandle;
use workflows::platform::{CallMetadata, FoundObject, Gpus};

const OFF: &str = "all-disabled";
/// By amount: the layout, and the profiles of its instances as the driver numbers them.
const LAYOUTS: [(u64, &str, &[u64]); 6] = [
    (5, "all-1g.10gb", &[19, 19, 19, 19, 19, 19, 19]),
    (6, "mixed", &[9, 14, 19]),
    (7, "all-7g.80gb", &[0]),
    (8, "all-2g.20gb", &[14, 14, 14]),
    (9, "all-3g.40gb", &[9, 9]),
    (12, "all-4g.40gb", &[5]),
];
/// Answers of NVML: `NVML_ERROR_NOT_SUPPORTED`, `.._NO_PERMISSION`, `.._DRIVER_NOT_LOADED`, `.._UNKNOWN`.
const UNSUPPORTED: u32 = 3;
const DENIED: u32 = 4;
const NOT_LOADED: u32 = 9;
const UNKNOWN: u32 = 999;

fn profile(amount: u64) -> &'static str {
    LAYOUTS.iter().find(|(of, _, _)| *of == amount).unwrap().1
}

/// Returns the driver settings of a fault.
fn driver(next: Trouble) -> Value {
    match next {
        Trouble::Deny => json!({ "init": DENIED }),
        Trouble::Down => json!({ "init": NOT_LOADED }),
        Trouble::NotSupported => json!({ "fail": { "nvmlDeviceSetMigMode": { "code": UNSUPPORTED } } }),
        Trouble::HalfDone => {
            let once = json!({ "code": UNKNOWN, "after": 2, "times": 1 });
            json!({ "fail": { "nvmlGpuInstanceCreateComputeInstance": once } })
        }
        Trouble::Slow(span) => {
            let slow = json!({ "slow_ms": u64::try_from(span.as_millis()).unwrap() });
            json!({ "fail": { "nvmlDeviceGetCount_v2": slow } })
        }
        Trouble::LoseRequest
        | Trouble::LoseAnswer
        | Trouble::Throttle(_)
        | Trouble::Garbage
        | Trouble::Calm => json!({}),
    }
}

/// A machine and its backend.
struct Machine {
    bench: Bench,
    node: LocalNode,
    agent: Option<JoinHandle<()>>,
}

impl Machine {
    fn has(&self, next: Trouble) {
        self.bench.edit(|state| {
            state["init"] = json!(0);
            state["fail"] = json!({});
            state.as_object_mut().unwrap().extend(driver(next).as_object().unwrap().clone());
        });
    }

    fn amount(&self) -> Option<u64> {
        let stands = &self.bench.stands()[0];
        if stands["mode"][0] != 1 {
            return None;
        }
        let mut profiles: Vec<u64> =
            stands["instances"].as_array().unwrap().iter().map(|one| one[1].as_u64().unwrap()).collect();
        profiles.sort_unstable();
        let known = LAYOUTS.iter().find(|(_, _, of)| *of == profiles);
        Some(known.map_or(u64::MAX, |(amount, _, _)| *amount))
    }

    /// Switches partitioning off by hand.
    fn switched_off(&self) {
        self.bench.edit(|state| {
            let gpu = &mut state["gpus"][0];
            (gpu["mig_current"], gpu["mig_pending"], gpu["instances"]) = (json!(0), json!(0), json!([]));
        });
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(agent) = &self.agent {
            agent.abort();
        }
    }
}

/// Layouts of machines.
struct Layouts {
    /// The agents' mailboxes; none if the driver is called here.
    agents: Option<Arc<Agents>>,
    trouble: Arc<Mutex<Trouble>>,
    machines: Mutex<BTreeMap<String, Machine>>,
}

impl Layouts {
    fn new(agents: Option<Arc<Agents>>) -> Self {
        Self { agents, trouble: Arc::new(Mutex::new(Trouble::Calm)), machines: Mutex::default() }
    }

    /// Returns the driver's part of a fault: an agent has its own part.
    fn of_driver(&self, next: Trouble) -> Trouble {
        match next {
            Trouble::Down | Trouble::Slow(_) if self.agents.is_some() => Trouble::Calm,
            other => other,
        }
    }

    /// Returns the machine of this name, and creates it if it is missing.
    async fn machine(&self, thing: &str) -> LocalNode {
        if let Some(machine) = self.machines.lock().unwrap().get(thing) {
            return machine.node.clone();
        }
        let bench = Bench::one(json!({}));
        let agent = self.agents.as_ref().map(|agents| {
            let hand = Arc::new(Executor::connect(bench.target(json!({}))).unwrap());
            let agent =
                Agent { agents: agents.clone(), node: thing.to_owned(), hand, trouble: self.trouble.clone() };
            tokio::spawn(agent.run())
        });
        let machine = Machine { node: bench.node(), bench, agent };
        let (node, next) = (machine.node.clone(), *self.trouble.lock().unwrap());
        machine.has(self.of_driver(next));
        self.machines.lock().unwrap().insert(thing.to_owned(), machine);
        self.until_present(next != Trouble::Down).await;
        node
    }

    /// Waits until every agent polls, or none does.
    async fn until_present(&self, wanted: bool) {
        let Some(agents) = &self.agents else { return };
        let is = || {
            let listed = agents.list();
            let machines = self.machines.lock().unwrap();
            machines.keys().all(|name| listed.iter().any(|one| one.node == *name && one.present) == wanted)
        };
        while !is() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn set(
        &self,
        thing: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let node = self.machine(thing).await;
        match &self.agents {
            Some(agents) => agents.set_layout(CLUSTER, thing, profile, stamp).await?,
            None => node.set_layout(CLUSTER, NODE, profile, stamp).await?,
        }
        Ok(found())
    }
}

/// A layout has neither an identity nor a label.
fn found() -> FoundObject {
    let (uid, tenant, step) = ("layout".to_owned(), "acme".to_owned(), String::new());
    FoundObject { uid, tenant, step, spec: Value::Null, terminating: false }
}

#[async_trait]
impl Subject for Layouts {
    fn name(&self) -> &'static str {
        if self.agents.is_some() { "agents (the same, by orders)" } else { "nvml (a stand-in of the driver)" }
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.set(thing, profile(amount), stamp).await
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        let node = self.machine(thing).await;
        let layout = match &self.agents {
            Some(agents) => agents.layout(CLUSTER, thing, stamp).await?,
            None => node.layout(CLUSTER, NODE, stamp).await?,
        };
        Ok((layout.profile != OFF).then(found))
    }

    async fn change(
        &self,
        thing: &str,
        _: u64,
        to: u64,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        self.set(thing, profile(to), stamp).await
    }

    async fn remove(&self, thing: &str, _: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.set(thing, OFF, stamp).await.map(drop)
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        self.machines.lock().unwrap().get(thing)?.amount()
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        match next {
            Trouble::Throttle(_) => return Err("a driver does not throttle"),
            Trouble::LoseRequest | Trouble::LoseAnswer if self.agents.is_none() => {
                return Err("a call into a library of the process always returns while the process lives");
            }
            Trouble::Garbage if self.agents.is_none() => {
                return Err("the library answers in C types, which cannot be malformed text");
            }
            Trouble::Slow(span) if self.agents.is_none() && span > Duration::from_secs(1) => {
                return Err("a call into a library of the process cannot be interrupted");
            }
            _ => {}
        }
        *self.trouble.lock().unwrap() = next;
        for machine in self.machines.lock().unwrap().values() {
            machine.has(self.of_driver(next));
        }
        self.until_present(next != Trouble::Down).await;
        Ok(())
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        match case {
            "make.marks" | "undo.own" | "remove.again" | "remove.replaced" | "lost_answer.make_undo" => {
                Some("a layout has no mark and no identity: only the file on the node records its step")
            }
            "make.foreign" | "repeat.make_unequal" | "dry_run.make_refused" | "twins.make_rivals" => {
                Some("a layout has no owner: the latest layout is in force")
            }
            "change.stale"
            | "change.drifted"
            | "change.absent"
            | "change.gone"
            | "repeat.change_by_other"
            | "dry_run.change_refused"
            | "twins.change_rivals" => Some("the call replaces any layout: it does not name the old one"),
            "repeat.key_reused" | "fence.make" => {
                Some("keys and epochs are stored per node, and the other object is another node")
            }
            _ => None,
        }
    }

    /// Removes the machine's layout, so that the machine goes with its case.
    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        let mut machines = self.machines.lock().unwrap();
        let has = machines.get(thing).and_then(Machine::amount);
        match machines.get(thing).filter(|_| has.is_some()) {
            Some(machine) => machine.switched_off(),
            None => drop(machines.remove(thing)),
        }
        Ok(())
    }
}

/// The agent of a machine, as successive processes: its fault kills it, and the next one starts.
struct Agent {
    agents: Arc<Agents>,
    node: String,
    hand: Arc<Executor>,
    trouble: Arc<Mutex<Trouble>>,
}

impl Agent {
    async fn run(self) {
        let mut process = 0;
        let mut held: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
        loop {
            held.retain(|_, task| !task.is_finished());
            let (instance, holding) = (format!("process-{process}"), held.keys().cloned().collect());
            let pull = PullRequest { instance, version: "kit".into(), holding, wait_ms: 50 };
            if *self.trouble.lock().unwrap() == Trouble::Down {
                self.agents.leave(CLUSTER, &self.node, &pull);
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            let pulled = self.agents.pull(CLUSTER, &self.node, &pull).await;
            for id in &pulled.withdrawn {
                if let Some(task) = held.remove(id) {
                    task.abort();
                }
            }
            for order in pulled.orders {
                if self.dies_of(&order).await {
                    process += 1;
                    break;
                }
                held.insert(order.id.clone(), tokio::spawn(self.begun(order)));
            }
        }
    }

    /// Returns true if the process dies of this order, before it or after it.
    async fn dies_of(&self, order: &IssuedCommand) -> bool {
        let next = *self.trouble.lock().unwrap();
        if !matches!(next, Trouble::LoseRequest | Trouble::LoseAnswer) || !order.command.changes() {
            return false;
        }
        if next == Trouble::LoseAnswer {
            let _nobody_hears = self.hand.carry_out(order).await;
        }
        *self.trouble.lock().unwrap() = Trouble::Calm;
        true
    }

    fn begun(&self, order: IssuedCommand) -> impl Future<Output = ()> + Send + 'static {
        let (agents, node, hand) = (self.agents.clone(), self.node.clone(), self.hand.clone());
        let next = *self.trouble.lock().unwrap();
        async move {
            if let Trouble::Slow(span) = next {
                tokio::time::sleep(span).await;
            }
            let outcome = match next {
                Trouble::Garbage => Ok(Output::Clients(Vec::new())),
                _ => hand.carry_out(&order).await,
            };
            agents.answer(CLUSTER, &node, Answer { id: order.id, outcome });
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layouts_by_nvml_fulfil_the_contract_of_backends() {
    holds(&kit::run(&Layouts::new(None)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layouts_by_an_agent_fulfil_the_contract_of_backends() {
    holds(&kit::run(&Layouts::new(Some(Arc::new(Agents::of(BTreeMap::new()))))).await);
}
