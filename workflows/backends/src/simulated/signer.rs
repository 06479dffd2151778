//! The signing key of a simulated platform. It is public, so its signatures prove nothing.

use async_trait::async_trait;
use std::sync::Arc;
use workflows::signing::{PublicKey, Signer, SigningKey};

/// Signs with a key from the source code.
#[derive(Debug)]
struct WellKnownKey;

#[async_trait]
impl Signer for WellKnownKey {
    async fn sign(&self, message: &[u8]) -> Result<(Vec<u8>, PublicKey), String> {
        SigningKey::from_seed(*b"the key of the simulated world!!")?.sign(message).await
    }
}

/// Returns the default signer of a simulated platform.
pub(super) fn simulated_signer() -> Arc<dyn Signer> {
    Arc::new(WellKnownKey)
}
