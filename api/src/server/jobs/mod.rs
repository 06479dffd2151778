//! Background jobs of the server, one file each.
//!
//! Started by [`serve`](super::serve) and stopped through its watch channel. Invariant: a job logs its errors and retries; it never ends the server.

pub(super) mod access_denials;
mod audit_sealing;
mod batches;
mod certificate_reload;
mod change_feed;
pub(super) mod clock_watch;
mod housekeeping;
mod notifications;
mod policy_reload;
mod retention;
mod schedules;
mod simulated_observations;
mod token_usage;
#[cfg(feature = "otlp")]
mod trace_export;

use crate::state::SharedState;
use program::exit::Failure;
use tokio::{sync::watch, task::JoinHandle};

/// Starts all jobs except the recording of refusals, which continues after `stop`.
///
/// # Errors
/// A job cannot be created.
pub(super) fn spawn(app: &SharedState, stop: &watch::Receiver<bool>) -> Result<Vec<JoinHandle<()>>, Failure> {
    let hangups = certificate_reload::hangups(app).map_err(Failure::other)?;
    #[cfg(feature = "otlp")]
    let follower = trace_export::follower(app)
        .map_err(|why| Failure::new(program::exit::Exit::Usage, format!("configuration: {why}")))?;
    Ok(vec![
        #[cfg(feature = "otlp")]
        tokio::spawn(trace_export::run(app.clone(), follower, stop.clone())),
        tokio::spawn(housekeeping::run(app.clone(), stop.clone())),
        tokio::spawn(clock_watch::run(app.clone(), stop.clone())),
        tokio::spawn(schedules::run(app.clone(), stop.clone())),
        tokio::spawn(batches::run(app.clone(), stop.clone())),
        tokio::spawn(simulated_observations::run(app.clone(), stop.clone())),
        tokio::spawn(audit_sealing::run(app.clone(), stop.clone())),
        tokio::spawn(notifications::run(app.clone(), stop.clone())),
        tokio::spawn(token_usage::run(app.clone(), stop.clone())),
        tokio::spawn(retention::run(app.clone(), stop.clone())),
        tokio::spawn(change_feed::run(app.clone(), stop.clone())),
        tokio::spawn(policy_reload::run(app.clone(), stop.clone())),
        tokio::spawn(certificate_reload::run(app.clone(), hangups, stop.clone())),
    ])
}
