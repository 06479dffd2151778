//! Connections with TLS, as `axum` takes them: handshakes are made side by side, so that one that is slow keeps nobody waiting.

use crate::app::Shared;
use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// The longest that a handshake takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most handshakes under way at once; whoever comes then waits for one to end.
const MOST: usize = 512;
/// How long it is waited when the system gives no connection, as when there are no descriptors left.
const BREATH: Duration = Duration::from_secs(1);

/// From where a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, Secured>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Secured>) -> Self {
        Self(*stream.remote_addr())
    }
}

type Connection = (TlsStream<TcpStream>, SocketAddr);

/// Listens, and hands on connections whose handshake is done. Dropped, it listens no more; what it has handed on stays.
#[derive(Debug)]
pub(crate) struct Secured {
    address: SocketAddr,
    done: mpsc::Receiver<Connection>,
    listens: AbortHandle,
}

impl Secured {
    /// Secures what comes to `listener` with the certificate that `app` has at that moment.
    ///
    /// # Errors
    /// When the listener does not know its address.
    pub(crate) fn new(listener: TcpListener, app: Shared) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (pass, done) = mpsc::channel(1);
        let listens = tokio::spawn(listen(listener, app, pass)).abort_handle();
        Ok(Self { address, done, listens })
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        match self.done.recv().await {
            Some(connection) => connection,
            // Whoever listens ends with this alone.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn listen(listener: TcpListener, app: Shared, pass: mpsc::Sender<Connection>) {
    let mut under_way = JoinSet::new();
    loop {
        while under_way.len() >= MOST {
            under_way.join_next().await;
        }
        let accepted = tokio::select! {
            Some(_) = under_way.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let Some(config) = app.tls.as_ref().map(super::Tls::config) else { return };
                let (acceptor, pass) = (TlsAcceptor::from(config), pass.clone());
                under_way.spawn(async move {
                    match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => _ = pass.send((stream, from)).await,
                        Ok(Err(error)) => tracing::debug!(%from, %error, "a handshake failed"),
                        Err(_) => tracing::debug!(%from, "a handshake took too long"),
                    }
                });
            }
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be taken; trying again");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

/// Whether an error is that of one connection, which is gone, and none of listening.
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}
