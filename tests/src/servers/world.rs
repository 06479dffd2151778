//! The simulated platform as a separate process, so that a kill of Tenure or of the platform does not affect the other.
//!
//! `POST /call` performs one request of [`World`]; `GET /snapshot`, `/effects`, `/violations`, `/owners` and `/refused`
//! read its state; `POST /script` replaces its faults.

use axum::{
    Json, Router,
    extract::State,
    routing::{get, post},
};
use backends::simulated::{LocalWorld, Request, Response, Script, World};
use engine::ActionError;
use serde::Serialize;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpListener;

/// A simulated platform, with the duration of each answer.
#[derive(Clone)]
struct Served {
    world: Arc<LocalWorld>,
    slow: Duration,
}

/// Serves the platform until the process ends.
///
/// # Errors
/// If the listener fails.
pub async fn serve(listener: TcpListener, world: Arc<LocalWorld>, slow: Duration) -> io::Result<()> {
    axum::serve(listener, router(Served { world, slow })).await
}

/// Listens on a free port of this machine and serves the platform there until the runtime ends.
///
/// # Errors
/// If no port is available.
pub async fn serve_here(world: Arc<LocalWorld>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener, world, Duration::ZERO));
    Ok(address)
}

fn router(served: Served) -> Router {
    Router::new()
        .route("/call", post(call))
        .route("/script", post(script))
        .route("/snapshot", get(|served| look(served, LocalWorld::snapshot)))
        .route("/effects", get(|served| look(served, LocalWorld::all_effects)))
        .route("/violations", get(|served| look(served, LocalWorld::violations)))
        .route("/owners", get(|served| look(served, LocalWorld::owners)))
        .route("/refused", get(|served| look(served, LocalWorld::refused)))
        .with_state(served)
}

async fn call(
    State(served): State<Served>,
    Json(request): Json<Request>,
) -> Json<Result<Response, ActionError>> {
    if !served.slow.is_zero() {
        tokio::time::sleep(served.slow).await;
    }
    // A disconnected caller does not cancel its call.
    let done = tokio::spawn(async move { served.world.call(request).await }).await;
    Json(done.unwrap_or_else(|e| Err(ActionError::unknown("platform.no_answer", e))))
}

async fn script(State(served): State<Served>, Json(script): Json<Script>) {
    served.world.script(script);
}

async fn look<T: Serialize>(State(served): State<Served>, at: fn(&LocalWorld) -> T) -> Json<T> {
    Json(at(&served.world))
}
