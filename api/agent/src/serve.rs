//! Serves until it is told to stop: a link to every server, and a look at the GPUs.

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

/// How often it is looked how the GPUs are. Default 15 s.
const LOOK: Duration = Duration::from_secs(15);
/// How often that is said though nothing has changed. Default 60 s.
const SAY: Duration = Duration::from_secs(60);

/// Serves until SIGTERM or SIGINT; then takes no more orders, gives back what is not begun, and ends what is, within `drain`.
///
/// # Errors
/// Settings that cannot be worked with, and an agent that runs already.
pub(super) async fn serve(settings: Settings) -> Result<Exit, Failure> {
    let lock = settings.ledger.join("agent.lock");
    let locked =
        File::create(&lock).map_err(|error| Failure::other(format!("{}: {error}", lock.display())))?;
    locked.try_lock().map_err(|error| {
        Failure::new(
            Exit::Conflict,
            format!("{}: another agent runs with this ledger ({error})", lock.display()),
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
        "tenure agent {} is ready for node {node} of cluster {cluster}; it comes to {}\n",
        env!("CARGO_PKG_VERSION"),
        settings.servers.join(", ")
    ))?;
    tracing::info!(cluster, node, servers = settings.servers.join(","), instance, "ready");
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    tracing::info!("asked to stop");
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

/// Says how the GPUs are, whenever that has changed and once in a while.
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
            // Whoever did not hear it is told at the next look.
            (said, at) = if heard { (Some(looked), Some(Instant::now())) } else { (None, None) };
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}
