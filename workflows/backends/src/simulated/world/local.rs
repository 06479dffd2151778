//! A simulated platform in this process, in memory or stored in a file.

use crate::simulated::{
    FaultKind, Owner, Refused, Request, Response, Script, World,
    state::{State, ownership_audit, recovery, workloads},
    world::{faults::Player, request_log::RequestLog},
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::Value;
use std::{
    any::Any,
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use workflows::platform::{StartWorkload, TenantResource, codes};

/// A simulated platform in this process.
#[derive(Debug, Default)]
pub struct LocalWorld {
    state: Mutex<State>,
    player: Mutex<Player>,
    judge: Mutex<ownership_audit::OwnershipAuditor>,
    journal: Option<Arc<RequestLog>>,
}

impl LocalWorld {
    /// Creates an empty platform that ends with the process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the platform that is stored in a file, in the state of its last answered effect.
    ///
    /// # Errors
    ///
    /// Errors of the file system. `InvalidData` if the file is damaged before its last line.
    pub fn persistent(path: &Path) -> io::Result<Self> {
        let (journal, requests) = RequestLog::open(path)?;
        let mut state = State::default();
        for request in &requests {
            let _answered_before = state.perform(request);
        }
        Ok(Self { state: Mutex::new(state), journal: Some(Arc::new(journal)), ..Self::default() })
    }

    /// Copies the current state to an independent platform in memory.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { state: Mutex::new(self.state().clone()), ..Self::default() }
    }

    /// Adds an object of a tenant or extends its spec, as a tenant's own change would. The file does not contain the
    /// change.
    pub fn furnish(&self, thing: &TenantResource, tenant: &str, spec: Value) {
        self.state().furnish(thing, tenant, spec);
    }

    /// Replaces an object by one of another tenant. The file does not contain the change.
    pub fn replace(&self, thing: &TenantResource, tenant: &str) {
        let mut state = self.state();
        state.objects.remove(&thing.to_string());
        state.furnish(thing, tenant, serde_json::json!({}));
    }

    /// Returns the state after every change of a cohort, queue, resource quota or account, by address, in order.
    #[must_use]
    pub fn limits_log(&self) -> Vec<(String, Value)> {
        self.state().limits.clone()
    }

    /// Replaces the script of faults.
    pub fn script(&self, script: Script) {
        *self.player.lock().unwrap_or_else(PoisonError::into_inner) = Player::new(script);
    }

    /// Starts a workload outside of every step. For tests.
    pub fn run_workload(&self, start: &StartWorkload) {
        let name = start.workload.full_name();
        let request = workloads::beginning(start, &name);
        let _found = self.state().perform(&request);
    }

    /// Makes a tenant the owner of a node, outside of every step. For tests.
    pub fn own_node(&self, cluster: &str, node: &str, tenant: &str, owner_epoch: u64) {
        let request = recovery::owned(cluster, node, tenant, owner_epoch);
        let _found = self.state().perform(&request);
    }

    /// Returns the state for comparison, without uids and counters. Shared objects are excluded.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<String, Value> {
        self.state().snapshot()
    }

    /// Returns shared objects, such as priority classes, which are created once and never removed.
    #[must_use]
    pub fn shared(&self) -> BTreeMap<String, Value> {
        self.state().shared()
    }

    /// Returns how often a key took effect.
    #[must_use]
    pub fn effects(&self, key: &str) -> u32 {
        self.all_effects().get(key).copied().unwrap_or(0)
    }

    /// Returns how often each key took effect.
    #[must_use]
    pub fn all_effects(&self) -> BTreeMap<String, u32> {
        let mut effects = BTreeMap::new();
        for effect in &self.state().trace {
            *effects.entry(effect.key.clone()).or_default() += 1;
        }
        effects
    }

    /// Returns the owners of nodes, by `cluster/node`.
    #[must_use]
    pub fn owners(&self) -> BTreeMap<String, Owner> {
        ownership_audit::owners(&self.state())
    }

    /// Returns every change of every node's owner, in order.
    #[must_use]
    pub fn ownership_log(&self) -> Vec<(String, Owner)> {
        let state = self.state();
        let changes =
            state.trace.iter().filter_map(|effect| Some((effect.address.clone(), effect.owner.clone()?)));
        changes.collect()
    }

    /// Returns the requests that were rejected for their epoch, key or owner, in order.
    #[must_use]
    pub fn refused(&self) -> Vec<Refused> {
        self.state().refused.clone()
    }

    /// Returns violated invariants, one sentence each.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let state = self.state();
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).violations(&state)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a request and stores its changes before it answers.
    async fn perform(&self, request: &Request) -> Result<Response, ActionError> {
        if request.dry_run {
            // Performed on a copy that is discarded.
            let mut copy = self.state().clone();
            return copy.perform(request).0;
        }
        let (answer, kept) = {
            let mut state = self.state();
            let journal = self.journal.as_ref();
            // Written before it is performed, so that a full disk causes an error and no change.
            let ahead = journal.filter(|_| request.verb.changes());
            let ahead = ahead.map(|journal| journal.append(request).map(|upto| (journal.clone(), Ok(upto))));
            let ahead = ahead.transpose().map_err(unwritten)?;
            let (answer, changed) = state.perform(request);
            // A read can also change the state, for example a deletion that takes several reads.
            let behind = journal.filter(|_| changed && ahead.is_none());
            (answer, ahead.or_else(|| behind.map(|journal| (journal.clone(), journal.append(request)))))
        };
        if let Some((journal, appended)) = kept {
            let upto = appended.map_err(unkept)?;
            let synced = tokio::task::spawn_blocking(move || journal.sync(upto)).await;
            synced.map_err(unkept)?.map_err(unkept)?;
        }
        answer
    }
}

fn unwritten(error: impl std::fmt::Display) -> ActionError {
    ActionError::transient(
        codes::UNAVAILABLE,
        format!("the simulated world cannot record its next change: {error}"),
    )
}

fn unkept(error: impl std::fmt::Display) -> ActionError {
    ActionError::unknown(codes::NO_ANSWER, format!("the simulated world cannot store its changes: {error}"))
}

#[async_trait]
impl World for LocalWorld {
    fn local(&self) -> Option<&dyn Any> {
        Some(self)
    }

    async fn call(&self, mut request: Request) -> Result<Response, ActionError> {
        let what = self.player.lock().unwrap_or_else(PoisonError::into_inner).next(&request);
        let Some(what) = what else { return self.perform(&request).await };
        let said = format!("scripted for {} of {}", request.action, request.name);
        match what {
            FaultKind::FailBefore => Err(ActionError::transient(codes::UNAVAILABLE, said)),
            FaultKind::RefuseBefore => Err(ActionError::permanent(codes::REFUSED, said)),
            FaultKind::FailAfter => {
                self.perform(&request).await?;
                Err(ActionError::transient(codes::UNAVAILABLE, said))
            }
            FaultKind::RefuseAfter => {
                self.perform(&request).await?;
                Err(ActionError::permanent(codes::REFUSED, said))
            }
            FaultKind::AnswerLost => {
                self.perform(&request).await?;
                Err(ActionError::unknown(codes::NO_ANSWER, said))
            }
            FaultKind::Hang => std::future::pending().await,
            FaultKind::Slow { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                self.perform(&request).await
            }
            FaultKind::NodeUnfit
            | FaultKind::AsksReset
            | FaultKind::AsksReboot
            | FaultKind::ProbeFails
            | FaultKind::KeyExportable
            | FaultKind::LayoutWedged
            | FaultKind::LayoutFails
            | FaultKind::WorkloadClings
            | FaultKind::NodeAlive
            | FaultKind::HandleLeaked
            | FaultKind::ScrubFallsShort
            | FaultKind::DriveFails
            | FaultKind::DriveStalls
            | FaultKind::DriveLies
            | FaultKind::Flawed
            | FaultKind::FinalizerStays => {
                what.bend(&mut request);
                self.perform(&request).await
            }
        }
    }
}
