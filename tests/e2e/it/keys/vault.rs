//! Tenants' keys in Vault's transit engine. A fake server answers: no distribution packages Vault.

use super::{
    NAME, TENANT, stamp,
    subject::{Behind, KeysOf},
    thing,
};
use backends::vault::{Vault, VaultTarget};
use e2e::excuses::holds;
use engine::Class;
use reqwest::{Client, Method};
use std::{collections::BTreeSet, fs, io::Write, path::Path, sync::Arc, time::Duration};
use tempfile::NamedTempFile;
use tests::{
    kit::{
        self,
        proxy::{Asked, Proxy},
    },
    servers::vault::{Rights, StandIn},
};
use workflows::platform::{CallMetadata, Keys, Observer, TenantResources, WayBack, codes};

const MARK: &str = "tenure/keys/t-acme";

fn token(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

struct Stage {
    server: StandIn,
    vault: Vault,
    target: VaultTarget,
    token: NamedTempFile,
    _others: Vec<NamedTempFile>,
}

async fn stage() -> Stage {
    let tokens = [("platform", Rights::All), ("verifier", Rights::Read), ("outsider", Rights::Nothing)];
    let server = StandIn::start(&tokens).await.unwrap();
    let [platform, verifier, outsider] = ["platform", "verifier", "outsider"].map(token);
    let path = |file: &NamedTempFile| file.path().to_owned();
    let target = VaultTarget {
        endpoint: server.url(),
        namespace: None,
        mount: "transit".into(),
        marks_mount: "secret".into(),
        marks_path: "tenure/keys".into(),
        token_file: path(&platform),
        verifier_token_file: Some(path(&verifier)),
        outsider_token_file: Some(path(&outsider)),
        ca_file: None,
    };
    let vault = Vault::connect(&target).unwrap();
    Stage { server, vault, target, token: platform, _others: vec![verifier, outsider] }
}

impl Stage {
    /// The same Vault with other settings.
    fn with(&self, change: impl FnOnce(&mut VaultTarget)) -> Vault {
        let mut target = self.target.clone();
        change(&mut target);
        Vault::connect(&target).unwrap()
    }
}

/// S82. The key is not exportable, and its destruction is final: old ciphertext cannot be decrypted any more.
#[tokio::test]
async fn a_key_is_created_with_safe_settings_and_decrypts_nothing_after_its_destruction() {
    let on = stage().await;
    let (one, off) = (stamp("one", 1), stamp("offboard", 1));
    on.vault.create(NAME, TENANT, &CallMetadata { dry_run: true, ..one.clone() }).await.unwrap();
    assert_eq!(on.server.keys(), Vec::<String>::new());
    on.vault.create(NAME, TENANT, &one).await.unwrap();
    on.vault.create(NAME, TENANT, &one).await.unwrap();
    let (found, safety) = on.vault.read(NAME, &one).await.unwrap().unwrap();
    assert_eq!((found.tenant.as_str(), found.step.as_str()), (TENANT, "one"));
    assert!(safety.is_safe(), "{safety:?}");
    let probe = on.vault.probe_isolation(TENANT, &one).await.unwrap();
    assert!(probe.held, "{}", probe.transcript);
    let alive = on.vault.undecryptable(&thing(), &one).await.unwrap();
    assert!(!alive.held && alive.transcript.contains("succeeded"), "{}", alive.transcript);

    let surveyed = on.vault.survey("keys", TENANT, Observer::Verifier, &off).await.unwrap();
    assert_eq!((surveyed.len(), &surveyed[0].uid), (1, &found.uid));
    on.vault.remove(&thing(), &found.uid, &CallMetadata { dry_run: true, ..off.clone() }).await.unwrap();
    assert_eq!(on.server.keys(), [NAME]);
    on.vault.remove(&thing(), &found.uid, &off).await.unwrap();
    on.vault.remove(&thing(), &found.uid, &off).await.unwrap();

    assert_eq!(on.server.keys(), Vec::<String>::new());
    assert_eq!(on.vault.read_resource(&thing(), Observer::Verifier, &off).await.unwrap(), None);
    let dead = on.vault.undecryptable(&thing(), &off).await.unwrap();
    assert!(dead.held && dead.transcript.contains("kept since before"), "{}", dead.transcript);
    assert!(dead.transcript.contains("encryption key not found"), "{}", dead.transcript);
}

/// Calls the fake without the backend, as an operator would.
async fn operator(on: &Stage, method: Method, path: &str, body: serde_json::Value) -> serde_json::Value {
    let client = Client::builder().no_proxy().build().unwrap();
    let ask = client.request(method, format!("{}/v1/transit/{path}", on.server.url()));
    let answer = ask.header("x-vault-token", "platform").json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default()
}

/// A backup whose flags were cleared before its restore: the key looks as if it had never left, and decrypts the old data.
#[tokio::test]
async fn an_imported_saved_or_restored_key_is_reported_whatever_its_present_settings() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::{Value, json};
    let on = stage().await;
    on.vault.create(NAME, TENANT, &stamp("one", 1)).await.unwrap();
    let ways = async || {
        let (found, safety) = on.vault.read(NAME, &stamp("one", 1)).await.unwrap().unwrap();
        let surveyed = on.vault.survey("keys", TENANT, Observer::Platform, &stamp("one", 1)).await.unwrap();
        assert_eq!(surveyed[0].key_safety(), safety, "{found:?}");
        safety.can_come_back.into_iter().collect::<Vec<_>>()
    };
    let config = format!("keys/{NAME}/config");
    let allow = json!({ "exportable": true, "allow_plaintext_backup": true, "deletion_allowed": true });

    operator(&on, Method::POST, &config, allow).await;
    assert_eq!(ways().await, [WayBack::BackupAllowed, WayBack::Exportable]);
    let taken = operator(&on, Method::GET, &format!("backup/{NAME}"), json!({})).await;
    assert_eq!(ways().await, [WayBack::BackedUp, WayBack::BackupAllowed, WayBack::Exportable]);

    let text = STANDARD.decode(taken["data"]["backup"].as_str().unwrap()).unwrap();
    let mut backup: Value = serde_json::from_slice(&text).unwrap();
    backup["policy"]["exportable"] = json!(false);
    backup["policy"]["allow_plaintext_backup"] = json!(false);
    on.server.vanish(NAME);
    let body = json!({ "backup": STANDARD.encode(backup.to_string()) });
    operator(&on, Method::POST, &format!("restore/{NAME}"), body).await;
    assert_eq!(ways().await, [WayBack::Restored, WayBack::BackedUp]);

    on.server.vanish(NAME);
    let material = json!({ "ciphertext": STANDARD.encode([7; 32]), "exportable": false });
    operator(&on, Method::POST, &format!("keys/{NAME}/import"), material).await;
    assert_eq!(ways().await, [WayBack::Imported]);
}

#[tokio::test]
async fn a_soft_deleted_key_is_deleted_for_good_or_named() {
    let on = stage().await;
    let off = stamp("offboard", 1);
    on.vault.create(NAME, TENANT, &stamp("one", 1)).await.unwrap();
    operator(&on, Method::DELETE, &format!("keys/{NAME}/soft-delete"), serde_json::json!({})).await;
    let there = on.vault.read_resource(&thing(), Observer::Verifier, &off).await.unwrap().unwrap();
    assert!(there.terminating, "it can be restored");

    on.vault.remove(&thing(), &there.uid, &off).await.unwrap();

    assert_eq!(on.vault.read_resource(&thing(), Observer::Verifier, &off).await.unwrap(), None);
    assert!(on.vault.undecryptable(&thing(), &off).await.unwrap().held);
}

/// As an undo it also removes its label; no trace is left of a key that never encrypted anything.
#[tokio::test]
async fn an_undo_removes_only_its_own_key_and_mark() {
    let on = stage().await;
    let undo = CallMetadata { undo: true, ..stamp("one", 1) };
    on.vault.create(NAME, TENANT, &stamp("one", 1)).await.unwrap();
    let (found, _) = on.vault.read(NAME, &undo).await.unwrap().unwrap();
    assert!(found.may_be_removed(TENANT, &undo) && on.server.metadata(MARK).is_some());
    assert!(!found.may_be_removed(TENANT, &CallMetadata { undo: true, ..stamp("two", 1) }));

    on.vault.destroy(NAME, &found, &undo).await.unwrap();

    assert_eq!((on.server.keys().len(), on.server.metadata(MARK)), (0, None));
    on.vault.create(NAME, TENANT, &stamp("one", 2)).await.unwrap();
    let late = on.vault.destroy(NAME, &found, &stamp("two", 1)).await.unwrap_err();
    assert_eq!(late.code, codes::OBJECT_CHANGED, "another key of that name");
    assert_eq!(on.vault.create(NAME, TENANT, &stamp("one", 1)).await.unwrap_err().code, codes::FENCED);
}

#[tokio::test]
async fn a_copyable_key_is_reported_and_a_key_without_a_mark_belongs_to_no_tenant() {
    let on = stage().await;
    on.server.plant(NAME, true);

    on.vault.create(NAME, TENANT, &stamp("one", 1)).await.unwrap();

    let (found, safety) = on.vault.read(NAME, &stamp("one", 1)).await.unwrap().unwrap();
    assert_eq!(safety.can_come_back, BTreeSet::from([WayBack::Exportable]));
    assert_eq!((found.tenant.as_str(), on.server.metadata(MARK)), ("", None));
}

/// Only Vault's own answer for absence counts: not a wrong path, a proxy, a seal, or missing rights.
#[tokio::test]
async fn only_a_confirmed_absence_counts_as_absence() {
    let on = stage().await;
    let one = stamp("one", 1);
    on.vault.create(NAME, TENANT, &one).await.unwrap();
    let wrong_mount = on.with(|target| target.mount = "elsewhere".into());
    let away = on.with(|target| target.endpoint = "http://127.0.0.1:1".into());
    let outsider = on.with(|target| target.token_file = target.outsider_token_file.clone().unwrap());

    for (vault, class, code) in [
        (&wrong_mount, Class::Permanent, codes::UNSUPPORTED),
        (&away, Class::Transient, codes::UNAVAILABLE),
        (&outsider, Class::Permanent, codes::DENIED),
    ] {
        let error = vault.read(NAME, &one).await.unwrap_err();
        assert_eq!((error.class, error.code.as_str()), (class, code), "{}", error.message);
        let error = vault.undecryptable(&thing(), &one).await.unwrap_err();
        assert_eq!(error.code, code, "a failure proves nothing: {}", error.message);
    }
    on.server.seal(true);
    let error = on.vault.read(NAME, &one).await.unwrap_err();
    assert_eq!((error.class, error.code.as_str()), (Class::Transient, codes::UNAVAILABLE));
    assert!(error.message.contains("sealed"), "{}", error.message);
    on.server.seal(false);
    assert!(on.vault.read(NAME, &one).await.unwrap().is_some());
    let blind = on.with(|target| target.verifier_token_file = None);
    let refused = blind.read_resource(&thing(), Observer::Verifier, &one).await.unwrap_err();
    assert!(refused.message.contains("verifier_token_file"), "{}", refused.message);
}

#[tokio::test]
async fn a_renewed_token_is_used_at_the_next_call_and_is_never_shown() {
    let on = stage().await;
    on.vault.create(NAME, TENANT, &stamp("one", 1)).await.unwrap();
    on.server.only_token("renewed");
    let denied = on.vault.read(NAME, &stamp("one", 1)).await.unwrap_err();
    assert_eq!(denied.code, codes::DENIED);
    assert!(!format!("{:?} {denied:?}", on.vault).contains("\"platform\""));

    write(on.token.path(), "renewed\n");

    assert!(on.vault.read(NAME, &stamp("one", 1)).await.unwrap().is_some());
    write(on.token.path(), "");
    let empty = on.vault.read(NAME, &stamp("one", 1)).await.unwrap_err();
    assert!(
        empty.message.contains("token_file: ") && empty.message.contains("is empty"),
        "{}",
        empty.message
    );
}

#[tokio::test]
async fn each_namespace_has_its_own_keys() {
    let on = stage().await;
    let (one, other) = (stamp("one", 1), on.with(|target| target.namespace = Some("teams/ml".into())));
    on.vault.create(NAME, TENANT, &one).await.unwrap();

    assert_eq!(other.read(NAME, &one).await.unwrap(), None);
    assert_eq!(other.survey("keys", TENANT, Observer::Platform, &one).await.unwrap(), vec![]);
    other.create(NAME, TENANT, &one).await.unwrap();

    assert_eq!(on.server.keys(), [NAME, "teams/ml:t-acme"]);
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

impl Behind for Arc<StandIn> {
    fn there(&self, name: &str) -> bool {
        self.keys().iter().any(|key| key == name)
    }

    fn vanish(&self, name: &str) {
        StandIn::vanish(self, name);
    }
}

/// Making a key takes several calls. The lost call is the creation itself, as it decides the outcome.
fn changes(asked: &Asked) -> bool {
    let key = asked.target.contains("/transit/keys/") && !asked.target.ends_with("/config");
    key && asked.method != Method::GET
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_vault_fulfil_the_contract_of_backends() {
    let Stage { server, target, token, _others, .. } = stage().await;
    let client = Client::builder().no_proxy().build().unwrap();
    let proxy = Proxy::with(&server.url(), client, changes).await.unwrap();
    let vault = Vault::connect(&VaultTarget { endpoint: proxy.url(), ..target }).unwrap();
    // Transit reports the creation time of a key in seconds.
    let apart = Duration::from_millis(1_010);
    let subject = KeysOf::new("vault (a stand-in)", vault, Arc::new(server), Some(proxy), apart);

    holds(&kit::run(&subject).await);
    drop(token);
}

/// After an interruption at any of its calls, a repeat completes a creation, and a repeat completes a destruction.
#[tokio::test]
async fn a_repeat_completes_the_work_whichever_call_was_the_last() {
    let Stage { server, target, .. } = &stage().await;
    let undo = CallMetadata { undo: true, ..stamp("one", 1) };
    for last in 1..9 {
        let proxy = Proxy::before(&server.url()).await.unwrap();
        let vault = Vault::connect(&VaultTarget { endpoint: proxy.url(), ..target.clone() }).unwrap();
        for n in 0..last {
            // The proxy goes down after the next call that can change something.
            proxy.trouble(kit::Trouble::HalfDone).await.unwrap();
            let broken = vault.create(NAME, TENANT, &stamp("one", 1)).await;
            assert!(broken.as_ref().is_err_and(|e| e.class != Class::Permanent) || n > 0, "{broken:?}");
            proxy.trouble(kit::Trouble::Calm).await.unwrap();
        }
        vault.create(NAME, TENANT, &stamp("one", 1)).await.unwrap();
        let (found, _) = vault.read(NAME, &undo).await.unwrap().unwrap();
        assert_eq!((found.tenant.as_str(), found.step.as_str()), (TENANT, "one"));
        proxy.trouble(kit::Trouble::HalfDone).await.unwrap();
        let _broken_off = vault.destroy(NAME, &found, &undo).await;
        proxy.trouble(kit::Trouble::Calm).await.unwrap();
        vault.destroy(NAME, &found, &undo).await.unwrap();
        assert_eq!((server.keys().len(), server.metadata(MARK)), (0, None));
    }
}
