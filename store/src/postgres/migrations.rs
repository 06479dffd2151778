//! The migrations of the schema, embedded in the program.
//!
//! Applied when a store is opened. Invariant: a released file never changes, since each database keeps the checksum (SHA-384) of
//! every file that was applied to it.

use sqlx::{
    SqlStr,
    migrate::{Migration, MigrationType, Migrator},
};

/// The files of `migrations/`: version, description and content. The name of a file is its version and its description.
const FILES: &[(i64, &str, &str)] = &[(1, "store", include_str!("../../migrations/0001_store.sql"))];

/// Returns the migrations that this version knows, in order.
pub(super) fn migrator() -> Migrator {
    let migration = |(version, description, sql): &(i64, &'static str, &'static str)| {
        let runs_alone = sql.starts_with("-- no-transaction");
        let sql = SqlStr::from_static(sql);
        Migration::new(*version, (*description).into(), MigrationType::Simple, sql, runs_alone)
    };
    Migrator::with_migrations(FILES.iter().map(migration).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use std::path::Path;

    #[tokio::test]
    async fn every_file_of_the_folder_is_a_migration_as_sqlx_reads_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let of = |migrator: &Migrator| {
            let row = |one: &Migration| {
                let sql = one.sql.as_str().to_owned();
                (
                    one.version,
                    one.description.to_string(),
                    one.migration_type,
                    sql,
                    hex::encode(&one.checksum),
                    one.no_tx,
                )
            };
            migrator.iter().map(row).collect::<Vec<_>>()
        };

        let read = Migrator::new(folder.as_path()).await.unwrap();

        assert_eq!(of(&migrator()), of(&read));
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len());
    }

    /// The value that databases have recorded, by version 0.1.0 and later.
    #[test]
    fn the_checksum_of_a_released_migration_never_changes() {
        let first = migrator().iter().next().map(|first| (first.version, hex::encode(&first.checksum)));

        let recorded = "3f0b9cbdf81dce407994f4bf8c3e660b5874b595cb65b2b46cfa3b8e5ffcb89ad2f101634a12da7184f55bd55ed80c8a";
        assert_eq!(first, Some((1, recorded.to_owned())));
    }
}
