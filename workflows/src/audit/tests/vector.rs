//! The test vector of `docs/audit.md`: a file that every verifier must accept and that must be written with identical bytes.

use super::*;
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(name)
}

/// Run with `BLESS=1` after adding a version of the format. A file of an old version must never change.
#[tokio::test]
async fn the_test_vector_is_written_unchanged_and_verifies() {
    let file = exported().await;
    let pem = key().public_key().to_pem();
    for (name, text) in [("audit-2.jsonl", &file), ("audit-key.pem", &pem)] {
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(golden(name), text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(golden(name)).unwrap(), *text, "{name} has moved");
    }
    let keys = PublicKey::all_from_pem(pem.as_bytes()).unwrap();
    assert_eq!(verify(file.as_bytes(), &keys).problems, []);
}

/// A file of version 1 has entries without kind, cluster, workspace and time of effect.
#[test]
fn a_file_of_the_previous_version_still_verifies() {
    let file = std::fs::read(golden("audit.jsonl")).unwrap();
    let keys = PublicKey::all_from_pem(&std::fs::read(golden("audit-key.pem")).unwrap()).unwrap();
    assert_eq!(verify(&file, &keys).problems, []);
}
