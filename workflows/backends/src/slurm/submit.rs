//! Submits a job at most once, although Slurm has no idempotency keys.

use crate::slurm::{SlurmCluster, client::Daemon, responses::Parser, within};
use engine::ActionError;
use serde_json::{Value, json};
use workflows::platform::{CallMetadata, codes};

/// A job to submit as the user of the target's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// The name.
    pub name: String,
    /// The account.
    pub account: String,
    /// The batch script, starting with `#!`.
    pub script: String,
    /// GPUs per node, such as `gpu:h200:2`; none if empty.
    pub gpus: String,
    /// Memory per node, in MiB.
    pub memory_mib: u64,
    /// The CPUs of its single task.
    pub cpus: u32,
    /// True if the job may be requeued after an eviction. v0.0.38 ignores `false`.
    pub requeue: bool,
    /// The reservation; none if empty.
    pub reservation: String,
}

impl SlurmCluster {
    /// Submits the job and returns its id. The stamp's key becomes the job's comment. A retry finds the job of an
    /// earlier attempt by it, as long as the controller remembers the job (`MinJobAge` after its end).
    ///
    /// # Errors
    ///
    /// `platform.refused` with Slurm's reason, such as an exceeded limit.
    pub async fn submit(&self, job: &NewJob, stamp: &CallMetadata) -> Result<u64, ActionError> {
        within(stamp, true, self.submitted(job, stamp)).await
    }

    async fn submitted(&self, job: &NewJob, stamp: &CallMetadata) -> Result<u64, ActionError> {
        let _turn = self.turns.of(&format!("job/{}", stamp.key)).await;
        let jobs = self.rest.jobs().await?;
        let before = jobs.iter().find(|one| one.comment == stamp.key && one.account == job.account);
        if let Some(before) = before {
            return Ok(before.id);
        }
        if stamp.dry_run {
            return Ok(0);
        }
        let body = body(job, &stamp.key, self.rest.parser().await?);
        let Some(answer) = self.rest.post(Daemon::Control, "job/submit", &body).await? else {
            let why = format!("Slurm has no record of the resources of job {}", job.name);
            return Err(ActionError::permanent(codes::REFUSED, why));
        };
        let id = answer.get("job_id").and_then(Value::as_u64);
        id.ok_or_else(|| ActionError::unknown(codes::UNREADABLE, "the answer to a submission has no job_id"))
    }
}

/// Returns the request body. v0.0.38 takes plain numbers, an environment map and `gres`. Newer versions take objects, a
/// list and `tres_per_node`.
fn body(job: &NewJob, key: &str, parser: Parser) -> Value {
    let number = |n: u64| if parser.is_later() { json!({ "set": true, "number": n }) } else { json!(n) };
    let path = "/usr/local/bin:/usr/bin:/bin";
    let mut wanted = json!({
        "name": job.name,
        "account": job.account,
        "comment": key,
        "current_working_directory": "/tmp",
        "environment": if parser.is_later() { json!([format!("PATH={path}")]) } else { json!({ "PATH": path }) },
        "standard_output": "/dev/null",
        "standard_error": "/dev/null",
        "tasks": 1,
        "cpus_per_task": job.cpus,
        "memory_per_node": number(job.memory_mib),
        "requeue": job.requeue,
    });
    if let Value::Object(fields) = &mut wanted {
        if !job.gpus.is_empty() && parser.is_later() {
            fields.insert("tres_per_node".into(), json!(format!("gres/{}", job.gpus)));
        } else if !job.gpus.is_empty() {
            fields.insert("gres".into(), json!(job.gpus));
        }
        if !job.reservation.is_empty() {
            fields.insert("reservation".into(), json!(job.reservation));
        }
    }
    json!({ "script": job.script, "job": wanted })
}
