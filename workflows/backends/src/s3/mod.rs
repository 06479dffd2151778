//! Buckets in an object store that speaks S3: made, read, emptied of all that they hold, removed, and looked for.
//!
//! One [`S3`] serves one region. Requests are signed by `aws-sigv4` and sent path-style over `reqwest`. Invariant: a bucket
//! counts as absent only when the store names it unknown (`NoSuchBucket`), and as empty only when listings of its versions and
//! of its unfinished uploads, made after the last removal, show none.
//!
//! S3 knows no idempotency keys and compares no epochs: these calls look before they change something, and mark what they
//! made by bucket tags, written last. A bucket without tags, empty and of a tenant's name, is one whose making was cut short:
//! it is not there for who makes it, and there for who undoes it. `docs/backends/objects.md` has what was seen of real stores.

mod bucket;
mod client;
mod contents;
mod empty;
mod locks;
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
}

impl S3 {
    /// The store that `target` describes. Connects at the first call, and reads secrets then.
    ///
    /// # Errors
    /// Which field of the settings is wrong, and what to do.
    pub fn connect(target: &S3Target) -> Result<Self, SettingError> {
        target.check()?;
        let http = crate::connection_settings::client(&target.endpoint, target.ca_file.as_deref())?;
        let client = |account: &Account, field| Client::new(http.clone(), target, account.clone(), field);
        Ok(Self {
            platform: client(&target.account, "account.secret_key_file"),
            verifier: target.verifier.as_ref().map(|account| client(account, "verifier.secret_key_file")),
            target: target.clone(),
        })
    }

    /// Refuses what is of another region.
    fn here(&self, region: &str) -> Result<(), ActionError> {
        if region == self.target.region {
            return Ok(());
        }
        let why = format!("this object store serves region {}, not {region}", self.target.region);
        Err(ActionError::permanent(codes::REFUSED, why))
    }
}

/// By when the target must have answered.
fn until(stamp: &CallMetadata) -> Instant {
    Instant::now() + stamp.deadline
}
