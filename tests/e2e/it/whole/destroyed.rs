//! A tenant is offboarded over HTTP, and its data is destroyed in four places at once: a bucket of Ceph, a key of SoftHSM, a LUKS
//! volume and a namespace of a qemu machine. Then another tenant has the same node, and policy requires more than its drives
//! support.

use super::{
    house::{House, TENURE},
    planted::{CLUSTER, FILES, Places, Planted, REGION, VOLUME},
};
use crate::drives::vm::NODE;
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};
use workflows::{
    destruction::{
        AssetType, Method, SanitisationOutcome, Technique,
        certificate::{CertificateEntry, Verification, verify},
    },
    signing::PublicKey,
};

const SITES: &str = "
regions: [{id: eu, jurisdiction: eu}]
clusters: [{id: west, region: eu, kind: kubernetes}]
";

fn wish(name: &str) -> Value {
    json!({
        "name": name,
        "tenant": { "tier": "research", "isolation": "dedicated", "data_residency": "eu-only",
                    "allow_preemption": true, "allow_gpu_sharing": false },
        "workspaces": [{ "name": "lab", "class": "research", "quotas": { "gpus": 1 } }],
        "entitlement": { "gpu_model": "H100", "gpus": 1, "region": REGION },
    })
}

/// Returns a policy with the minimum sanitisation method of drives.
fn drives_by(method: &str) -> Value {
    let minimum = json!({ "nvme": method, "ssd": "purge", "hdd": "purge", "gpu_memory": "clear", "memory": "clear", "firmware": "clear" });
    json!({ "sanitisation": { "minimum": minimum } })
}

async fn comes_and_leaves(house: &House, places: &Places, tenant: &'static str) -> Planted {
    house.done("/v1/tenants", wish(tenant)).await;
    let planted = places.plant(tenant).await;
    let leave =
        json!({ "tenant": tenant, "basis": "contract_end", "reference": "contract 7", "reason": "the end" });
    house.leaves(leave).await;
    planted
}

/// Policy requires a purge by default; qemu's drives support at most a clear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_of_a_tenant_is_gone_from_four_systems_and_the_rest_is_a_named_exception() {
    let Some(places) = Places::open() else { return };
    let nodes = format!("{NODE},96000,786432,1,H100\n");
    let house =
        House::open_in(&[places.token.library()], &places.targets(), SITES, &[(CLUSTER, "eu", &nodes)]).await;
    house.rule(4, &drives_by("clear")).await;

    let gone = comes_and_leaves(&house, &places, "acme").await;

    assert_eq!(places.found(&gone).await, [""; 0]);
    assert_eq!((places.drive_shows(), places.header_shows(&gone)), (0, 0));
    assert_eq!(house.staff.get(&format!("/v1/nodes/{NODE}")).await["state"], "free");
    let whole = house.certificate("acme").await;

    house.rule(5, &drives_by("purge")).await;
    let left = comes_and_leaves(&house, &places, "zeta").await;

    assert_eq!(
        places.found(&left).await,
        [""; 0],
        "key, bucket and volume are destroyed independently of the drives"
    );
    assert!(places.drive_shows() > 1_000, "the drive cannot be purged, and the scan still finds the secret");
    assert_eq!(places.header_shows(&left), 1, "its header is still on the drive, without a key");
    assert_eq!(house.staff.get(&format!("/v1/nodes/{NODE}")).await["state"], "quarantined");
    let excepted = house.certificate("zeta").await;

    let key = house.close();
    says_what_was_destroyed(&offline(&whole, &key), &gone);
    says_what_was_not(&offline(&excepted, &key), &left);
}

/// Verifies the certificate offline by the command line, and checks that a changed byte is refused.
fn offline(certificate: &[u8], key: &str) -> Verification {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str, bytes: &[u8]| {
        fs::write(dir.path().join(name), bytes).unwrap();
        dir.path().join(name)
    };
    let (file, issuer) = (at("certificate.json", certificate), at("issuer.pem", key.as_bytes()));
    let verified = |file: &Path| {
        let mut tenure = Command::new(TENURE);
        let tenure = tenure.env_clear().current_dir(dir.path()).args(["certificate", "verify"]);
        let said = tenure.arg(file).arg("--key").arg(&issuer).output().unwrap();
        (said.status.code(), String::from_utf8_lossy(&said.stdout).into_owned())
    };
    let (code, said) = verified(&file);
    assert!(code == Some(0) && said.contains(": valid"), "{code:?} {said}");
    let mut other = certificate.to_vec();
    let place = other.len() / 2;
    other[place] = if other[place] == b'A' { b'B' } else { b'A' };
    let (code, said) = verified(&at("changed.json", &other));
    assert!(code == Some(1) && said.contains("INVALID"), "{code:?} {said}");

    let found = verify(certificate, &PublicKey::all_from_pem(key.as_bytes()).unwrap());
    assert_eq!(found.problems, []);
    found
}

fn entry<'a>(of: &'a Verification, kind: AssetType, serial: Option<&str>) -> &'a CertificateEntry {
    let is = |entry: &&CertificateEntry| {
        entry.asset.kind == kind && (serial.is_none() || entry.asset.serial.as_deref() == serial)
    };
    of.assets.iter().find(is).unwrap_or_else(|| panic!("no {kind} {serial:?}"))
}

/// Returns the method, the technique with its version, and true if the entry counts.
fn done(entry: &CertificateEntry) -> (Option<Method>, Technique, String, bool) {
    let record = entry.record.as_ref().unwrap_or_else(|| panic!("{:?}", entry.asset.id));
    let tool = format!("{} {}", record.tool.name, record.tool.version);
    (record.method, record.technique, tool, record.passes().is_ok())
}

fn version(program: &str) -> String {
    let said = Command::new(program).arg("--version").output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap().to_owned()
}

fn says_what_was_destroyed(certificate: &Verification, gone: &Planted) {
    let tenure = format!("tenure {}", env!("CARGO_PKG_VERSION"));
    let of = |kind, serial| done(entry(certificate, kind, serial));
    let nvme = format!("nvme-cli {}", version("/usr/sbin/nvme"));

    assert_eq!(of(AssetType::Bucket, None), (None, Technique::DeleteAllVersions, tenure, true));
    let (method, technique, tool, counts) = of(AssetType::Key, None);
    assert_eq!((method, technique, counts), (None, Technique::KeyDestruction, true));
    assert!(tool.starts_with("SoftHSM 2."), "{tool}");
    let cryptsetup = format!("cryptsetup {}", version("/usr/sbin/cryptsetup"));
    assert_eq!(of(AssetType::Pv, Some(&gone.uuid)), (None, Technique::LuksErase, cryptsetup, true));
    for serial in [FILES, VOLUME] {
        let found = of(AssetType::Nvme, Some(serial));
        assert_eq!(found, (Some(Method::Clear), Technique::Format, nvme.clone(), true), "{serial}");
    }
    for entry in &certificate.assets {
        let (_, technique, tool, counts) = done(entry);
        assert!(counts && technique != Technique::Nothing && tool.len() > 3, "{:?}: {tool}", entry.asset.id);
    }
    let cover = certificate.certificate.as_ref().unwrap();
    assert_eq!(cover.exceptions, 0);
    assert!(cover.caveats.iter().any(|line| line.starts_with("LUKS volumes:")), "{:?}", cover.caveats);
}

/// The exceptions are the two drives and their node; everything else counts.
fn says_what_was_not(certificate: &Verification, left: &Planted) {
    let cover = certificate.certificate.as_ref().unwrap();
    assert!(cover.title.contains("EXCEPTIONS") && cover.exceptions > 0, "{}", cover.title);
    for serial in [FILES, VOLUME] {
        let entry = entry(certificate, AssetType::Nvme, Some(serial));
        let record = entry.record.as_ref().unwrap();
        let SanitisationOutcome::Failed { reason } = &record.result else { panic!("{record:?}") };
        assert!(reason.contains("no technique that policy accepts"), "{reason}");
    }
    for (kind, serial) in
        [(AssetType::Bucket, None), (AssetType::Key, None), (AssetType::Pv, Some(&*left.uuid))]
    {
        assert!(done(entry(certificate, kind, serial)).3, "{kind}");
    }
}
