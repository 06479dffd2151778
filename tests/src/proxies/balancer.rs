//! A minimal load balancer for TCP. It checks each server at intervals and directs every new connection to the next ready
//! one; while none is ready, connections wait. Open connections stay open. It never retries.

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

/// The interval of the checks of each server.
pub const EVERY: Duration = Duration::from_millis(200);

/// A server whose check takes longer is not ready.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// How long a connection waits while no server is ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// A balancer that ends with its owner.
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
    /// Starts it for the servers at these ports of this machine. Returns once all of them were ready.
    ///
    /// # Errors
    /// If no port is available.
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

    /// Returns its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns true if the server was ready at its last check.
    #[must_use]
    pub fn is_ready(&self, which: usize) -> bool {
        self.backends[which].ready.load(Ordering::Acquire)
    }

    /// Returns the number of connections directed to the server so far.
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
    // Each check opens a new connection: a kept one would reach the server after it stopped listening.
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
            // No server was ready: the client is cut off and reports it.
            let Ok(backend) = next else { return };
            backend.led.fetch_add(1, Ordering::AcqRel);
            carry(near, backend.port).await;
        });
        turn += 1;
    }
}

/// Returns the next ready server, once there is one.
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
