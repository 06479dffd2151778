//! Where the world begins: connections are taken, bounded, timed and ended in order, and callers are held to their rate.
//!
//! Called by `server`, which says until when; what is asked on a connection is answered by `http`. Invariant: nobody who is slow
//! or silent keeps a connection for longer than the settings say, and there are never more connections than they say.

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

/// The longest that a handshake takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it is waited when the system gives no connection, as when there are no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// What answers requests, and the runtime on which it does.
type Answering = (TowerToHyperService<Router>, Handle);

/// How long whoever is slow is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// For the head of a request, and for its body beside what follows from its length.
    read: Duration,
    /// For the next request, and for an answer to be taken.
    idle: Duration,
}

/// Answers whoever asks until `over` is, and what was asked by then. With TLS where there is a certificate.
///
/// Connections have threads of their own; requests are answered on the runtime of the caller. Dropped, it ends every connection at once.
///
/// # Errors
/// That there are no threads to be had.
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
            // It is told by the runtime that takes connections when one comes.
            match TcpListener::from_std(listener) {
                Ok(listener) => take(app, (router, main), listener, over).await,
                Err(error) => drop(tell.send(error)),
            }
        })
        .await;
    broken.await.map_or(Ok(()), Err)
}

/// Takes connections until `over` is, and waits for those that are open.
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
                    "as many connections are open as there may be; others wait (http.connections)"
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
                    tracing::error!(%error, "no connection can be taken; trying again");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    drop(listener);
    tell.send_replace(true);
    while open.join_next().await.is_some() {}
}

/// Whether an error is that of one connection, which is gone, and none of listening.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

/// One connection, from its first byte to its last. Handshakes are made here and so side by side: one that is slow keeps nobody waiting.
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
            tracing::debug!(%from, "a handshake took too long");
        }
    }
}

/// Until it is over. What the channel answers is let go at once: it may not be carried from thread to thread.
async fn stopped(mut over: watch::Receiver<bool>) {
    drop(over.wait_for(|over| *over).await);
}

/// Answers what is asked on a connection until it ends; once `over`, the request under way is the last.
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
    // It runs from one answer to the head after it; `timed` sees to it that a head once begun is quicker.
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
