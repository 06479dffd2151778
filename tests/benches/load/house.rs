//! An engine on a store, clients that send it work, and the counters.

use crate::{
    flow::{A1, Alarm, Desk, W5},
    machine,
    report::{self, Row},
};
use engine::{Engine, Options, Person, Request, SystemClock, Verdict};
use hdrhistogram::Histogram;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Embedded, ExecutionId, Health, Memory, Store,
    postgres::{Postgres, PostgresOptions},
};
use tokio::{
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};

/// An engine, its store and its clients, without servers.
pub struct House {
    pub engine: Engine<Desk>,
    pub store: Arc<dyn Store>,
    pub desk: Arc<Desk>,
    pub client: Person,
    embedded: Option<Arc<Embedded>>,
}

/// A running engine.
pub struct Working {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), engine::Error>>,
}

impl House {
    /// On the embedded store in `dir`, with up to `concurrency` tasks at once.
    pub fn at(dir: &Path, desk: Desk, concurrency: usize) -> Arc<Self> {
        let embedded = Arc::new(Embedded::open(dir, store::Options::default()).expect("a store").store);
        Arc::new(Self { embedded: Some(embedded.clone()), ..Self::on(embedded, desk, concurrency) })
    }

    /// On PostgreSQL, as its only server.
    pub async fn on_postgres(url: String, concurrency: usize) -> Arc<Self> {
        let store = Postgres::open(PostgresOptions::for_url(url)).await.expect("a database");
        Arc::new(Self::on(Arc::new(store), Desk::default(), concurrency))
    }

    /// Only in memory.
    pub fn in_memory(concurrency: usize) -> Arc<Self> {
        Arc::new(Self::on(Arc::new(Memory::new()), Desk::default(), concurrency))
    }

    fn on(store: Arc<dyn Store>, desk: Desk, concurrency: usize) -> Self {
        let desk = Arc::new(desk);
        let told = desk.clone();
        let engine = Engine::new(store.clone(), Arc::new(SystemClock), desk.clone())
            .with_workflow::<W5>()
            .and_then(Engine::with_workflow::<A1>)
            .and_then(Engine::with_workflow::<Alarm>)
            .expect("sound")
            .with_options(Options { concurrency, ..Options::default() })
            .with_edge_observer(move |id, edges| told.moved(id, edges));
        Self { engine, store, desk, client: Person::new("client", ["writer"]), embedded: None }
    }

    /// Starts its engine.
    pub fn works(&self) -> Working {
        let (stop, stopped) = oneshot::channel::<()>();
        let engine = self.engine.clone();
        let task = tokio::spawn(async move { engine.run(async { drop(stopped.await) }).await });
        Working { stop, task }
    }

    /// Lets its engine finish its current work, and closes its store.
    pub async fn ends(&self, working: Working) {
        working.stop.send(()).expect("it works");
        working.task.await.expect("no panic").expect("it stops");
        if let Some(embedded) = &self.embedded {
            embedded.close().await.expect("it closes");
        }
    }

    /// Waits until the index has applied its backlog, so that its bytes are counted in the right row.
    pub async fn rest(&self) -> Health {
        loop {
            let health = self.store.health().await;
            if health.index_lag == 0 {
                return health;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn counted(&self, work: impl Future<Output = Vec<Duration>>) -> Row {
        let (before, device, cpu, began) =
            (self.rest().await, machine::written(), machine::cpu(), Instant::now());
        let times = work.await;
        let took = began.elapsed();
        let after = self.rest().await;
        Row {
            ended: times.len(),
            took,
            times: report::histogram(&times),
            syncs: after.syncs - before.syncs,
            journal: after.written_bytes - before.written_bytes,
            device: machine::written() - device,
            cpu: machine::cpu() - cpu,
        }
    }

    async fn one(&self) -> Duration {
        let began = Instant::now();
        let started = self.engine.start(W5::default(), Request::by(&self.client)).await.expect("it is begun");
        self.desk.end(started.id).await - began
    }

    /// A closed loop with `at_once` walks in flight.
    pub async fn closed(self: &Arc<Self>, at_once: usize, span: Duration) -> Row {
        let work = async {
            let until = Instant::now() + span;
            let mut clients = JoinSet::new();
            for _ in 0..at_once {
                let house = self.clone();
                clients.spawn(async move {
                    let mut times = Vec::new();
                    while Instant::now() < until {
                        times.push(house.one().await);
                    }
                    times
                });
            }
            clients.join_all().await.concat()
        };
        self.counted(work).await
    }

    /// An open loop with `rate` walks a second, independent of their ends.
    pub async fn open(self: &Arc<Self>, rate: f64, span: Duration) -> Row {
        let work = async {
            let mut beat = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
            let until = Instant::now() + span;
            let mut clients = JoinSet::new();
            while Instant::now() < until {
                beat.tick().await;
                let house = self.clone();
                clients.spawn(async move { house.one().await });
            }
            clients.join_all().await
        };
        self.counted(work).await
    }

    /// Starts `count` executions of `asked` with the numbers below it, by 256 clients; returns their numbers and ids.
    pub async fn begin<W>(self: &Arc<Self>, count: usize, asked: fn(usize) -> W) -> Vec<(usize, ExecutionId)>
    where
        W: engine::Workflow<Platform = Desk>,
    {
        const CLIENTS: usize = 256;
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let house = self.clone();
            clients.spawn(async move {
                let mut begun = Vec::with_capacity(count / CLIENTS + 1);
                for n in (client..count).step_by(CLIENTS) {
                    let request = Request::by(&house.client);
                    begun.push((n, house.engine.start(asked(n), request).await.expect("it is begun").id));
                }
                begun
            });
        }
        clients.join_all().await.concat()
    }

    /// Starts `count` executions that wait for approval, and returns their ids once they wait.
    pub async fn park(self: &Arc<Self>, count: usize) -> Vec<ExecutionId> {
        let begun = self.begin(count, |_| A1::default()).await;
        for (_, id) in &begun {
            while self.engine.approval(*id).await.expect("it can be read").is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        begun.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the time until a decision is acknowledged, and from there to the end of the execution.
    async fn decide(&self, id: ExecutionId, editor: &Person) -> (Duration, Duration) {
        let asked = self.engine.approval(id).await.expect("it can be read").expect("it waits");
        let began = Instant::now();
        self.engine.vote(id, editor, Verdict::Approve, &asked.digest, "yes").await.expect("it is decided");
        let acknowledged = Instant::now();
        (acknowledged - began, self.desk.end(id).await.saturating_duration_since(acknowledged))
    }

    /// Makes decisions one at a time; returns the times until each is acknowledged, and from there to the end of the
    /// execution.
    pub async fn decide_each(&self, ids: &[ExecutionId]) -> (Histogram<u64>, Histogram<u64>) {
        let editor = Person::new("editor", ["editor"]);
        let (mut decisions, mut ends) = (Vec::new(), Vec::new());
        for id in ids {
            let (decision, end) = self.decide(*id, &editor).await;
            decisions.push(decision);
            ends.push(end);
        }
        (report::histogram(&decisions), report::histogram(&ends))
    }
}
