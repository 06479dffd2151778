//! Tenants' keys in a token, by PKCS#11: SoftHSM, which stores each object in a separate file.
//!
//! The library reads its token from the environment once for each process: each test here starts this program again for its
//! token part.

use super::{
    NAME, TENANT, stamp,
    subject::{Behind, KeysOf},
    thing,
};
use backends::pkcs11::{Pkcs11, Pkcs11Target};
use e2e::{
    excuses::holds,
    softhsm::{Token, files_inside, inside, labels_inside, tool},
};
use engine::Class;
use std::{fs, path::PathBuf, time::Duration};
use tests::kit;
use workflows::platform::{CallMetadata, Keys, Observer, TenantResources, WayBack, codes};

fn target() -> Pkcs11Target {
    let of = |name| inside(name).expect("this runs in a process with a token");
    Pkcs11Target {
        module: PathBuf::from(of("PKCS11_MODULE")),
        token: of("PKCS11_TOKEN"),
        pin_file: PathBuf::from(of("PKCS11_PIN_FILE")),
    }
}

/// S82. The key's file is deleted from the token, and no remaining key unwraps the data.
#[test]
fn a_destroyed_key_unwraps_nothing() {
    let Some(token) = Token::new() else { return };
    token.run("keys::pkcs11::a_destroyed_key_unwraps_nothing_in_a_separate_process");
    assert_eq!(token.labels(), Vec::<String>::new());
    assert_eq!(token.files(), 1, "the wrapped data stays as evidence, and nothing else");
}

#[tokio::test]
#[ignore = "started by another test, in a process with a token"]
async fn a_destroyed_key_unwraps_nothing_in_a_separate_process() {
    let hsm = Pkcs11::connect(&target()).unwrap();
    let (one, off) = (stamp("one", 1), stamp("offboard", 1));
    hsm.create(NAME, TENANT, &CallMetadata { dry_run: true, ..one.clone() }).await.unwrap();
    assert_eq!((hsm.read(NAME, &one).await.unwrap(), files_inside()), (None, 0));
    hsm.create("t-other", "other", &one).await.unwrap();
    hsm.create(NAME, TENANT, &one).await.unwrap();
    hsm.create(NAME, TENANT, &one).await.unwrap();
    let (found, safety) = hsm.read(NAME, &one).await.unwrap().unwrap();
    assert_eq!((found.tenant.as_str(), found.step.as_str()), (TENANT, "one"));
    assert!(safety.is_safe(), "{found:?}");
    assert_eq!((labels_inside().len(), files_inside()), (2, 4), "two keys, and what each wrapped");
    let probe = hsm.probe_isolation(TENANT, &one).await.unwrap();
    assert!(probe.held, "{}", probe.transcript);
    let alive = hsm.undecryptable(&thing(), &one).await.unwrap();
    assert!(!alive.held && alive.transcript.contains("key t-acme unwraps"), "{}", alive.transcript);

    let surveyed = hsm.survey("keys", TENANT, Observer::Verifier, &off).await.unwrap();
    assert_eq!((surveyed.len(), &surveyed[0].uid), (1, &found.uid));
    hsm.remove(&thing(), &found.uid, &CallMetadata { dry_run: true, ..off.clone() }).await.unwrap();
    assert_eq!(labels_inside().len(), 2);
    hsm.remove(&thing(), &found.uid, &off).await.unwrap();
    hsm.remove(&thing(), &found.uid, &off).await.unwrap();

    assert_eq!((labels_inside(), files_inside()), (vec!["t-other".to_owned()], 3));
    assert_eq!(hsm.read_resource(&thing(), Observer::Verifier, &off).await.unwrap(), None);
    let dead = hsm.undecryptable(&thing(), &off).await.unwrap();
    assert!(dead.held && dead.transcript.contains("none of the 1 keys"), "{}", dead.transcript);

    let undo = CallMetadata { undo: true, ..one.clone() };
    let (other, _) = hsm.read("t-other", &one).await.unwrap().unwrap();
    hsm.destroy("t-other", &other, &undo).await.unwrap();
    assert_eq!(files_inside(), 1);
}

/// Labels, epochs, namesakes and foreign keys, in one process with its own token.
#[test]
fn keys_of_others_are_not_touched_and_errors_of_a_token_have_a_class() {
    let Some(token) = Token::new() else { return };
    token.run("keys::pkcs11::keys_of_others_are_not_touched_in_a_separate_process");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test, in a process with a token"]
async fn keys_of_others_are_not_touched_in_a_separate_process() {
    let hsm = Pkcs11::connect(&target()).unwrap();
    let one = stamp("one", 5);
    let pin = target().pin_file;
    fs::write(&pin, "9999\n").unwrap();
    let error = hsm.read(NAME, &one).await.unwrap_err();
    assert_eq!((error.class, error.code.as_str()), (Class::Permanent, codes::DENIED), "{}", error.message);
    assert!(!error.message.contains("9999"));
    fs::write(&pin, "1234\n").unwrap();
    assert_eq!(hsm.read(NAME, &one).await.unwrap(), None);
    let made = tool(&["--keygen", "--key-type", "AES:32", "--label", NAME, "--id", "0a", "--extractable"]);
    assert_eq!(labels_inside(), [NAME], "{made}");
    hsm.create(NAME, TENANT, &one).await.unwrap();
    let (found, safety) = hsm.read(NAME, &one).await.unwrap().unwrap();
    assert_eq!((found.tenant.as_str(), safety.can_come_back.contains(&WayBack::Exportable)), ("", true));
    assert_eq!(found.uid, "unmarked-0a");
    hsm.destroy(NAME, &found, &one).await.unwrap();
    assert_eq!(labels_inside().len(), 0);

    let twins = (0..8).map(|n| {
        let (hsm, one) = (hsm.clone(), stamp(&format!("twin-{n}"), 5));
        tokio::spawn(async move { hsm.create(NAME, TENANT, &one).await })
    });
    for twin in twins.collect::<Vec<_>>() {
        twin.await.unwrap().unwrap();
    }
    assert_eq!(labels_inside().len(), 1, "eight parallel calls make one key");
    let (found, _) = hsm.read(NAME, &one).await.unwrap().unwrap();
    let fenced = hsm.create(NAME, TENANT, &CallMetadata { step: found.step.clone(), ..stamp("", 4) }).await;
    assert_eq!(fenced.unwrap_err().code, codes::FENCED);
    let stale = hsm.remove(&thing(), "another", &one).await.unwrap_err();
    assert_eq!((stale.code.as_str(), labels_inside().len()), (codes::OBJECT_CHANGED, 1));
    let nowhere = Pkcs11::connect(&Pkcs11Target { token: "none".into(), ..target() }).unwrap();
    let error = nowhere.read(NAME, &one).await.unwrap_err();
    assert_eq!((error.class, error.code.as_str()), (Class::Transient, codes::UNAVAILABLE));
}

/// Reads the token with OpenSC's tool.
struct Tool;

impl Behind for Tool {
    fn there(&self, name: &str) -> bool {
        labels_inside().iter().any(|label| label == name)
    }

    fn vanish(&self, name: &str) {
        let _gone_before = tool(&["--delete-object", "--type", "secrkey", "--label", name]);
    }
}

#[test]
fn keys_in_a_token_fulfil_the_contract_of_backends() {
    let Some(token) = Token::new() else { return };
    token.run("keys::pkcs11::token_keys_in_a_separate_process_fulfil_the_contract_of_backends");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test, in a process with a token"]
async fn token_keys_in_a_separate_process_fulfil_the_contract_of_backends() {
    let hsm = Pkcs11::connect(&target()).unwrap();
    let subject = KeysOf::new("pkcs11 (SoftHSM)", hsm, Tool, None, Duration::ZERO);

    holds(&kit::run(&subject).await);
}
