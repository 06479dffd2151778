//! Runs the agent: one link to every server, and the watch of the GPUs.

use crate::{
    link::{self, Link},
    options::Settings,
};
use backends::agents::{Executor, NodeReport};
use program::{
    exit::{Exit, Failure},
    terminal::say,
    token::Token,
};
use std::{fs::File, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{Instant, sleep},
};

/// The interval between reads of the GPUs.
const LOOK: Duration = Duration::from_secs(15);
/// The longest interval between reports to the servers, if nothing changes.
const SAY: Duration = Duration::from_secs(60);

/// Serves until SIGTERM or SIGINT. Then it accepts no more commands, returns commands that have not started, and waits up to `drain` for
/// running ones.
///
/// # Errors
/// The settings are not valid, or another agent is running.
pub(super) async fn serve(settings: Settings) -> Result<Exit, Failure> {
    let lock = settings.ledger.join("agent.lock");
    let locked =
        File::create(&lock).map_err(|error| Failure::other(format!("{}: {error}", lock.display())))?;
    locked.try_lock().map_err(|error| {
        Failure::new(
            Exit::Conflict,
            format!("{}: another agent is running with this ledger ({error})", lock.display()),
        )
    })?;
    link::key(&settings.key_file).map_err(|why| Failure::new(Exit::Usage, why))?;
    let (cluster, node) = (settings.target.cluster.clone(), settings.target.node.clone());
    let hand = Executor::connect(settings.target.clone())
        .map_err(|error| Failure::new(Exit::Usage, format!("agent: {error}")))?;
    let hand = Arc::new(hand);
    let instance = Token::draw().map_err(Failure::other)?.id;
    let (tell_stop, stop) = watch::channel(false);
    let links = settings.servers.iter().map(|server| Link::to(server, &settings, &instance, hand.clone()));
    let links: Vec<Arc<Link>> = links.collect::<Result<_, _>>().map_err(Failure::other)?;
    let pulling: Vec<_> =
        links.iter().map(|link| tokio::spawn(link.clone().come_for_orders(stop.clone()))).collect();
    let seeing = tokio::spawn(see(hand.clone(), links.clone(), stop));

    let mut term = signal(SignalKind::terminate()).map_err(Failure::other)?;
    let mut int = signal(SignalKind::interrupt()).map_err(Failure::other)?;
    say(&format!(
        "tenure agent {} is ready for node {node} of cluster {cluster}; servers: {}\n",
        env!("CARGO_PKG_VERSION"),
        settings.servers.join(", ")
    ))?;
    tracing::info!(cluster, node, servers = settings.servers.join(","), instance, "ready");
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    tracing::info!("stopping");
    tell_stop.send_replace(true);
    let until = Instant::now() + settings.drain;
    for task in pulling.into_iter().chain([seeing]) {
        let _ = task.await;
    }
    let in_hand = || hand.is_scrubbing() || links.iter().any(|link| link.has_orders());
    while in_hand() && Instant::now() < until {
        tokio::select! {
            () = sleep(Duration::from_millis(50)) => {}
            _ = term.recv() => break,
            _ = int.recv() => break,
        }
    }
    hand.give_up();
    for link in &links {
        link.give_up().await;
    }
    drop(locked);
    tracing::info!("stopped");
    Ok(Exit::Done)
}

/// Reports the state of the GPUs after each change and at regular intervals.
async fn see(hand: Arc<Executor>, links: Vec<Arc<Link>>, mut stop: watch::Receiver<bool>) {
    let (mut said, mut at): (Option<NodeReport>, Option<Instant>) = (None, None);
    loop {
        let looked = tokio::select! {
            seen = hand.see() => seen,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        if said.as_ref() != Some(&looked) || at.is_none_or(|at| at.elapsed() >= SAY) {
            let mut heard = true;
            for link in &links {
                heard &= link.say_seen(&looked).await;
            }
            // A report that failed is sent again after the next read.
            (said, at) = if heard { (Some(looked), Some(Instant::now())) } else { (None, None) };
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}
