//! Buckets in an S3 object store: created, read, emptied, removed, and surveyed.
//!
//! One [`S3`] serves one region. Requests are signed by `aws-sigv4` and sent path-style over `reqwest`. Invariant: a
//! bucket counts as absent only if the store answers `NoSuchBucket`, and as empty only if listings of versions and
//! unfinished uploads, made after the last removal, are empty.
//!
//! S3 has no idempotency keys and no epochs: calls read the state first, and tag the buckets that they create as the
//! last step. An empty, untagged bucket with a tenant's name is the result of an interrupted creation: it counts as
//! absent for creation and as present for the undo. See `docs/backends/objects.md` for observations on real stores.

mod bucket;
mod client;
mod contents;
mod empty;
mod locks;
mod scans;
mod settings;
mod tags;
mod tenant_resources;
mod xml;

pub use crate::s3::settings::{Account, Encryption, S3Target};

use super::SettingError;
use crate::s3::client::Client;
use engine::ActionError;
use tokio::time::Instant;
use workflows::platform::{CallMetadata, codes};

/// The object store of one region.
#[derive(Debug)]
pub struct S3 {
    target: S3Target,
    platform: Client,
    verifier: Option<Client>,
    scans: scans::Scans,
}

impl S3 {
    /// Creates the backend for `target`. Connects and reads secrets at the first call.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the field and the fix.
    pub fn connect(target: &S3Target) -> Result<Self, SettingError> {
        target.check()?;
        let http = crate::connection_settings::client(&target.endpoint, target.ca_file.as_deref())?;
        let client = |account: &Account, field| Client::new(http.clone(), target, account.clone(), field);
        Ok(Self {
            platform: client(&target.account, "account.secret_key_file"),
            verifier: target.verifier.as_ref().map(|account| client(account, "verifier.secret_key_file")),
            target: target.clone(),
            scans: scans::Scans::default(),
        })
    }

    /// Fails for another region.
    fn here(&self, region: &str) -> Result<(), ActionError> {
        if region == self.target.region {
            return Ok(());
        }
        let why = format!("this object store serves region {}, not {region}", self.target.region);
        Err(ActionError::permanent(codes::REFUSED, why))
    }
}

/// Returns the deadline of a call.
fn until(stamp: &CallMetadata) -> Instant {
    Instant::now() + stamp.deadline
}
