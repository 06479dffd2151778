//! The key of a simulated platform: everybody knows it, so what it signs proves nothing to anybody.

use async_trait::async_trait;
use std::sync::Arc;
use workflows::signing::{PublicKey, Signer, SigningKey};

/// Signs with a key that stands in the source.
#[derive(Debug)]
struct WellKnownKey;

#[async_trait]
impl Signer for WellKnownKey {
    async fn sign(&self, message: &[u8]) -> Result<(Vec<u8>, PublicKey), String> {
        SigningKey::from_seed(*b"the key of the simulated world!!")?.sign(message).await
    }
}

/// The signer of a simulated platform, until it is given another.
pub(super) fn simulated_signer() -> Arc<dyn Signer> {
    Arc::new(WellKnownKey)
}
