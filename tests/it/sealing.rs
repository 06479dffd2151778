//! A server with sealed records: the content of its disk, and a start with the wrong key or none.

use crate::{
    domain_http::items,
    served::{NODES, Ran, Running, Served, files_with, large, tenure},
};
use serde_json::json;
use std::{fs, path::Path};

/// The text of a user is on the disk in no readable form, and the key is not on the disk.
#[tokio::test]
async fn an_encrypted_server_stores_no_plain_text_and_starts_only_with_its_key() {
    let elsewhere = tempfile::tempdir().unwrap();
    let key = elsewhere.path().join("platform.key");
    let digits = "0123456789abcdef".repeat(4);
    fs::write(&key, &digits).unwrap();
    let with = |file: &Path| file.to_str().unwrap().to_owned();
    let served = Served::start_with(&[("TENURE_SEAL_KEY_FILE", &with(&key))]);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let olga = served.user("olga", &["platform_ops", "capacity_manager", "finance", "security"], None).await;
    let id = served.onboard(&large("acme")).await;
    served.asked(&id).await;
    let approval = items(&served.get("/v1/approvals").await)[0]["id"].as_str().unwrap().to_owned();
    let digest = served.get(&format!("/v1/approvals/{approval}")).await.body["digest"].clone();
    let yes = json!({ "digest": digest, "reason": "the very quiet order 4711" });
    let approved = served.json_as(&olga, &format!("/v1/approvals/{approval}:approve"), yes).await;
    assert!(approved.status.is_success(), "{}", approved.body);
    served.ended(&id).await;
    let history = served.get(&format!("/v1/executions/{id}/journal")).await.body.to_string();
    assert!(history.contains("very quiet order"), "permitted users can read it");
    assert!(served.get("/readyz?verbose").await.body.to_string().contains(r#""records":"sealed""#));
    let (dir, admin) = served.killed();

    for planted in ["very quiet order", &digits] {
        assert_eq!(files_with(dir.path(), planted), Vec::<String>::new());
    }
    assert!(dir.path().join("tenure-data/record-keys/acme.key").exists());
    let start = |file: Option<&Path>| {
        let mut command = tenure(dir.path());
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        if let Some(file) = file {
            command.env("TENURE_SEAL_KEY_FILE", file);
        }
        Ran::of(&mut command)
    };
    let keyless = start(None);
    assert_eq!(keyless.exit, 2, "{keyless:?}");
    assert!(keyless.err.contains("seal.key_file") && keyless.err.contains("are encrypted"), "{keyless:?}");
    let other = elsewhere.path().join("other.key");
    fs::write(&other, "f".repeat(64)).unwrap();
    let wrong = start(Some(&other));
    assert!(wrong.exit == 2 && wrong.err.contains("was wrapped by another"), "{wrong:?}");
    fs::write(&other, "not a key").unwrap();
    let short = start(Some(&other));
    assert!(short.exit == 2 && short.err.contains("openssl rand -hex 32"), "{short:?}");

    let running = Running::start(dir.path(), &[("TENURE_SEAL_KEY_FILE", &with(&key))]);
    let shown = tenure(dir.path())
        .args(["--server", &running.url, "executions", "journal", &id])
        .env("TENURE_TOKEN", &admin)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("approved"), "{shown:?}");
}
