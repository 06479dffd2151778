//! Buckets in a real object store: Ceph's gateway.

mod interrupted;
pub mod leaving;
mod locks;
mod making;
mod subject;

use backends::s3::{Account, Encryption, S3, S3Target};
use e2e::gateway::Gateway;
use std::{io::Write, path::PathBuf, time::Duration};
use store::Epoch;
use tempfile::NamedTempFile;
use workflows::platform::{Bucket, CallMetadata};

const REGION: &str = "eu-west";

/// A store as Tenure uses it, and the files with its secrets.
struct Stage {
    s3: S3,
    target: S3Target,
    _secrets: Vec<NamedTempFile>,
}

fn secret(text: &str) -> (NamedTempFile, PathBuf) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_owned();
    (file, path)
}

fn stage(gateway: &Gateway) -> Stage {
    staged(gateway, |_| {})
}

fn staged(gateway: &Gateway, change: impl FnOnce(&mut S3Target)) -> Stage {
    let account = |who: &str| {
        let (file, secret_key_file) = secret(gateway.env(&format!("{who}_SECRET")));
        let access_key_id = gateway.env(&format!("{who}_KEY")).to_owned();
        (file, Account { access_key_id, secret_key_file })
    };
    let ((one, platform), (two, verifier)) = (account("PLATFORM"), account("VERIFIER"));
    let mut target = S3Target {
        region: REGION.into(),
        endpoint: gateway.url().into(),
        signed_host: None,
        signing_region: "us-east-1".into(),
        location: None,
        account: platform,
        verifier: Some(verifier),
        encryption: Encryption::Recorded,
        kms_key: "{key}".into(),
        bypass_governance: false,
        ca_file: None,
        mark_prefix: "tenure.dev".into(),
    };
    change(&mut target);
    Stage { s3: S3::connect(&target).unwrap(), target, _secrets: vec![one, two] }
}

/// The metadata of a step's call at this epoch.
fn stamp(step: &str, epoch: u64) -> CallMetadata {
    CallMetadata {
        action: "test",
        step: step.into(),
        key: step.into(),
        epoch: Epoch(epoch),
        undo: false,
        deadline: Duration::from_secs(30),
        dry_run: false,
    }
}

fn bucket(tenant: &str) -> Bucket {
    let name = format!("t-{tenant}--{REGION}");
    Bucket { name, region: REGION.into(), key: format!("t-{tenant}"), versioned: true }
}
