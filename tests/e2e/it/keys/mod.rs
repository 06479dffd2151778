//! Key stores: a fake Vault, and PKCS#11 with a real token.

mod pkcs11;
mod subject;
mod vault;

use std::time::Duration;
use store::Epoch;
use workflows::platform::{CallMetadata, TenantResource};

const TENANT: &str = "acme";
const NAME: &str = "t-acme";

fn stamp(step: &str, epoch: u64) -> CallMetadata {
    CallMetadata {
        action: "test",
        step: step.into(),
        key: step.into(),
        epoch: Epoch(epoch),
        undo: false,
        deadline: Duration::from_secs(20),
        dry_run: false,
    }
}

fn thing() -> TenantResource {
    TenantResource::new("keys", "", "Key", NAME)
}
