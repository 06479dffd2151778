//! Checks of notification channels and of the trace collector. The checks connect and send no data.

use crate::commands::doctor::finding::Findings;
use api::{
    config::Config,
    notify::{self, Destination},
};
use backends::outbound;
use std::time::Duration;
use tokio::net::TcpStream;

/// Checks channels and collector. Connects to each if `patience` is given.
pub(super) async fn look(config: &Config, patience: Option<Duration>, found: &mut Findings) {
    channels(config, patience, found).await;
    collector(config, patience, found).await;
}

async fn channels(config: &Config, patience: Option<Duration>, found: &mut Findings) {
    const CHECK: &str = "notifications";
    let all = notify::check(&config.notify);
    if all.is_empty() {
        // The server may have reported the same.
        if found.0.iter().any(|one| one.check == CHECK) {
            return;
        }
        let says = "no channel is set: no operator is notified when something needs attention";
        return found.warning(CHECK, says, "set one under notify.channels; `tenure notify test` checks it");
    }
    for (name, made) in all {
        let leads = match made {
            Ok(leads) => leads,
            Err(why) => {
                found.failed(
                    CHECK,
                    why,
                    "correct it, otherwise the server does not start; see the manual, page notifications",
                );
                continue;
            }
        };
        let Some(patience) = patience else {
            found.ok(CHECK, format!("{name}: its settings and secrets are valid; it was not called"));
            continue;
        };
        match knock(&leads, patience).await {
            Ok(()) => found.ok(CHECK, format!("{name}: reached; `tenure notify test {name}` sends a test")),
            Err(why) => found.failed(CHECK, format!("{name}: {why}"), "check its address and firewalls"),
        }
    }
}

async fn collector(config: &Config, patience: Option<Duration>, found: &mut Findings) {
    let (url, Some(patience)) = (&config.traces.url, patience) else { return };
    if url.is_empty() {
        return;
    }
    match knock(&Destination::Http(url.clone()), patience).await {
        Ok(()) => found.ok("traces", format!("{url} answers")),
        Err(why) => found.warning(
            "traces",
            format!("{url}: {why}"),
            "check traces.url and that the collector runs; see the manual, page traces; the server works without it",
        ),
    }
}

/// Checks that the destination answers. Any HTTP answer counts.
async fn knock(leads: &Destination, patience: Duration) -> Result<(), String> {
    let unanswered = || format!("it does not answer within {patience:?}");
    match leads {
        // The file was opened when the channel was created.
        Destination::File => Ok(()),
        Destination::Http(url) => {
            let client = outbound::client().timeout(patience).build();
            let asked = client.map_err(|error| error.to_string())?.head(url).send().await;
            match asked {
                Ok(_) => Ok(()),
                Err(error) if error.is_timeout() => Err(unanswered()),
                Err(error) => Err(format!("it cannot be reached: {}", super::server::whole(&error))),
            }
        }
        Destination::Smtp(server) => match tokio::time::timeout(patience, TcpStream::connect(server)).await {
            Ok(connected) => {
                connected.map(drop).map_err(|error| format!("{server} cannot be reached: {error}"))
            }
            Err(_) => Err(unanswered()),
        },
    }
}
