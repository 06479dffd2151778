//! Checkpoints: the signed heads of chains at one time, each linked to the previous checkpoint.

use super::chain::{ChainHead, parse};
use crate::signing::{
    Digest, Moment, PublicKey, Signer,
    canonical::{compact, value},
    dsse::{Signature, pae},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::{Error, Page, Store};

/// The type of the signed content. It prevents the use of the signature for other content.
pub(super) const CHECKPOINT_TYPE: &str = "application/vnd.tenure.audit-checkpoint+json";

/// The heads of all chains that have grown since the previous checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The number of the checkpoint, from 1.
    pub number: u64,
    /// The digest of the previous checkpoint. `None` for the first.
    pub previous: Option<Digest>,
    /// The time, by the engine's clock.
    pub at: Moment,
    /// The number of entries in all chains at that time.
    pub entries: u64,
    /// The sorted digests of the heads. A reader who has a head finds it, and other tenants stay hidden.
    pub heads: Vec<Digest>,
}

/// A checkpoint with its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedCheckpoint {
    /// The signed content.
    pub checkpoint: Checkpoint,
    /// The signature.
    pub by: Signature,
}

impl Entity for SealedCheckpoint {
    const COLLECTION: &'static str = "audit-checkpoints";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        Self::key(self.checkpoint.number)
    }
}

impl ChainHead {
    /// Returns the digest that represents the head in a checkpoint.
    pub(super) fn commitment(&self) -> Digest {
        Digest::from_content("audit head", self)
    }
}

impl Checkpoint {
    /// Returns the digest that the next checkpoint links to.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_content("audit checkpoint", self)
    }
}

impl SealedCheckpoint {
    pub(super) fn key(number: u64) -> String {
        format!("{number:020}")
    }

    /// Returns true if `key` signed this content.
    #[must_use]
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        fits(CHECKPOINT_TYPE, &self.checkpoint, &self.by, key)
    }
}

/// Signs content of a type.
///
/// # Errors
/// The error of the signer.
pub(super) async fn sign(
    payload_type: &str,
    content: &impl Serialize,
    signer: &dyn Signer,
) -> Result<Signature, String> {
    let text = compact(&value(content));
    let (bytes, key) = signer.sign(&pae(payload_type, text.as_bytes())).await?;
    Ok(Signature::new(&key, &bytes))
}

/// Returns true if the signature is a signature of this content by this key.
pub(super) fn fits(payload_type: &str, content: &impl Serialize, by: &Signature, key: &PublicKey) -> bool {
    let text = compact(&value(content));
    let bytes = STANDARD.decode(&by.sig);
    by.keyid == key.id() && bytes.is_ok_and(|bytes| key.verifies(&pae(payload_type, text.as_bytes()), &bytes))
}

/// Returns up to `limit` checkpoints in order, after the number `after`.
///
/// # Errors
/// The errors of the store.
pub async fn checkpoints(
    store: &dyn Store,
    after: Option<u64>,
    limit: usize,
) -> Result<Page<SealedCheckpoint, u64>, Error> {
    let after = after.map(SealedCheckpoint::key);
    let page = store.documents(SealedCheckpoint::COLLECTION, "", after.as_deref(), limit).await?;
    let items: Vec<SealedCheckpoint> = page.items.iter().map(parse).collect::<Result<_, _>>()?;
    let next = items.last().filter(|_| page.next.is_some()).map(|last| last.checkpoint.number);
    Ok(Page { items, next })
}
