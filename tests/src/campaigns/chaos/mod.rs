//! Several servers on one database, while servers are killed, paused and cut off, and the database is killed repeatedly:
//! the campaign behind `tests/it/postgres/chaos.rs` and the `chaos` bench.

mod judge;
mod load;
mod troubles;
mod watch;

pub use load::Wanted;

use crate::{
    campaigns::crash::{import, vote},
    processes::{Server, World},
    proxies::tcp::Proxy,
    servers::postgres::Cluster,
};
use load::Load;
use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use troubles::Dice;
use watch::Eyes;

/// The term of a lease: a server that is paused for longer loses its tasks.
const LEASE: Duration = Duration::from_secs(2);
/// The time beyond a lease within which another server must have the task.
const SLACK: Duration = Duration::from_secs(5);
/// The pause between two checks of the invariants.
const LOOK: Duration = Duration::from_millis(400);

/// The size of the campaign.
#[derive(Clone, Debug)]
pub struct Size {
    /// The load.
    pub wanted: Wanted,
    /// The time over which the load is sent. Faults last for that time, and until all requests were sent and have ended.
    /// Requests that are still unsent after three times as long are dropped.
    pub trouble: Duration,
    /// The pause between two faults of servers.
    pub every: Range<Duration>,
    /// The time between two kills of the database.
    pub database: Range<Duration>,
}

/// The fate of the tasks that a server held when a fault began.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// The number of these faults.
    pub troubles: usize,
    /// Tasks held at that time.
    pub held: usize,
    /// The time until each was leased again, without the time after the lease's expiry in which the database was away; the
    /// shortest first.
    pub after: Vec<Duration>,
    /// Tasks that no other server had to lease.
    pub settled: usize,
}

/// The observations.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Executions by workflow and final state: the duration of each, the shortest first.
    pub ends: BTreeMap<String, Vec<Duration>>,
    /// By fault.
    pub taken: BTreeMap<&'static str, Taken>,
    /// How often the database was killed, and how long it was away in total.
    pub database: (usize, Duration),
    /// Idempotency keys that took effect on the simulated platform.
    pub keys: usize,
    /// Effects that completed actions owe and that exist.
    pub owed: usize,
    /// Checks of the invariants.
    pub looks: usize,
    /// Nodes with an owner.
    pub owned: usize,
    /// Tasks lost by paused servers, and those of them whose late result was refused according to the journal.
    pub late: (usize, usize),
    /// Refusals of late results in the journal.
    pub refused: usize,
    /// Refusals of late calls by the simulated platform.
    pub refused_outside: usize,
    /// The time until all was at rest.
    pub took: Duration,
    /// Violations.
    pub wrong: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = |of: &str| -> usize {
            self.ends.iter().filter(|(end, _)| end.starts_with(of)).map(|(_, took)| took.len()).sum()
        };
        let (onboardings, reclaims) = (total("onboarding"), total("reclaim"));
        writeln!(f, "{onboardings} onboardings and {reclaims} reclaims in {:.0?}", self.took)?;
        for (end, took) in &self.ends {
            writeln!(f, "  {:>5} {end}, each in {}", took.len(), spread(took))?;
        }
        for (kind, Taken { troubles, held, after, settled }) in &self.taken {
            writeln!(
                f,
                "  {troubles:>3} times a server was {kind}: {held} tasks held, {settled} settled all the same, {} taken over \
                 after {}",
                after.len(),
                spread(after)
            )?;
        }
        let (deaths, away) = self.database;
        writeln!(f, "  {deaths:>3} times the database was killed, away for {away:.1?} in all")?;
        let (lost, refused) = self.late;
        writeln!(
            f,
            "  {lost} tasks lost by servers that stood still, {refused} late results of them refused in the journal; \
            {} refusals there in all, {} by the world",
            self.refused, self.refused_outside
        )?;
        writeln!(
            f,
            "  {} idempotency keys took effect on the platform; {} required effects exist",
            self.keys, self.owed
        )?;
        writeln!(f, "  {} nodes are owned; looked at {} times", self.owned, self.looks)?;
        for wrong in self.wrong.iter().take(40) {
            writeln!(f, "  WRONG: {wrong}")?;
        }
        match self.wrong.len() {
            0 => write!(f, "  nothing wrong"),
            count => write!(f, "  NOT AS PROMISED, {count} times"),
        }
    }
}

/// Formats the median, the 99th percentile and the maximum of sorted spans.
fn spread(spans: &[Duration]) -> String {
    let at = |percent: usize| spans.get((spans.len() * percent / 100).min(spans.len().saturating_sub(1)));
    let [half, most, last] = [50, 99, 100].map(|percent| at(percent).copied().unwrap_or_default());
    format!("{half:.1?} (p50), {most:.1?} (p99), {last:.1?} (at most)")
}

/// Runs the campaign on `cluster`, in `dir`, with three servers. The same `seed` gives the same faults in the same order.
///
/// # Panics
/// If it cannot be started.
pub async fn run(
    tenure: &Path,
    world: &Path,
    dir: &Path,
    mut cluster: Cluster,
    size: Size,
    seed: u64,
) -> Outcome {
    let mut stage = Stage::set(tenure, world, dir, &cluster, size.wanted).await;
    let (world, eyes) = (stage.world.clone(), stage.eyes.clone());

    world.script(&troubles::usual()).await;
    let (began, mut dice) = (Instant::now(), Dice::new(seed));
    let until = began + size.trouble;
    let (stop, of_database) = (Arc::new(AtomicBool::new(false)), Dice::new(dice.below(u64::MAX)));
    let (stops, every) = (stop.clone(), size.database);
    let dying = tokio::task::spawn_blocking(move || {
        let away = troubles::restart_again_and_again(&mut cluster, of_database, &every, &stops);
        (cluster, away)
    });
    let outcome = Arc::new(tokio::sync::Mutex::new(Outcome::default()));
    let watching = tokio::spawn(watch(eyes.clone(), world.clone(), outcome.clone()));
    let asking = tokio::spawn({
        let (load, dice) = (stage.load.clone(), dice.clone());
        async move { load.run(size.wanted, dice, (size.trouble, began + size.trouble * 3)).await }
    });
    let over = || asking.is_finished() && Instant::now() > until;
    let struck = troubles::strike(&mut stage.servers, &world, &eyes, (dice, size.every, LEASE), over).await;
    stop.store(true, Ordering::Release);
    // Kept until all requests were sent.
    let (_cluster, away) = dying.await.expect("the database was killed and started");
    asking.await.expect("every request was sent");
    watching.abort();
    // Late servers have time to report.
    tokio::time::sleep(LEASE).await;
    stage.beside.abort_all();

    let mut outcome = outcome.lock().await.clone();
    outcome.took = began.elapsed();
    outcome.database = (away.len(), away.iter().map(|(from, to)| Duration::from_millis(to - from)).sum());
    judge::look(&eyes, &world, &mut outcome).await;
    let told = stage.load.told.lock().unwrap().clone();
    outcome.wrong.extend(told.wrong.clone());
    judge::judge(&eyes, &world, &told, (&struck, &away), LEASE, &mut outcome).await;
    outcome
}

/// All processes of the campaign, and its callers.
struct Stage {
    world: Arc<World>,
    /// Each with its name and its connection to the database.
    servers: Vec<(String, Proxy, Server)>,
    eyes: Arc<Eyes>,
    load: Load,
    beside: JoinSet<()>,
}

impl Stage {
    /// Sets up the servers before the faults.
    async fn set(tenure: &Path, world: &Path, dir: &Path, cluster: &Cluster, wanted: Wanted) -> Self {
        let world = Arc::new(World::start(world, dir));
        let mut servers = Vec::new();
        for name in ["a", "b", "c"] {
            let wire = Proxy::to(cluster.port()).expect("a port for the wire");
            let server = start(tenure, &dir.join(name), &world.url, name, wire.port());
            servers.push((name.to_owned(), wire, server));
        }
        let first = &servers[0].2;
        let admin = first.caller(&first.admin());
        import(&admin, first, wanted.nodes()).await;
        let all: Vec<&Server> = servers.iter().map(|(_, _, server)| server).collect();
        let staff = admin.user("rita", "admin").await.of_any(&all);
        let voters = [admin.user("olga", "platform_ops").await, admin.user("finn", "finance").await];
        let voters = voters.map(|voter| voter.of_any(&all));
        let eyes = Arc::new(Eyes::open(cluster.client()).await);
        let looking_out = eyes.clone();
        let mut beside = JoinSet::new();
        beside.spawn(async move { looking_out.look_out().await });
        beside.spawn(async move { vote(&voters).await });
        let load = Load { staff, world: world.clone(), eyes: eyes.clone(), told: Arc::default() };
        load.prepare(wanted).await;
        Self { world, servers, eyes, load, beside }
    }
}

async fn watch(eyes: Arc<Eyes>, world: Arc<World>, outcome: Arc<tokio::sync::Mutex<Outcome>>) {
    loop {
        tokio::time::sleep(LOOK).await;
        judge::look(&eyes, &world, &mut *outcome.lock().await).await;
    }
}

fn start(tenure: &Path, dir: &Path, platform: &str, name: &str, port: u16) -> Server {
    let url = format!("postgres://tenure@127.0.0.1:{port}/postgres?sslmode=disable");
    let lease = format!("{}s", LEASE.as_secs());
    let settings = [
        ("TENURE_STORE_URL", url.as_str()),
        ("TENURE_STORE_NAME", name),
        ("TENURE_STORE_CONNECTIONS", "6"),
        ("TENURE_ENGINE_LEASE", lease.as_str()),
        ("TENURE_SIMULATED_OBSERVE", "false"),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Server::start_with(tenure, dir, Some(platform), settings.into())
}
