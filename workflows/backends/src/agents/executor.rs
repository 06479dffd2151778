//! Runs an agent's orders on this machine.
//!
//! A scrub outlives its call: a later call with the same key returns its result. It is cancelled if no call asks for it
//! for some time. Work that must run only once is recorded in the node's state file, which outlives the process.

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

/// The longest scrub of one GPU. Usual is about one minute per 100 GB.
const SCRUB_WITHIN: Duration = Duration::from_secs(30 * 60);
/// How long a scrub continues without a call that asks for it. Another engine replaces a lost one within this time.
const UNASKED: Duration = Duration::from_secs(300);
/// How often the last call of a scrub is checked.
const LOOK: Duration = Duration::from_secs(5);
/// The retry delay for a scrub in progress.
const AGAIN: Duration = Duration::from_secs(5);
/// The deadline for reading the state of the GPUs.
const SEE_WITHIN: Duration = Duration::from_secs(20);

type Outcome = Result<Scrubbed, ActionError>;

/// Runs orders on this machine.
#[derive(Debug)]
pub struct Executor {
    node: LocalNode,
    cluster: String,
    name: String,
    /// Scrubs by key.
    scrubs: Mutex<BTreeMap<String, Scrub>>,
}

/// A scrub in progress. Dropping this value cancels it.
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
    /// Creates the executor for the machine of these settings. Does not call the driver.
    ///
    /// # Errors
    ///
    /// [`TargetError`] if a setting is invalid.
    pub fn connect(target: NvmlTarget) -> Result<Self, TargetError> {
        let (cluster, name) = (target.cluster.clone(), target.node.clone());
        Ok(Self { node: LocalNode::connect(target)?, cluster, name, scrubs: Mutex::default() })
    }

    /// Runs an order and returns its result, or a retry delay for a scrub in progress. Dropping the call cancels the
    /// order, except a scrub.
    ///
    /// # Errors
    ///
    /// As in the capability that the command belongs to.
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
        // Checked before waiting, so that a late call cannot read the result of a newer one.
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
            let why = format!("the scrub on {} was cancelled, because no caller waits for it", self.name);
            Err(ActionError::transient(codes::SCRUB_FAILED, why))
        })
    }

    /// Returns the scrub with this key. Starts it if necessary.
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
                    // The caller may have gone; the state file has the result.
                    let _ = tell.send(Some(came));
                }
                () = nobody => tracing::warn!(key = of.key, "a scrub was cancelled: no caller waits for it any more"),
            }
        });
        scrubs.insert(stamp.key.clone(), Scrub { asked, outcome: outcome.clone(), task });
        outcome
    }

    /// Returns true if a scrub is in progress.
    #[must_use]
    pub fn is_scrubbing(&self) -> bool {
        lock_unpoisoned(&self.scrubs).values().any(|scrub| !scrub.task.is_finished())
    }

    /// Cancels all scrubs. Each stops before its next call to the driver.
    pub fn give_up(&self) {
        lock_unpoisoned(&self.scrubs).clear();
    }

    /// Reads the state of this machine. Values that cannot be read are listed as unknown, never assumed healthy or
    /// free.
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
