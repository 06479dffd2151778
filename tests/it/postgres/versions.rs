//! Different versions on one database.

use super::{opened, options};
use store::{
    Commit, Error, Key, Put, Store,
    postgres::{Postgres, PostgresOptions},
};
use tests::servers::postgres::{Cluster, installed};

fn sql(options: &PostgresOptions, sql: &str) {
    let cluster = Cluster::shared(installed().unwrap()).unwrap();
    cluster.sql(&format!("SET search_path = {}; {sql}", options.schema)).unwrap();
}

/// A later version has extended the schema: this version continues as long as the schema allows it, and else names the
/// required version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_database_is_used_if_it_declares_compatibility() {
    let Some(options) = options() else { return };
    opened(&options).await.close().await.unwrap();
    sql(
        &options,
        "ALTER TABLE documents ADD COLUMN colour text; INSERT INTO _sqlx_migrations \
         (version, description, success, checksum, execution_time) VALUES (9, 'later', true, '\\x00', 1)",
    );

    let store = opened(&options).await;
    let put = Put { key: Key::new("things", "a"), body: Some(vec![1]) };
    store.commit(Commit { documents: vec![put], ..Commit::default() }).await.unwrap();
    store.close().await.unwrap();
    let schema = Postgres::schema(&options).await.unwrap();
    assert_eq!((schema.has, schema.lacks), (vec![1, 9], vec![]));

    sql(&options, "UPDATE head SET compatible = 9");
    let refused = Postgres::open(options.clone()).await;
    let Err(Error::Refused { why }) = refused else { panic!("it is opened") };
    assert!(why.contains("know schema 9 or later") && why.contains("newer version"), "{why}");
}
