//! Notifications of work that another process has added. The engine also polls at intervals, in case one is lost.

use super::shared::Shared;
use sqlx::postgres::PgListener;
use std::{sync::Arc, time::Duration};

/// The pause before the next try to listen.
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
    // Earlier notifications are not repeated.
    shared.notifications.notify_one();
    loop {
        // `None` is a lost connection that will be restored: a notification may have been missed.
        let _ = listener.try_recv().await?;
        shared.notifications.notify_one();
    }
}
