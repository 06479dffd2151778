//! Trouble on the way to a server that speaks HTTP: a proxy in front of it that loses, delays and garbles on demand.
//!
//! It listens on plain HTTP and speaks HTTP or HTTPS to the server, so that a client needs nothing but another address; every
//! header of the client but those of the connection itself is passed on. Answers are passed on as they come, so that watches
//! work. One request a connection.

use super::Trouble;
use reqwest::{
    Client, Method,
    header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING},
};
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
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{AbortHandle, JoinHandle},
};

/// The longest head of a request, in bytes.
const HEAD: usize = 64 << 10;
/// The longest body of a request, in bytes.
const BODY: usize = 64 << 20;

/// A request, as far as it is known which trouble it meets.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// Its path with its query.
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

/// What becomes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// As [`Trouble`] says.
    Of(Trouble),
    /// The answer to the next request that can change something is cut off after so many bytes of its body.
    CutAfter(usize),
}

/// The proxy. It ends with whoever started it.
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

/// What can change something by HTTP's own words: everything but `GET`, `HEAD` and `OPTIONS`.
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
    /// When no port is to be had.
    pub async fn before(upstream: &str) -> io::Result<Self> {
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build().map_err(io::Error::other)?;
        Self::with(upstream, client, by_method).await
    }

    /// In front of a server that is spoken to by `client`, with an own view of what can change something.
    ///
    /// # Errors
    /// When no port is to be had.
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
    /// When the port, let go while nobody listened, cannot be had again.
    pub async fn trouble(&self, next: Trouble) -> io::Result<()> {
        self.fault(Fault::Of(next)).await
    }

    /// Has this fault from here on. Connections that are open stay open.
    ///
    /// # Errors
    /// When the port, let go while nobody listened, cannot be had again.
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

    /// Holds back the next request of which this is so, until it is let go.
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
            // Whoever wanted it held may have gone.
            let _gone = came.send(());
            let _gone = go.await;
        }
    }

    /// What this request meets. Trouble of one request is over with it.
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

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let carrying = tokio::spawn(carry(stream, shared.clone()));
        let mut open = lock(&shared.open);
        open.retain(|open| !open.is_finished());
        open.push(carrying.abort_handle());
    }
}

/// One connection: one request and what becomes of it. A connection that breaks off is closed, and that is all.
async fn carry(mut stream: TcpStream, shared: Arc<Shared>) {
    let Ok(Some((asked, headers))) = read(&mut stream).await else { return };
    shared.seen.fetch_add(1, Ordering::AcqRel);
    shared.held(&asked).await;
    let _broke_off = meet(&mut stream, &shared, asked, headers).await;
}

async fn meet(
    stream: &mut TcpStream,
    shared: &Arc<Shared>,
    asked: Asked,
    headers: HeaderMap,
) -> io::Result<()> {
    let plain = "text/plain";
    match shared.meets(&asked) {
        Fault::Of(Trouble::Calm) => pass(stream, shared, asked, headers, usize::MAX).await,
        Fault::Of(Trouble::LoseRequest | Trouble::Down | Trouble::HalfDone) => Ok(()),
        Fault::Of(Trouble::LoseAnswer) => {
            let answer = forward(shared, asked, headers).await?;
            // To its end, so that it has taken effect.
            answer.bytes().await.map_err(io::Error::other).map(drop)
        }
        Fault::Of(Trouble::Slow(span)) => {
            // A caller that hangs up takes back what has not arrived yet.
            let mut byte = [0];
            tokio::select! {
                () = tokio::time::sleep(span) => pass(stream, shared, asked, headers, usize::MAX).await,
                _ = stream.read(&mut byte) => Ok(()),
            }
        }
        Fault::Of(Trouble::Throttle(span)) => {
            let seconds = span.as_millis().div_ceil(1_000);
            let head = format!("HTTP/1.1 429 Too Many Requests\r\nRetry-After: {seconds}\r\n");
            say(stream, &head, plain, b"slow down").await
        }
        Fault::Of(Trouble::Deny) => say(stream, "HTTP/1.1 403 Forbidden\r\n", plain, b"not permitted").await,
        Fault::Of(Trouble::Garbage) => {
            say(stream, "HTTP/1.1 200 OK\r\n", "application/json", b"{\"\x00<html>what?").await
        }
        Fault::Of(Trouble::NotSupported) => {
            say(stream, "HTTP/1.1 404 Not Found\r\n", plain, b"there is no such thing here").await
        }
        Fault::CutAfter(bytes) => pass(stream, shared, asked, headers, bytes).await,
    }
}

async fn say(stream: &mut TcpStream, head: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let more = format!("Content-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(format!("{head}{more}").as_bytes()).await?;
    stream.write_all(body).await?;
    stream.shutdown().await
}

async fn forward(shared: &Shared, asked: Asked, headers: HeaderMap) -> io::Result<reqwest::Response> {
    let url = format!("{}{}", shared.upstream, asked.target);
    let sent = shared.client.request(asked.method, url).headers(headers).body(asked.body).send().await;
    sent.map_err(io::Error::other)
}

/// Passes the request on and its answer back as it comes, up to so many bytes of it.
async fn pass(
    stream: &mut TcpStream,
    shared: &Shared,
    asked: Asked,
    headers: HeaderMap,
    upto: usize,
) -> io::Result<()> {
    let mut answer = forward(shared, asked, headers).await?;
    let status = answer.status();
    let reason = status.canonical_reason().unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in answer.headers() {
        if ![CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH].contains(name) {
            head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
    }
    let bare = status.is_informational() || status.as_u16() == 204 || status.as_u16() == 304;
    head.extend_from_slice(if bare { b"Connection: close\r\n\r\n" } else { CHUNKED });
    stream.write_all(&head).await?;
    let mut left = upto;
    while let Some(chunk) = answer.chunk().await.map_err(io::Error::other)? {
        let part = chunk.get(..left).unwrap_or(&chunk);
        left -= part.len();
        if !part.is_empty() {
            stream.write_all(format!("{:x}\r\n", part.len()).as_bytes()).await?;
            stream.write_all(part).await?;
            stream.write_all(b"\r\n").await?;
        }
        if left == 0 {
            return stream.flush().await;
        }
    }
    if !bare {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    stream.shutdown().await
}

const CHUNKED: &[u8] = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

/// The request, once all of it is there; nothing where the connection ends before it begins.
async fn read(stream: &mut TcpStream) -> io::Result<Option<(Asked, HeaderMap)>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > HEAD || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let rest = bytes.split_off(end);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let method = first.next().and_then(|text| Method::from_bytes(text.as_bytes()).ok()).ok_or_else(wrong)?;
    let target = first.next().ok_or_else(wrong)?.to_owned();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        headers.append(name, HeaderValue::from_str(value.trim()).map_err(|_| wrong())?);
    }
    if headers.get("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let body = match (headers.contains_key(TRANSFER_ENCODING), length) {
        (true, _) => dechunked(stream, rest).await?,
        (false, length) => exactly(stream, rest, length.unwrap_or(0)).await?,
    };
    for name in [HOST, CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH, HeaderName::from_static("expect")] {
        headers.remove(name);
    }
    Ok(Some((Asked { method, target, body }, headers)))
}

async fn exactly(stream: &mut TcpStream, mut body: Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    if length > BODY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    body.truncate(length);
    Ok(body)
}

async fn dechunked(stream: &mut TcpStream, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = loop {
            if let Some(at) = bytes.windows(2).position(|two| two == b"\r\n") {
                break at;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let rest = bytes.split_off(line + 2);
        let size = String::from_utf8_lossy(&bytes).trim().split(';').next().unwrap_or("").to_owned();
        let size = usize::from_str_radix(&size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        let whole = exactly_more(stream, rest, size + 2).await?;
        body.extend_from_slice(whole.get(..size).unwrap_or_default());
        bytes = whole.get(size + 2..).unwrap_or_default().to_vec();
        if size == 0 {
            return Ok(body);
        }
        if body.len() > BODY {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// At least so many bytes.
async fn exactly_more(stream: &mut TcpStream, mut bytes: Vec<u8>, least: usize) -> io::Result<Vec<u8>> {
    while bytes.len() < least {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(bytes)
}
