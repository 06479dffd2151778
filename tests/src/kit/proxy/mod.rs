//! Faults in front of an HTTP server: a proxy that loses, delays and corrupts on demand.
//!
//! It listens on plain HTTP and forwards over HTTP or HTTPS, so that a client needs only another address; it forwards every
//! header except those of the connection. Answers are streamed, so that watches work. One request for each connection.

mod connection;
mod request;

use super::Trouble;
use connection::listen;
use reqwest::{Client, Method};
use std::{
    fmt, io,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{AbortHandle, JoinHandle},
};

/// A request, with the parts that select its fault.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// The path with the query.
    pub target: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// Returns true if a request can change something.
pub type Changes = fn(&Asked) -> bool;

/// A request that is held in the proxy, so that other events can happen before it arrives.
#[derive(Debug)]
pub struct Held {
    came: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Held {
    /// Waits for the request, runs the closure `deed`, and forwards the request.
    ///
    /// # Errors
    /// If the proxy ends before it comes.
    pub async fn after<T>(self, deed: impl Future<Output = T>) -> io::Result<T> {
        self.came.await.map_err(io::Error::other)?;
        let done = deed.await;
        // A caller that has given up has cancelled its request.
        let _gone = self.go.send(());
        Ok(done)
    }
}

/// The proxy's side of [`Held`].
struct Holding {
    which: fn(&Asked) -> bool,
    came: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

/// The fault for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A fault as [`Trouble`] describes it.
    Of(Trouble),
    /// The answer to the next request that can change something is cut off after this number of body bytes.
    CutAfter(usize),
}

/// The proxy. It ends with its owner.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    upstream: String,
    client: Client,
    changes: Changes,
    fault: Mutex<Fault>,
    seen: AtomicUsize,
    holding: Mutex<Option<Holding>>,
    open: Mutex<Vec<AbortHandle>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

/// Returns true if HTTP allows the method to change something: all but `GET`, `HEAD` and `OPTIONS`.
#[must_use]
pub fn by_method(asked: &Asked) -> bool {
    !matches!(asked.method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A client that trusts only the authority in this file, for servers with their own certificates.
///
/// # Errors
/// If the file cannot be read or contains no certificate.
pub fn trusting(authority: &Path) -> io::Result<Client> {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let pem = std::fs::read(authority)?;
    let certificates = reqwest::Certificate::from_pem_bundle(&pem).map_err(io::Error::other)?;
    let client = Client::builder().no_proxy().tls_certs_only(certificates);
    client.build().map_err(io::Error::other)
}

impl Proxy {
    /// In front of the server at `upstream`, such as `http://127.0.0.1:8001`, which needs no private authority.
    ///
    /// # Errors
    /// If no port is available.
    pub async fn before(upstream: &str) -> io::Result<Self> {
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build().map_err(io::Error::other)?;
        Self::with(upstream, client, by_method).await
    }

    /// A proxy in front of a server that `client` can reach, with its own test for changing requests.
    ///
    /// # Errors
    /// If no port is available.
    pub async fn with(upstream: &str, client: Client, changes: Changes) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: upstream.trim_end_matches('/').to_owned(),
            client,
            changes,
            fault: Mutex::new(Fault::Of(Trouble::Calm)),
            seen: AtomicUsize::new(0),
            holding: Mutex::default(),
            open: Mutex::default(),
        });
        let listening = Mutex::new(Some(tokio::spawn(listen(listener, shared.clone()))));
        Ok(Self { address, shared, listening })
    }

    /// Returns its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of requests so far, including lost ones.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.shared.seen.load(Ordering::Acquire)
    }

    /// Injects this fault from now on.
    ///
    /// # Errors
    /// If the port, which was closed meanwhile, is no longer available.
    pub async fn trouble(&self, next: Trouble) -> io::Result<()> {
        self.fault(Fault::Of(next)).await
    }

    /// Injects this fault from now on. Open connections stay open.
    ///
    /// # Errors
    /// If the port, which was closed meanwhile, is no longer available.
    pub async fn fault(&self, next: Fault) -> io::Result<()> {
        *self.shared.fault() = next;
        if next == Fault::Of(Trouble::Down) {
            let listening = lock(&self.listening).take();
            if let Some(listening) = listening {
                listening.abort();
                let _aborted = listening.await;
            }
            self.cut();
        } else if lock(&self.listening).is_none() {
            let listener = TcpListener::bind(self.address).await?;
            *lock(&self.listening) = Some(tokio::spawn(listen(listener, self.shared.clone())));
        }
        Ok(())
    }

    /// Holds the next matching request until it is released.
    #[must_use]
    pub fn hold(&self, which: fn(&Asked) -> bool) -> Held {
        let ((came, has_come), (goes, go)) = (oneshot::channel(), oneshot::channel());
        *lock(&self.shared.holding) = Some(Holding { which, came, go });
        Held { came: has_come, go: goes }
    }

    /// Cuts every open connection, including watches.
    pub fn cut(&self) {
        lock(&self.shared.open).drain(..).for_each(|open| open.abort());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(listening) = lock(&self.listening).take() {
            listening.abort();
        }
        self.cut();
    }
}

impl Shared {
    fn fault(&self) -> MutexGuard<'_, Fault> {
        lock(&self.fault)
    }

    /// Waits if this request is to be held.
    async fn held(&self, asked: &Asked) {
        let holding = {
            let mut holding = lock(&self.holding);
            if holding.as_ref().is_some_and(|holding| (holding.which)(asked)) { holding.take() } else { None }
        };
        if let Some(Holding { came, go, .. }) = holding {
            // The holder may have gone.
            let _gone = came.send(());
            let _gone = go.await;
        }
    }

    /// Returns the fault for this request. A fault for one request ends with it.
    fn meets(&self, asked: &Asked) -> Fault {
        let mut fault = self.fault();
        let changes = (self.changes)(asked);
        match *fault {
            Fault::Of(Trouble::LoseRequest | Trouble::LoseAnswer) | Fault::CutAfter(_) if !changes => {
                Fault::Of(Trouble::Calm)
            }
            Fault::Of(Trouble::LoseRequest | Trouble::LoseAnswer) | Fault::CutAfter(_) => {
                std::mem::replace(&mut *fault, Fault::Of(Trouble::Calm))
            }
            // The first change arrives; later calls do not.
            Fault::Of(Trouble::HalfDone) if changes => {
                *fault = Fault::Of(Trouble::Down);
                Fault::Of(Trouble::Calm)
            }
            Fault::Of(Trouble::HalfDone) => Fault::Of(Trouble::Calm),
            other => other,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
