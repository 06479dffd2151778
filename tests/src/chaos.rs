//! Several servers on one database, while servers are killed and stand still, the database is killed, and a wire is cut: the
//! campaign behind `tests/it/postgres/chaos.rs` and the `chaos` bench.

use crate::{
    campaign::{Outcome, Size, ask, come_to_rest, import, judge, vote, watch},
    postgres::Cluster,
    processes::{Server, World},
    proxy::Proxy,
};
use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

/// How long a lease lasts, so that a server that stands still for longer loses what it holds.
const LEASE: &str = "2s";
const STANDSTILL: Duration = Duration::from_secs(4);

/// What was done to them.
#[derive(Clone, Debug, Default)]
pub struct Troubles(pub BTreeMap<&'static str, usize>);

/// Runs the campaign on `cluster`, in `dir`, with three servers. The same `seed` does the same to them in the same order.
pub async fn run(
    tenure: &Path,
    world: &Path,
    dir: &Path,
    cluster: &mut Cluster,
    size: Size,
    seed: u64,
) -> (Outcome, Troubles) {
    let began = Instant::now();
    let world = World::start(world, dir);
    let wire = Proxy::to(cluster.port()).expect("a port for the wire");
    let mut servers: Vec<Server> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            let port = if name == "c" { wire.port() } else { cluster.port() };
            start(tenure, &dir.join(name), &world.url, name, port)
        })
        .collect();
    let first = &servers[0];
    let admin = first.caller(&first.admin());
    import(&admin, first, size.nodes).await;
    let requester = admin.user("rita", "tenant_owner").await;
    let voters = [admin.user("olga", "platform_ops").await, admin.user("finn", "finance").await];

    let asking = tokio::spawn(ask(requester, size.tenants));
    let voting = tokio::spawn(async move { vote(&voters).await });
    let (mut outcome, mut troubles) = (Outcome::default(), Troubles::default());
    let mut dice = seed | 1;
    while began.elapsed() < size.killing {
        tokio::time::sleep(size.every).await;
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let which = usize::try_from((dice >> 40) % 3).unwrap_or(0);
        let kind = trouble(&mut servers[which], cluster, &wire, (dice >> 33) % 4).await;
        *troubles.0.entry(kind).or_default() += 1;
        outcome.kills += 1;
        watch(&world, &mut outcome).await;
    }
    let asked = asking.await.expect("everyone could ask");
    let at_rest = come_to_rest(&admin, size, began).await;
    voting.abort();
    outcome.took = began.elapsed();
    if !at_rest {
        outcome.wrong.push(format!("not at rest {:?} after the last trouble", size.rest));
    }
    watch(&world, &mut outcome).await;
    judge(&admin, &world, size, asked, &mut outcome).await;
    (outcome, troubles)
}

fn start(tenure: &Path, dir: &Path, platform: &str, name: &str, port: u16) -> Server {
    let url = format!("postgres://tenure@127.0.0.1:{port}/postgres?sslmode=disable");
    let settings = [
        ("TENURE_STORE_URL", url.as_str()),
        ("TENURE_STORE_NAME", name),
        ("TENURE_STORE_CONNECTIONS", "6"),
        ("TENURE_ENGINE_LEASE", LEASE),
        ("TENURE_SIMULATED_OBSERVE", "false"),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Server::start_with(tenure, dir, Some(platform), settings.into())
}

/// One trouble, over when this comes back.
async fn trouble(server: &mut Server, cluster: &mut Cluster, wire: &Proxy, kind: u64) -> &'static str {
    match kind {
        0 => {
            server.kill();
            server.restart();
            "server killed"
        }
        1 => {
            server.stand_still(true);
            tokio::time::sleep(STANDSTILL).await;
            server.stand_still(false);
            "server stood still"
        }
        2 => {
            wire.cut(true);
            tokio::time::sleep(STANDSTILL).await;
            wire.cut(false);
            "wire cut"
        }
        _ => {
            cluster.kill();
            tokio::time::sleep(Duration::from_millis(500)).await;
            cluster.up().expect("the database starts again");
            "database killed"
        }
    }
}
