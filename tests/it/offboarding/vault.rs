//! Keys in a fake Vault that were exported: after the offboarding the old ciphertext can be decrypted, so the certificate must not
//! deny it.

use super::stage::Stage;
use backends::{
    routing::Estates,
    vault::{Vault, VaultTarget},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use simulator::verification::{left_behind, ready};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::Arc,
    time::Duration,
};
use store::{Epoch, Memory};
use tempfile::TempDir;
use tests::servers::vault::{Rights, StandIn};
use workflows::{
    offboarding::Offboarding,
    platform::{CallMetadata, Keys, TenantResources},
};

const NAME: &str = "t-acme";

struct Store {
    server: StandIn,
    vault: Arc<Vault>,
    _tokens: TempDir,
}

impl Store {
    async fn new() -> Self {
        let server = StandIn::start(&[("platform", Rights::All), ("verifier", Rights::Read)]).await.unwrap();
        let tokens = TempDir::new().unwrap();
        let token = |name: &str| {
            let path = tokens.path().join(name);
            fs::write(&path, name).unwrap();
            path
        };
        let target: VaultTarget = serde_json::from_value(json!({
            "endpoint": server.url(), "token_file": token("platform"), "verifier_token_file": token("verifier"),
        }))
        .unwrap();
        let vault = Arc::new(Vault::connect(&target).unwrap());
        let made = CallMetadata {
            action: "test",
            step: "onboarding".into(),
            key: "onboarding".into(),
            epoch: Epoch(1),
            undo: false,
            deadline: Duration::from_secs(20),
            dry_run: false,
        };
        vault.create(NAME, "acme", &made).await.unwrap();
        Self { server, vault, _tokens: tokens }
    }

    /// Returns the server's answer to an operator.
    async fn ask(&self, method: Method, path: &str, body: Value) -> Option<Value> {
        let client = Client::builder().no_proxy().build().unwrap();
        let ask = client.request(method, format!("{}/v1/transit/{path}", self.server.url()));
        let answer = ask.header("x-vault-token", "platform").json(&body).send().await.unwrap();
        let good = answer.status().is_success();
        let body = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default();
        good.then_some(body)
    }

    async fn decrypts(&self, ciphertext: &Value) -> bool {
        self.ask(Method::POST, &format!("decrypt/{NAME}"), json!({ "ciphertext": ciphertext }))
            .await
            .is_some()
    }

    /// Something of the tenant's, encrypted with its key.
    async fn encrypted(&self) -> Value {
        let body = json!({ "plaintext": STANDARD.encode("payload of acme") });
        let answer = self.ask(Method::POST, &format!("encrypt/{NAME}"), body).await.unwrap();
        answer["data"]["ciphertext"].clone()
    }

    /// Takes a backup and restores the key from it with its flags cleared. Returns the backup, for later restores.
    async fn restored_with_cleared_flags(&self) -> Value {
        let allow = json!({ "exportable": true, "allow_plaintext_backup": true, "deletion_allowed": true });
        self.ask(Method::POST, &format!("keys/{NAME}/config"), allow).await.unwrap();
        let taken = self.ask(Method::GET, &format!("backup/{NAME}"), json!({})).await.unwrap();
        self.ask(Method::DELETE, &format!("keys/{NAME}"), json!({})).await.unwrap();
        let text = STANDARD.decode(taken["data"]["backup"].as_str().unwrap()).unwrap();
        let mut backup: Value = serde_json::from_slice(&text).unwrap();
        for flag in ["exportable", "allow_plaintext_backup", "deletion_allowed"] {
            backup["policy"][flag] = json!(false);
        }
        let body = json!({ "backup": STANDARD.encode(backup.to_string()) });
        self.ask(Method::POST, &format!("restore/{NAME}"), body.clone()).await.unwrap();
        body
    }

    async fn leaving(&self) -> Stage {
        let ready = ready("A100", 1).await.unwrap();
        left_behind(&ready.world, "acme");
        Stage::on(&ready, Arc::new(Memory::new()), |mut platform, _| {
            let keys: Arc<dyn TenantResources> = self.vault.clone();
            let served = BTreeMap::from([(("keys", String::new()), keys)]);
            platform.tenant_resources = Estates::over(served, BTreeSet::new(), platform.tenant_resources);
            platform.keys = self.vault.clone();
            platform
        })
        .await
    }
}

async fn exceptions_shown(stage: &Stage) -> String {
    assert_eq!(
        stage.until("AwaitingDestruction").await.0,
        "AwaitingDestruction",
        "{}",
        stage.trouble().await
    );
    let body = stage.engine.execution(stage.id).await.unwrap().1.body;
    let me: Offboarding = serde_json::from_value(body["data"].clone()).unwrap();
    engine::Workflow::plan(&me).decides["destroys"]["exceptions"].to_string()
}

#[tokio::test]
async fn a_restored_key_with_cleared_flags_does_not_prove_destruction() {
    let store = Store::new().await;
    let ciphertext = store.encrypted().await;
    let backup = store.restored_with_cleared_flags().await;
    let stage = store.leaving().await;
    let shown = exceptions_shown(&stage).await;
    assert!(shown.contains("it was restored from a backup, a backup of it was taken"), "{shown}");

    assert_eq!(stage.to_rest().await, ("ClosedWithExceptions".into(), "finished".into()));

    assert!(store.server.keys().is_empty() && !store.decrypts(&ciphertext).await);
    store.ask(Method::POST, &format!("restore/{NAME}"), backup).await.unwrap();
    assert!(store.decrypts(&ciphertext).await, "which is what the certificate must not deny");
}

#[tokio::test]
async fn an_imported_key_does_not_prove_destruction() {
    let store = Store::new().await;
    store.server.vanish(NAME);
    let material = json!({ "ciphertext": STANDARD.encode([7; 32]), "exportable": false });
    store.ask(Method::POST, &format!("keys/{NAME}/import"), material.clone()).await.unwrap();
    let ciphertext = store.encrypted().await;
    let stage = store.leaving().await;
    assert!(exceptions_shown(&stage).await.contains("it was imported"));

    assert_eq!(stage.to_rest().await, ("ClosedWithExceptions".into(), "finished".into()));

    store.ask(Method::POST, &format!("keys/{NAME}/import"), material).await.unwrap();
    assert!(store.decrypts(&ciphertext).await);
}

/// The control: a key that never left its store is destroyed without an exception.
#[tokio::test]
async fn a_key_that_never_left_its_store_proves_destruction_also_after_a_soft_deletion() {
    for softly in [false, true] {
        let store = Store::new().await;
        let ciphertext = store.encrypted().await;
        if softly {
            store.ask(Method::DELETE, &format!("keys/{NAME}/soft-delete"), json!({})).await.unwrap();
        }
        let stage = store.leaving().await;
        assert_eq!(exceptions_shown(&stage).await, "null");

        assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);

        assert!(store.server.keys().is_empty() && !store.decrypts(&ciphertext).await);
    }
}

#[tokio::test]
async fn a_key_in_a_store_that_keeps_deleted_keys_is_named_at_once() {
    let store = Store::new().await;
    store.server.keep_deleted();
    let stage = store.leaving().await;

    assert_eq!(stage.to_rest().await, ("Shredding".into(), "parked".into()));

    let why = stage.trouble().await;
    assert!(
        why.contains("key.soft_deleted") && why.contains("keys//Key/t-acme still exists, softly deleted"),
        "{why}"
    );
}
