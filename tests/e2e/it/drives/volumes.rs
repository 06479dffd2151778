//! LUKS volumes that no key opens any more.

use super::{
    stamp,
    vm::{CLUSTER, NODE, Vm},
};
use backends::{
    drives::{DrivesTarget, LocalMachine},
    simulated::{LocalWorld, simulated_platform},
};
use engine::Action as _;
use std::{fs, sync::Arc};
use tests::actions::calls::Calls;
use workflows::platform::{Observer, ShredKey, TenantResources, codes};

const PLAIN: &str = "plaintext of acme, 7";

/// Both keys open it before and none after; the data was never readable without a key.
#[tokio::test]
async fn an_erased_volume_opens_with_none_of_its_earlier_keys() {
    let Some(vm) = Vm::from_drive() else { return };
    let device = vm.device("LUKS0001");
    let opens =
        |key: &str| vm.tries(&["cryptsetup", "open", "--test-passphrase", "--key-file", key, &device]).0;
    vm.says(&["sh", "-c", &format!(
        "printf first >/tmp/1; printf second >/tmp/2; set -e; \
         cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --subsystem tenure/acme {device} /tmp/1; \
         cryptsetup luksAddKey -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /tmp/1 {device} /tmp/2; \
         cryptsetup open --key-file /tmp/2 {device} volume"
    )]);
    vm.fill("/dev/mapper/volume", PLAIN, 4);
    let uuid = vm.says(&["cryptsetup", "luksUUID", &device]).trim().to_owned();
    let (state, keys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(keys.path().join(&uuid), "first").unwrap();
    let target = DrivesTarget { known_keys: Some(keys.path().into()), ..vm.target(state.path()) };
    let machine = Arc::new(LocalMachine::connect(CLUSTER, NODE, target).unwrap());

    let found = machine.survey("storage", "acme", Observer::Platform, &stamp("survey")).await.unwrap();
    assert_eq!(found.iter().map(|seen| seen.uid.as_str()).collect::<Vec<_>>(), [uuid.as_str()]);
    assert_eq!(machine.survey("storage", "zeta", Observer::Platform, &stamp("survey")).await.unwrap(), []);
    let thing = found[0].thing.clone();
    let open = machine.remove(&thing, &uuid, &stamp("open")).await.unwrap_err();
    assert_eq!(open.code, codes::NODE_BUSY, "the kernel has the key of an open volume: {open}");
    vm.says(&["cryptsetup", "close", "volume"]);
    assert_eq!((opens("/tmp/1"), opens("/tmp/2")), (0, 0));
    assert!(
        !machine.undecryptable(&thing, &stamp("try")).await.unwrap().held,
        "decryptable before it is erased"
    );

    let mut platform = simulated_platform(Arc::new(LocalWorld::new()));
    platform.tenant_resources = machine.clone();
    let shred = ShredKey { thing: thing.clone(), tenant: "acme".into(), uid: uuid.clone(), kept: Vec::new() };
    let shredded = shred.run(&platform, &Calls::new().await.next("ShredKey", false)).await.unwrap();

    assert!(shredded.decrypt_fails, "{shredded:?}");
    let said = "has 0 key slots; the known key opened it before, and does not open it now";
    assert!(shredded.transcript.contains(said), "{}", shredded.transcript);
    assert!(opens("/tmp/1") != 0 && opens("/tmp/2") != 0);
    assert_eq!(machine.read_resource(&thing, Observer::Verifier, &stamp("look")).await.unwrap(), None);
    assert_eq!(vm.scan("LUKS0001", PLAIN), 0);
    assert!(vm.scan("LUKS0001", &uuid) > 0, "the scan read the right file");
}
