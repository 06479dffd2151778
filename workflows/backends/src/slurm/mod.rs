//! A Slurm cluster: `slurmrestd` where its implementation is correct, and `sacctmgr`, `scontrol` and `scancel` for the
//! rest.
//!
//! Invariants: every write is read back; errors are classified by Slurm's error number, never by the HTTP status; no
//! tool outlives its call. Slurm has no conditional writes and no idempotency keys: a retry reads the current state
//! first, and an older epoch is not rejected (`docs/backends/slurm.md`).

mod account_tree;
mod accounts;
mod client;
mod hostlist;
mod jobs;
mod locks;
mod nodes;
mod owner_label;
mod reservations;
mod responses;
mod settings;
mod submit;
mod tenant_resources;
mod tools;

pub use crate::slurm::settings::{Reader, SlurmTarget, TargetError, ToolsBy};
pub use submit::NewJob;

use crate::slurm::client::RestClient;
use crate::slurm::locks::Locks;
use crate::slurm::responses::Job;
use engine::ActionError;
use std::{future::Future, time::Duration};
use tools::Tools;
use workflows::platform::{CallMetadata, codes};

/// The display name of the backend.
const BACKEND: &str = "slurm";

/// One Slurm cluster.
#[derive(Debug)]
pub struct SlurmCluster {
    rest: RestClient,
    /// Reads with separate credentials, if configured.
    verifier: Option<RestClient>,
    tools: Tools,
    /// The name of the cluster in Slurm's accounting.
    cluster: String,
    checkpoint_signal: String,
    saves_within: Duration,
    turns: Locks,
}

impl SlurmCluster {
    /// Creates the backend for `target`. Sends nothing: the data parser is negotiated at the first call, so that a
    /// process can start while the cluster is down.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the remedy.
    pub fn connect(target: &SlurmTarget) -> Result<Self, TargetError> {
        target.check()?;
        let rest = RestClient::new(&target.url, &target.user, &target.token_file)?;
        // The same token means the same credentials, whatever user is configured.
        let verifier = target.verifier.as_ref().filter(|with| with.token_file != target.token_file);
        let verifier =
            verifier.map(|with| RestClient::new(&target.url, &with.user, &with.token_file)).transpose()?;
        Ok(Self {
            rest,
            verifier,
            tools: Tools::new(target),
            cluster: target.cluster.clone(),
            checkpoint_signal: target.checkpoint_signal.clone(),
            saves_within: target.saves_within,
            turns: Locks::default(),
        })
    }

    /// Returns the data parser in use, such as `v0.0.38`: the newest that both sides support.
    ///
    /// # Errors
    ///
    /// `platform.unsupported` if there is none, and errors of an unreachable server.
    pub async fn data_parser(&self) -> Result<String, ActionError> {
        self.rest.parser().await.map(|parser| parser.to_string())
    }

    /// Repeats an idempotent call until it finds nothing to change. A controller that is killed loses changes of the
    /// last seconds, although it has confirmed them.
    async fn kept<T, F>(&self, call: impl Fn() -> F + Send + Sync) -> Result<T, ActionError>
    where
        T: Send,
        F: Future<Output = Result<ChangeReport<T>, ActionError>> + Send,
    {
        loop {
            let done = call().await?;
            if !done.told || self.saves_within.is_zero() {
                return Ok(done.answer);
            }
            tokio::time::sleep(self.saves_within).await;
        }
    }

    /// Returns the unfinished jobs of matching accounts.
    async fn live_jobs(&self, of: impl Fn(&str) -> bool + Send) -> Result<Vec<Job>, ActionError> {
        let jobs = self.rest.jobs().await?;
        Ok(jobs.into_iter().filter(|job| job.is_live() && of(&job.account)).collect())
    }
}

/// The result of a call, and whether it sent a change to the controller.
struct ChangeReport<T> {
    answer: T,
    told: bool,
}

/// Creates the report of a call.
fn change_report<T>(told: bool, answer: T) -> ChangeReport<T> {
    ChangeReport { answer, told }
}

/// Limits a call to its deadline. If it could change something, its outcome is then unknown.
async fn within<T>(
    stamp: &CallMetadata,
    changing: bool,
    call: impl Future<Output = Result<T, ActionError>> + Send,
) -> Result<T, ActionError> {
    match tokio::time::timeout(stamp.deadline, call).await {
        Ok(answer) => answer,
        Err(_) => {
            let why =
                format!("{}: Slurm did not answer within {} ms", stamp.action, stamp.deadline.as_millis());
            Err(if changing {
                ActionError::unknown(codes::NO_ANSWER, why)
            } else {
                ActionError::transient(codes::UNAVAILABLE, why)
            })
        }
    }
}

/// The error for a write that reads back differently: another writer, or a daemon that has not received it yet.
fn not_kept(what: &str) -> ActionError {
    ActionError::transient(codes::OBJECT_CHANGED, format!("{what} differs from the written value"))
}

fn unsupported(what: &str) -> ActionError {
    ActionError::permanent(codes::UNSUPPORTED, what)
}
