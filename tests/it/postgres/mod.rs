//! The store on PostgreSQL, against a real server. Skipped with a message where PostgreSQL is not installed.

mod chaos;
mod conforming;
mod failover;
mod held;
mod many;
mod moving;
mod plans;
mod rolling;
mod served;
mod storm;
mod streams;
mod under_way;
mod versions;

use std::sync::Arc;
use store::postgres::{Postgres, PostgresOptions};
use tests::servers::postgres::{Cluster, installed, schema};

/// Returns options for a separate store on the shared server; `None` where there is no server.
pub(crate) fn options() -> Option<PostgresOptions> {
    let cluster = Cluster::shared(installed()?).expect("the server starts");
    Some(PostgresOptions { schema: schema(), connections: 3, ..PostgresOptions::for_url(cluster.url()) })
}

pub(crate) async fn opened(options: &PostgresOptions) -> Arc<Postgres> {
    Arc::new(Postgres::open(options.clone()).await.expect("the store opens"))
}
