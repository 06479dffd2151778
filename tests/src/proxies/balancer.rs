//! A load balancer for TCP, as simple as they come: it asks each server at intervals whether it is ready, and leads every new
//! connection to the next of those that were; while none is, connections wait. What is open stays open. It repeats nothing.

use reqwest::Client;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// How often each server is asked.
pub const EVERY: Duration = Duration::from_millis(200);

/// Whoever takes longer to say that it is ready is not.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// How long a connection waits while nobody is ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// A balancer, gone with whoever started it.
#[derive(Debug)]
pub struct Balancer {
    port: u16,
    backends: Arc<Vec<Backend>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Backend {
    port: u16,
    ready: AtomicBool,
    led: AtomicUsize,
}

impl Balancer {
    /// Before the servers at these ports of this machine. Comes back once all of them were ready.
    ///
    /// # Errors
    /// When no port is to be had.
    pub async fn before(ports: &[u16]) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let backend =
            |port: &u16| Backend { port: *port, ready: AtomicBool::new(false), led: AtomicUsize::new(0) };
        let backends: Arc<Vec<Backend>> = Arc::new(ports.iter().map(backend).collect());
        let asking = (0..ports.len()).map(|which| tokio::spawn(ask(backends.clone(), which)));
        let mut tasks: Vec<_> = asking.collect();
        tasks.push(tokio::spawn(lead(listener, backends.clone())));
        let balancer = Self { port, backends, tasks };
        while (0..ports.len()).any(|which| !balancer.is_ready(which)) {
            tokio::time::sleep(EVERY / 4).await;
        }
        Ok(balancer)
    }

    /// Where clients find it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Whether the server was ready when it was last asked.
    #[must_use]
    pub fn is_ready(&self, which: usize) -> bool {
        self.backends[which].ready.load(Ordering::Acquire)
    }

    /// Connections that were led to the server so far.
    #[must_use]
    pub fn led(&self, which: usize) -> usize {
        self.backends[which].led.load(Ordering::Acquire)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn ask(backends: Arc<Vec<Backend>>, which: usize) {
    // A connection of its own each time: one that is kept open would be asked after the server has gone.
    let client = Client::builder().timeout(ANSWER_WITHIN).pool_max_idle_per_host(0).build();
    let client = client.expect("a client");
    let backend = &backends[which];
    loop {
        let answer = client.get(format!("http://127.0.0.1:{}/readyz", backend.port)).send().await;
        backend.ready.store(answer.is_ok_and(|answer| answer.status().is_success()), Ordering::Release);
        tokio::time::sleep(EVERY).await;
    }
}

async fn lead(listener: TcpListener, backends: Arc<Vec<Backend>>) {
    let mut turn = 0;
    while let Ok((near, _)) = listener.accept().await {
        let backends = backends.clone();
        tokio::spawn(async move {
            let next = tokio::time::timeout(PATIENCE, next(&backends, turn)).await;
            // Nobody came: whoever asked is cut off, and says so.
            let Ok(backend) = next else { return };
            backend.led.fetch_add(1, Ordering::AcqRel);
            carry(near, backend.port).await;
        });
        turn += 1;
    }
}

/// The next that is ready, once one is.
async fn next(backends: &[Backend], turn: usize) -> &Backend {
    loop {
        let mut in_turn = backends.iter().cycle().skip(turn % backends.len()).take(backends.len());
        if let Some(ready) = in_turn.find(|backend| backend.ready.load(Ordering::Acquire)) {
            return ready;
        }
        tokio::time::sleep(EVERY / 10).await;
    }
}

async fn carry(mut near: TcpStream, port: u16) {
    if let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await {
        _ = near.set_nodelay(true);
        _ = far.set_nodelay(true);
        _ = copy_bidirectional(&mut near, &mut far).await;
    }
}
