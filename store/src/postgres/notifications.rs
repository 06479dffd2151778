//! Being told of work that another process has added. Looking at intervals is the safety net, and is the engine's.

use super::shared::Shared;
use sqlx::postgres::PgListener;
use std::{sync::Arc, time::Duration};

/// Before the database is asked anew for what it has to tell.
const PAUSE: Duration = Duration::from_secs(1);

/// Wakes the processes that listen.
pub(super) const NOTIFY: &str = "SELECT pg_notify($1, '')";

/// Listens until the process ends.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        if let Err(error) = listen(&shared).await {
            tracing::debug!(%error, "the database cannot be listened to; trying again");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen(shared: &Shared) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(&shared.pool).await?;
    listener.listen(&shared.channel()).await?;
    // What was told before is not told again.
    shared.notifications.notify_one();
    loop {
        // `None` is a connection that was lost and will be found again: something may have been missed.
        let _ = listener.try_recv().await?;
        shared.notifications.notify_one();
    }
}
