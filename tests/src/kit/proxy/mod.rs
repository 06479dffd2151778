//! Trouble on the way to a server that speaks HTTP: a proxy in front of it that loses, delays and garbles on demand.
//!
//! It listens on plain HTTP and speaks HTTP or HTTPS to the server, so that a client needs nothing but another address; every
//! header of the client but those of the connection itself is passed on. Answers are passed on as they come, so that watches
//! work. One request a connection.

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

/// A request, as far as it is known which trouble it meets.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// The path with the query.
    pub target: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// Says of a request whether it can change something.
pub type Changes = fn(&Asked) -> bool;

/// A request that is held back on its way, so that something can happen before it arrives.
#[derive(Debug)]
pub struct Held {
    came: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Held {
    /// Waits until the request has come, does this, and lets the request go on.
    ///
    /// # Errors
    /// When the proxy ends before it comes.
    pub async fn after<T>(self, deed: impl Future<Output = T>) -> io::Result<T> {
        self.came.await.map_err(io::Error::other)?;
        let done = deed.await;
        // A caller that has given up has taken its request along.
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

/// A client that trusts the authority in this file and no other, for servers with certificates of their own making.
///
/// # Errors
/// When the file cannot be read or holds no certificate.
pub fn trusting(authority: &Path) -> io::Result<Client> {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let pem = std::fs::read(authority)?;
    let certificates = reqwest::Certificate::from_pem_bundle(&pem).map_err(io::Error::other)?;
    let client = Client::builder().no_proxy().tls_certs_only(certificates);
    client.build().map_err(io::Error::other)
}

impl Proxy {
    /// In front of the server at `upstream`, such as `http://127.0.0.1:8001`; it must need no certificate of ours to be trusted.
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

    /// Where clients find it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests came so far, lost ones included.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.shared.seen.load(Ordering::Acquire)
    }

    /// Has this trouble from here on.
    ///
    /// # Errors
    /// If the port, which was closed meanwhile, is no longer available.
    pub async fn trouble(&self, next: Trouble) -> io::Result<()> {
        self.fault(Fault::Of(next)).await
    }

    /// Has this fault from here on. Connections that are open stay open.
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

    /// Cuts every connection that is open, watches among them.
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

    /// Waits where this request is to be held back.
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
            // The first change arrives; whatever comes then does not.
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
