//! The hand of an agent: orders carried out on this machine.
//!
//! What takes longer than a call is gone on with and asked for again by the same key; it is given up when nobody asks any more. What
//! must not be done twice is in the node's file, which outlives the process.

use crate::agents::protocol::{Command, IssuedCommand, NodeReport, Output};
use crate::nvml::{LocalNode, NvmlTarget, TargetError};
use engine::ActionError;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::Epoch;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use workflows::platform::{CallMetadata, Gpus, ScrubLevel, Scrubbed, codes};

/// How long one GPU may take to be cleared. Default 30 min; about a minute for every 100 GB is usual.
const SCRUB_WITHIN: Duration = Duration::from_secs(30 * 60);
/// For how long a scrub goes on for which nobody asks. Default 5 min: an engine that was lost is followed by another before.
const UNASKED: Duration = Duration::from_secs(300);
/// How often it is looked whether somebody still asks.
const LOOK: Duration = Duration::from_secs(5);
/// When to ask again how far a scrub is.
const AGAIN: Duration = Duration::from_secs(5);
/// How long the driver has to say how the GPUs are.
const SEE_WITHIN: Duration = Duration::from_secs(20);

type Outcome = Result<Scrubbed, ActionError>;

/// What carries out orders for this machine.
#[derive(Debug)]
pub struct Executor {
    node: LocalNode,
    cluster: String,
    name: String,
    /// By key.
    scrubs: Mutex<BTreeMap<String, Scrub>>,
}

/// A scrub that goes on. It ends with this.
#[derive(Debug)]
struct Scrub {
    asked: Arc<Mutex<Instant>>,
    outcome: watch::Receiver<Option<Outcome>>,
    task: JoinHandle<()>,
}

impl Drop for Scrub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executor {
    /// The hand for the machine of these settings. The driver is asked only when something is asked of it.
    ///
    /// # Errors
    /// [`TargetError`] when a setting cannot be worked with.
    pub fn connect(target: NvmlTarget) -> Result<Self, TargetError> {
        let (cluster, name) = (target.cluster.clone(), target.node.clone());
        Ok(Self { node: LocalNode::connect(target)?, cluster, name, scrubs: Mutex::default() })
    }

    /// Carries out an order, or says how far it is. Dropping it ends it, but for a scrub, which goes on for as long as it is asked
    /// for.
    ///
    /// # Errors
    /// As of the capability that the order is of.
    pub async fn carry_out(&self, order: &IssuedCommand) -> Result<Output, ActionError> {
        let (stamp, cluster, node) = (order.stamp(), self.cluster.as_str(), self.name.as_str());
        match &order.command {
            Command::Layout => self.node.layout(cluster, node, &stamp).await.map(Output::Layout),
            Command::SetLayout { profile } => {
                self.node.set_layout(cluster, node, profile, &stamp).await.map(|()| Output::Done)
            }
            Command::Diagnose { level } => {
                self.node.diagnose(cluster, node, *level, &stamp).await.map(Output::Diagnosis)
            }
            Command::Health => self.node.health(cluster, node, &stamp).await.map(Output::Health),
            Command::Reset => self.node.reset(cluster, node, &stamp).await.map(|()| Output::Done),
            Command::Reboot { boot } => {
                self.node.reboot(cluster, node, boot, &stamp).await.map(|()| Output::Done)
            }
            Command::Clients { gpus } => self.clients(gpus, &stamp).await.map(Output::Clients),
            Command::Scrub { gpus, level } => self.scrub(gpus, *level, &stamp).await.map(Output::Scrubbed),
        }
    }

    async fn clients(&self, gpus: &BTreeSet<u16>, stamp: &CallMetadata) -> Result<Vec<String>, ActionError> {
        let open = self.node.clients(gpus, stamp).await?;
        Ok(open.iter().map(|client| format!("{client} on node {}", self.name)).collect())
    }

    async fn scrub(&self, gpus: &BTreeSet<u16>, level: ScrubLevel, stamp: &CallMetadata) -> Outcome {
        // Before one that goes on is waited for: a late call learns nothing of it.
        if let Some(before) = self.node.admit_scrub(gpus, level, stamp).await? {
            return Ok(before);
        }
        if stamp.dry_run {
            return self.node.scrub_gpus(gpus, level, SCRUB_WITHIN, stamp).await;
        }
        let mut outcome = self.joined(gpus, level, stamp);
        let ended = timeout(stamp.deadline, outcome.wait_for(Option::is_some)).await;
        let ended = match ended {
            Err(_) => return Err(ActionError::pending(codes::SCRUBBING, AGAIN)),
            Ok(Ok(ended)) => ended.clone(),
            Ok(Err(_)) => None,
        };
        let mut scrubs = lock_unpoisoned(&self.scrubs);
        if scrubs.get(&stamp.key).is_some_and(|scrub| scrub.task.is_finished()) {
            scrubs.remove(&stamp.key);
        }
        ended.unwrap_or_else(|| {
            let why = format!("the scrub on {} was given up, since nobody asked for it", self.name);
            Err(ActionError::transient(codes::SCRUB_FAILED, why))
        })
    }

    /// The scrub with this key: the one that goes on, or one that is begun.
    fn joined(
        &self,
        gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        stamp: &CallMetadata,
    ) -> watch::Receiver<Option<Outcome>> {
        let mut scrubs = lock_unpoisoned(&self.scrubs);
        scrubs.retain(|_, scrub| !scrub.task.is_finished());
        if let Some(scrub) = scrubs.get(&stamp.key) {
            *lock_unpoisoned(&scrub.asked) = Instant::now();
            return scrub.outcome.clone();
        }
        let (tell, outcome) = watch::channel(None);
        let asked = Arc::new(Mutex::new(Instant::now()));
        let (node, gpus, of, last) = (self.node.clone(), gpus.clone(), stamp.clone(), asked.clone());
        let task = tokio::spawn(async move {
            let nobody = async {
                while lock_unpoisoned(&last).elapsed() < UNASKED {
                    sleep(LOOK).await;
                }
            };
            tokio::select! {
                came = node.scrub_gpus(&gpus, level, SCRUB_WITHIN, &of) => {
                    // Whoever asked may be gone; the node's file has it.
                    let _ = tell.send(Some(came));
                }
                () = nobody => tracing::warn!(key = of.key, "a scrub was given up: nobody asks for it any more"),
            }
        });
        scrubs.insert(stamp.key.clone(), Scrub { asked, outcome: outcome.clone(), task });
        outcome
    }

    /// Whether something goes on beyond the calls that asked for it.
    #[must_use]
    pub fn is_scrubbing(&self) -> bool {
        lock_unpoisoned(&self.scrubs).values().any(|scrub| !scrub.task.is_finished())
    }

    /// Gives up what goes on. It stops before its next call of the driver.
    pub fn give_up(&self) {
        lock_unpoisoned(&self.scrubs).clear();
    }

    /// What there is to see of this machine. What cannot be seen is named, and never taken for well or free.
    pub async fn see(&self) -> NodeReport {
        let stamp = CallMetadata {
            action: "see",
            step: "see".into(),
            key: "see".into(),
            epoch: Epoch(0),
            undo: false,
            deadline: SEE_WITHIN,
            dry_run: false,
        };
        let mut seen = NodeReport::default();
        let node = self.node.clone();
        match timeout(SEE_WITHIN, tokio::task::spawn_blocking(move || node.facts())).await {
            Ok(Ok(Ok(facts))) => seen.gpus = Some(facts),
            Ok(Ok(Err(none))) => seen.unknown.push(none.to_string()),
            Ok(Err(_)) | Err(_) => seen.unknown.push("the NVIDIA driver does not answer".into()),
        }
        match self.node.health(&self.cluster, &self.name, &stamp).await {
            Ok(health) => seen.health = Some(health),
            Err(error) => seen.unknown.push(format!("health: {}", error.message)),
        }
        match self.clients(&BTreeSet::new(), &stamp).await {
            Ok(clients) => seen.clients = Some(clients),
            Err(error) => seen.unknown.push(format!("clients: {}", error.message)),
        }
        seen
    }
}
