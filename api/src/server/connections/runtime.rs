//! Threads of their own for connections: bytes come and go, and whether the process lives is answered, whatever keeps the others busy.
//!
//! Invariant: nothing runs there that computes for long. What is asked is handed to the runtime that the server was started on;
//! `/livez` alone is answered in place.

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use hyper::{StatusCode, service::Service as _};
use hyper_util::service::TowerToHyperService;
use std::{convert::Infallible, io};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinHandle,
};

/// How many threads. One could wait for a handshake.
const THREADS: usize = 2;
/// What is answered in place.
const IN_PLACE: &str = "/livez";

/// The runtime of connections. Dropped, it ends whatever runs on it, and waits for nothing.
pub(super) struct ConnectionRuntime(Option<Runtime>);

impl ConnectionRuntime {
    /// # Errors
    /// That there are no threads to be had.
    pub(super) fn new() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("connections").enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs `work` there until it ends.
    pub(super) async fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = &self.0 else { return };
        let mut running = Aborted(runtime.spawn(work));
        // A panic there is told by its hook; there is nothing left to serve.
        let _panicked = (&mut running.0).await;
    }
}

impl Drop for ConnectionRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A task that ends with whoever waits for it.
struct Aborted<T>(JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The answer to a request, made on `main` unless it is made in place.
pub(super) async fn answer(
    main: &Handle,
    router: TowerToHyperService<Router>,
    request: Request<Body>,
) -> Result<Response, Infallible> {
    if request.uri().path() == IN_PLACE {
        return router.call(request).await;
    }
    let mut answering = Aborted(main.spawn(async move { router.call(request).await }));
    match (&mut answering.0).await {
        Ok(answer) => answer,
        // The router catches panics; what is left is a runtime that shuts down.
        Err(_) => Ok(StatusCode::SERVICE_UNAVAILABLE.into_response()),
    }
}
