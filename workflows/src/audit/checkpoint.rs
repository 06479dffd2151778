//! Checkpoints: what a chain's head was at a moment, signed, each bound to the one before.

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

/// What a signature of a checkpoint is of, so that it passes for nothing else.
pub(super) const CHECKPOINT_TYPE: &str = "application/vnd.tenure.audit-checkpoint+json";

/// The heads of all chains that have grown since the checkpoint before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Counts checkpoints, from 1.
    pub number: u64,
    /// The digest of the one before, `None` for the first.
    pub previous: Option<Digest>,
    /// When it was made, by the engine's clock.
    pub at: Moment,
    /// Entries sealed by then, of all chains.
    pub entries: u64,
    /// The digest of each head, sorted: who knows a head finds it, and nobody learns of another tenant.
    pub heads: Vec<Digest>,
}

/// A checkpoint and who signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedCheckpoint {
    /// What is signed.
    pub checkpoint: Checkpoint,
    /// By whom.
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
    /// What stands for it in a checkpoint.
    pub(super) fn commitment(&self) -> Digest {
        Digest::from_content("audit head", self)
    }
}

impl Checkpoint {
    /// What the next one calls it by.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_content("audit checkpoint", self)
    }
}

impl SealedCheckpoint {
    pub(super) fn key(number: u64) -> String {
        format!("{number:020}")
    }

    /// Whether `key` signed exactly this.
    #[must_use]
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        fits(CHECKPOINT_TYPE, &self.checkpoint, &self.by, key)
    }
}

/// Signs content of a type.
///
/// # Errors
/// The signer's words.
pub(super) async fn sign(
    payload_type: &str,
    content: &impl Serialize,
    signer: &dyn Signer,
) -> Result<Signature, String> {
    let text = compact(&value(content));
    let (bytes, key) = signer.sign(&pae(payload_type, text.as_bytes())).await?;
    Ok(Signature::new(&key, &bytes))
}

/// Whether a signature is of this content by this key.
pub(super) fn fits(payload_type: &str, content: &impl Serialize, by: &Signature, key: &PublicKey) -> bool {
    let text = compact(&value(content));
    let bytes = STANDARD.decode(&by.sig);
    by.keyid == key.id() && bytes.is_ok_and(|bytes| key.verifies(&pae(payload_type, text.as_bytes()), &bytes))
}

/// Up to `limit` checkpoints in order, beginning after the number `after`.
///
/// # Errors
/// The store's.
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
