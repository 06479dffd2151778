//! Connections: accepts them, limits their number, times them out, and closes them in order.
//!
//! Called by `server`; `http` answers the requests. Invariant: a slow or silent client keeps a connection at most for the configured timeouts, and the number
//! of connections never exceeds the setting.

mod body;
mod runtime;
mod timed;

use crate::{
    http,
    state::{
        SharedState,
        connections::{self, PeerAddress},
    },
};
use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
};
use body::{ResponseBody, TimedBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use runtime::ConnectionRuntime;
use std::{io, net::SocketAddr, pin::pin, time::Duration};
use timed::{Phase, TimedConnection};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{oneshot, watch},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// The timeout of a TLS handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// The delay after a failed accept, for example without free file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// The request service, and its runtime.
type Answering = (TowerToHyperService<Router>, Handle);

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// For the head of a request; for its body in addition to the time for its length.
    read: Duration,
    /// For the next request, and for progress of an answer.
    idle: Duration,
}

/// Serves connections until `over`, and finishes the requests received by then. With TLS if there is a certificate.
///
/// Connections have their own threads; requests run on the runtime of the caller. Dropping the future closes every connection.
///
/// # Errors
/// The threads cannot be created.
pub(crate) async fn serve(
    app: &SharedState,
    listener: TcpListener,
    over: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (main, listener) = (Handle::current(), listener.into_std()?);
    let router = TowerToHyperService::new(http::router::router(app));
    let (runtime, app) = (ConnectionRuntime::new()?, app.clone());
    let (tell, broken) = oneshot::channel();
    runtime
        .run(async move {
            // The listener is registered with the runtime of the connections.
            match TcpListener::from_std(listener) {
                Ok(listener) => take(app, (router, main), listener, over).await,
                Err(error) => drop(tell.send(error)),
            }
        })
        .await;
    broken.await.map_or(Ok(()), Err)
}

/// Accepts connections until `over`, then waits for the open ones.
async fn take(
    app: SharedState,
    (router, main): Answering,
    listener: TcpListener,
    over: impl Future<Output = ()>,
) {
    let most = app.config.http.connections;
    let (tell, stop) = watch::channel(false);
    let (mut open, mut over, mut full) = (JoinSet::new(), pin!(over), false);
    loop {
        if full != (open.len() >= most) {
            full = !full;
            if full {
                app.edge.was_full();
                tracing::warn!(
                    most,
                    "the maximum number of connections is open; further ones wait (http.connections)"
                );
            }
        }
        tokio::select! {
            () = &mut over => break,
            Some(_) = open.join_next() => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, from)) => {
                    let answering = (router.clone(), main.clone());
                    let conversation = accept_connection(app.clone(), answering, (stream, from), stop.clone());
                    open.spawn(conversation);
                }
                Err(error) if is_connection_error(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection; trying again");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    drop(listener);
    tell.send_replace(true);
    while open.join_next().await.is_some() {}
}

/// Returns true if the error concerns a single connection, which is gone, and not the listener.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

/// Serves a connection from start to end. Each handshake runs in its own task, so a slow one delays no other.
async fn accept_connection(
    app: SharedState,
    answering: Answering,
    (stream, from): (TcpStream, SocketAddr),
    over: watch::Receiver<bool>,
) {
    let _counted = app.edge.opened();
    let Some(config) = app.tls.as_ref().map(crate::tls::Tls::config) else {
        return serve_connection(app, answering, (stream, from), over).await;
    };
    let shaken = tokio::select! {
        () = stopped(over.clone()) => return,
        shaken = tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)) => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => serve_connection(app, answering, (stream, from), over).await,
        Ok(Err(error)) => tracing::debug!(%from, %error, "a handshake failed"),
        Err(_) => {
            app.edge.was_slow(connections::HANDSHAKE);
            tracing::debug!(%from, "a handshake timed out");
        }
    }
}

/// Waits until `over`. The value of the channel is dropped at once, because it may not move between threads.
async fn stopped(mut over: watch::Receiver<bool>) {
    drop(over.wait_for(|over| *over).await);
}

/// Answers requests on a connection until it ends; after `over`, the current request is the last.
async fn serve_connection<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    app: SharedState,
    (router, main): Answering,
    (stream, from): (Io, SocketAddr),
    over: watch::Receiver<bool>,
) {
    let settings = &app.config.http;
    let limits = Limits { read: settings.read_timeout.0, idle: settings.idle_timeout.0 };
    let phase = Phase::default();
    let timed = TimedConnection::new(stream, phase.clone(), limits, app.clone());
    let asked = app.clone();
    let answer = service_fn(move |request: Request<Incoming>| {
        phase.answering();
        let mut request = request.map(|body| Body::new(TimedBody::new(body, limits.read, asked.clone())));
        request.extensions_mut().insert(ConnectInfo(PeerAddress(from)));
        let (main, router, phase) = (main.clone(), router.clone(), phase.clone());
        async move {
            let answer = runtime::answer(&main, router, request).await;
            answer.map(|answer| answer.map(|body| ResponseBody::new(body, phase)))
        }
    });
    let mut http1 = http1::Builder::new();
    // This timer runs from an answer to the next head; `timed` has a shorter deadline for a head that has begun.
    http1.timer(TokioTimer::new()).header_read_timeout(limits.idle.max(limits.read));
    let mut connection = pin!(http1.serve_connection(TokioIo::new(timed), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(over) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%from, %error, "a connection ended");
    }
}
