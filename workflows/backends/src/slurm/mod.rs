//! A Slurm cluster: `slurmrestd` for what it can do rightly, `sacctmgr`, `scontrol` and `scancel` for the rest.
//!
//! Invariants: every write is read back before it is answered; whatever Slurm says is classed by its error number, never by
//! the status of HTTP; no tool outlives the call that started it. Slurm has no conditional write and no idempotency key: a
//! repeat finds out by looking, and an older epoch is not refused (`docs/backends/slurm.md`).

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

/// What serves the capabilities, for people.
const BACKEND: &str = "slurm";

/// One Slurm cluster, with the means to ask and to change it.
#[derive(Debug)]
pub struct SlurmCluster {
    rest: RestClient,
    /// Reads with other credentials, if there are any.
    verifier: Option<RestClient>,
    tools: Tools,
    /// What Slurm's accounting calls the cluster.
    cluster: String,
    checkpoint_signal: String,
    saves_within: Duration,
    turns: Locks,
}

impl SlurmCluster {
    /// The cluster that `target` describes. Nothing is sent: which data parsers it serves is asked at the first call, so that
    /// a process can start while the cluster is away.
    ///
    /// # Errors
    /// A setting that cannot be used, with what to do about it.
    pub fn connect(target: &SlurmTarget) -> Result<Self, TargetError> {
        target.check()?;
        let rest = RestClient::new(&target.url, &target.user, &target.token_file)?;
        // The same token is the same credentials, whatever the setting is called.
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

    /// The data parser that is spoken, such as `v0.0.38`: the newest that both sides know.
    ///
    /// # Errors
    /// `platform.unsupported` when there is none, and those of a server that cannot be asked.
    pub async fn data_parser(&self) -> Result<String, ActionError> {
        self.rest.parser().await.map(|parser| parser.to_string())
    }

    /// Makes a call that may be made twice, again and again until it finds that there is nothing to tell the controller any more: one that
    /// is killed forgets what it was told in the last seconds, although it has answered.
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

    /// Every job that has not ended, of these accounts.
    async fn live_jobs(&self, of: impl Fn(&str) -> bool + Send) -> Result<Vec<Job>, ActionError> {
        let jobs = self.rest.jobs().await?;
        Ok(jobs.into_iter().filter(|job| job.is_live() && of(&job.account)).collect())
    }
}

/// What a call came to, and whether the controller was told anything for it.
struct ChangeReport<T> {
    answer: T,
    told: bool,
}

/// The answer of a call for which this was told, or was not.
fn change_report<T>(told: bool, answer: T) -> ChangeReport<T> {
    ChangeReport { answer, told }
}

/// Bounds a call by its deadline. What could have changed something has an unknown outcome then.
async fn within<T>(
    stamp: &CallMetadata,
    changing: bool,
    call: impl Future<Output = Result<T, ActionError>> + Send,
) -> Result<T, ActionError> {
    match tokio::time::timeout(stamp.deadline, call).await {
        Ok(answer) => answer,
        Err(_) => {
            let why =
                format!("{}: slurm gave no answer within {} ms", stamp.action, stamp.deadline.as_millis());
            Err(if changing {
                ActionError::unknown(codes::NO_ANSWER, why)
            } else {
                ActionError::transient(codes::UNAVAILABLE, why)
            })
        }
    }
}

/// What was written does not read back, at once: another writer, or a daemon that has not heard of it.
fn not_kept(what: &str) -> ActionError {
    ActionError::transient(
        codes::OBJECT_CHANGED,
        format!("{what} reads back differently than it was written"),
    )
}

fn unsupported(what: &str) -> ActionError {
    ActionError::permanent(codes::UNSUPPORTED, what)
}
