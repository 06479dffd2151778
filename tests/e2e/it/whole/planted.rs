//! A tenant's data in four places at once, a secret planted in each, and scans that share nothing with the destroying code.

use crate::{
    drives::vm::{NODE, Vm},
    objects::leaving::plant,
};
use e2e::{
    gateway::{Gateway, between},
    softhsm::Token,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};
use tempfile::TempDir;

/// Their names in the fleet; the node is the machine.
pub const CLUSTER: &str = "west";
pub const REGION: &str = "eu";
/// The tenant's drives, by serial number.
pub const FILES: &str = "FILES001";
pub const VOLUME: &str = "VOLUME01";

const IN_BUCKET: &str = "the price list of acme, as planted by a test";
const ON_DRIVE: &str = "the scratch files of acme";
const IN_VOLUME: &str = "the weights of acme, in the clear";
/// The tenant's own key of the volume.
const PASSPHRASE: &str = "known to acme";

/// The rest of the machine, simulated by an operator's program: files hold its boot state and its network.
const HOOK: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
asked=$(cat)
word() { printf %s "$asked" | sed -n "s/.*\"$1\":\"\([a-z]*\)\".*/\1/p"; }
done_with() { printf '{"status":"done","output":%s}\n' "$1"; }
case ${0##*/} in
describe) done_with "{\"environment\":\"$(cat into)\",\"network\":\"$(cat to)\",\"workloads\":0,\"serial\":\"SN-7\",\"nics\":[\"0c42:a1\"],
    \"gpus\":[{\"uuid\":\"GPU-7\",\"driver_version\":\"570.86\",\"scrub_on_free\":true,\"memory_bytes\":85899345920}]}" ;;
connect) word to >to; done_with '{}' ;;
boot) word into >into; done_with '{}' ;;
scrub_gpu) done_with '{"uuid":"GPU-7","bytes_total":85899345920,"bytes_covered":85899345920,"leftovers":0,"mismatches":0,"reset":true}' ;;
reset) done_with '{"memory_overwritten":true,"controllers_reset":true,"baseline":"measured 2026-01","differs":null}' ;;
esac
"#;

/// The places of a tenant's data.
pub struct Places {
    pub vm: Arc<Vm>,
    pub gateway: Gateway,
    pub token: Token,
    files: TempDir,
}

/// The planted data of a tenant.
pub struct Planted {
    tenant: &'static str,
    /// The volume's UUID.
    pub uuid: String,
    /// The bucket's open upload.
    upload: String,
}

impl Places {
    /// Opens separate stores and a machine; `None` if one of them cannot be installed.
    pub fn open() -> Option<Self> {
        let (vm, gateway, token) = (Vm::of_a_tenant()?, Gateway::start()?, Token::new()?);
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name);
        for folder in ["state", "known"] {
            fs::create_dir(at(folder)).unwrap();
        }
        for name in ["describe", "connect", "boot", "scrub_gpu", "reset"] {
            fs::write(at(name), HOOK).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in ["to", "into"] {
            fs::write(at(name), "tenant").unwrap();
        }
        for who in ["PLATFORM", "VERIFIER"] {
            fs::write(at(who), gateway.env(&format!("{who}_SECRET"))).unwrap();
        }
        Some(Self { vm, gateway, token, files })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Returns the target file with all of them.
    pub fn targets(&self) -> Value {
        let account = |who: &str| json!({ "access_key_id": self.gateway.env(&format!("{who}_KEY")), "secret_key_file": self.at(who) });
        let hook = |name: &str| (name.to_owned(), json!({ "program": self.at(name) }));
        let hooks = ["describe", "connect", "boot", "scrub_gpu", "reset"].map(hook);
        let mut drives = self.vm.settings(&self.at("state"));
        drives["known_keys"] = json!(self.at("known"));
        drives["hooks"] = Value::Object(hooks.into_iter().collect());
        json!({
            "objects": { REGION: { "s3": {
                "region": REGION, "endpoint": self.gateway.url(), "encryption": "recorded",
                "account": account("PLATFORM"), "verifier": account("VERIFIER"),
            } } },
            "keys": { "pkcs11": {
                "module": self.token.env("PKCS11_MODULE"), "token": self.token.env("PKCS11_TOKEN"),
                "pin_file": self.token.env("PKCS11_PIN_FILE"),
            } },
            "machines": { CLUSTER: { NODE: { "drives": drives } } },
        })
    }

    /// Plants a secret in each place, and checks that each scan finds it.
    pub async fn plant(&self, tenant: &'static str) -> Planted {
        let raw = self.gateway.raw("PLATFORM");
        let bucket = bucket(tenant);
        plant(&raw, &bucket, IN_BUCKET).await;
        let open = raw.ok(Method::GET, &format!("/{bucket}?uploads"), b"").await;
        let upload = between(&open, "<UploadId>", "</UploadId>").concat();
        assert!(!upload.is_empty(), "an upload is open: {open}");
        self.vm.fill(&self.vm.device(FILES), ON_DRIVE, 16);
        let uuid = self.volume(tenant);
        self.takes_out(tenant);
        let planted = Planted { tenant, uuid, upload };

        assert!(self.gateway.raw("VERIFIER").serves(IN_BUCKET).await && self.gateway.stores(IN_BUCKET));
        assert!(
            self.drive_shows() > 1_000 && self.opens(),
            "the secrets of the drive and of the opened volume"
        );
        assert_eq!(self.header_shows(&planted), 1);
        assert_eq!(self.unwrapped(), Some(32));
        planted
    }

    /// Makes a volume with a secret in it and closes it; returns its UUID, which names its key.
    fn volume(&self, tenant: &str) -> String {
        let device = self.vm.device(VOLUME);
        self.vm.says(&[
            "sh",
            "-c",
            &format!(
                "printf '{PASSPHRASE}' >/tmp/key; set -e; \
             cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
                 --subsystem tenure/{tenant}/workload {device} /tmp/key; \
             cryptsetup open --key-file /tmp/key {device} volume"
            ),
        ]);
        self.vm.fill("/dev/mapper/volume", IN_VOLUME, 4);
        let read =
            "dd if=/dev/mapper/volume bs=4096 count=1 iflag=direct status=none; cryptsetup close volume";
        assert!(self.vm.says(&["sh", "-c", read]).contains(IN_VOLUME), "it was written");
        let uuid = self.vm.says(&["cryptsetup", "luksUUID", &device]).trim().to_owned();
        fs::write(self.at("known").join(&uuid), PASSPHRASE).unwrap();
        uuid
    }

    /// Exports the wrapped data from the token by OpenSC's tool: from now on it may be anywhere.
    fn takes_out(&self, tenant: &str) {
        let (wrapped, key) = (self.at("wrapped"), format!("t-{tenant}"));
        let _of_another = fs::remove_file(&wrapped);
        let wrapped = wrapped.to_str().unwrap();
        let words = ["--read-object", "--type", "data", "--label", &key, "--output-file", wrapped];
        let said = self.token.tool(&words);
        assert!(
            fs::metadata(wrapped).is_ok_and(|file| file.len() == 40),
            "a key of 32 bytes, wrapped: {said}"
        );
    }

    /// Unwraps the data with the key that is in the token, and returns the length of the clear text.
    fn unwrapped(&self) -> Option<usize> {
        let (wrapped, back) = (self.at("wrapped"), self.at("back"));
        let _none_before = fs::remove_file(&back);
        let (wrapped, back) = (wrapped.to_str().unwrap(), back.to_str().unwrap());
        let words = [
            "--unwrap",
            "--mechanism",
            "AES-KEY-WRAP",
            "--input-file",
            wrapped,
            "--key-type",
            "AES:",
            "--application-id",
            "7071",
            "--application-label",
            "back",
            "--extractable",
        ];
        let _said = self.token.tool(&words);
        let object = ["--type", "secrkey", "--id", "7071"];
        let _said = self.token.tool(&[&["--read-object", "--output-file", back], &object[..]].concat());
        let _said = self.token.tool(&[&["--delete-object"], &object[..]].concat());
        fs::read(back).ok().map(|clear| clear.len())
    }

    /// Returns the number of lines of the raw drive that contain its secret.
    pub fn drive_shows(&self) -> usize {
        self.vm.scan(FILES, ON_DRIVE)
    }

    /// Returns the number of lines of the volume's raw drive that contain its name: it is only in the header.
    pub fn header_shows(&self, of: &Planted) -> usize {
        self.vm.scan(VOLUME, &of.uuid).min(1)
    }

    /// Returns true if the known key opens the volume.
    pub fn opens(&self) -> bool {
        let device = self.vm.device(VOLUME);
        let words = ["cryptsetup", "open", "--test-passphrase", "--key-file", "/tmp/key", &device];
        self.vm.tries(&words).0 == 0
    }

    /// Returns the planted secrets that an independent scan still finds, except those on drives.
    pub async fn found(&self, of: &Planted) -> Vec<&'static str> {
        let verifier = self.gateway.raw("VERIFIER");
        let bucket = bucket(of.tenant);
        let upload = format!("/{bucket}/open?uploadId={}", of.upload);
        let looks = [
            ("the bucket is listed", verifier.listings(&bucket).await.is_some()),
            ("a version or part is served", verifier.serves(IN_BUCKET).await),
            (
                "the open upload is there",
                self.gateway.raw("PLATFORM").send(Method::GET, &upload, &[], b"").await.0.is_success(),
            ),
            ("its bytes are in the store", self.gateway.stores(IN_BUCKET)),
            ("a key is in the token", !self.token.labels().is_empty()),
            ("what it wrapped is unwrapped", self.unwrapped().is_some()),
            ("the volume opens", self.opens()),
            ("the volume's secret is on the medium", self.vm.scan(VOLUME, IN_VOLUME) > 0),
        ];
        looks.into_iter().filter(|(_, is)| *is).map(|(what, _)| what).collect()
    }
}

fn bucket(tenant: &str) -> String {
    format!("t-{tenant}--{REGION}")
}
