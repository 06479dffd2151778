//! Separate threads for connections, so that input, output and liveness checks work while the other threads are busy.
//!
//! Invariant: no long computation runs on these threads. Requests are answered on the runtime of the server; only `/livez` is answered directly.

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

/// The number of threads. One may be busy with a handshake.
const THREADS: usize = 2;
/// The path that is answered directly.
const IN_PLACE: &str = "/livez";

/// The runtime of connections. Dropping it ends its tasks without waiting.
pub(super) struct ConnectionRuntime(Option<Runtime>);

impl ConnectionRuntime {
    /// # Errors
    /// The threads cannot be created.
    pub(super) fn new() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("connections").enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs `work` on these threads until it ends.
    pub(super) async fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = &self.0 else { return };
        let mut running = Aborted(runtime.spawn(work));
        // The panic hook has logged the panic; there is nothing left to serve.
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

/// A task that is aborted when its waiter is dropped.
struct Aborted<T>(JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers a request, on `main` or directly.
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
        // The router catches panics, so this means that the runtime shuts down.
        Err(_) => Ok(StatusCode::SERVICE_UNAVAILABLE.into_response()),
    }
}
