//! A certificate with its key, checked before use.

use super::validity;
use crate::config::Tls as Settings;
use chrono::{DateTime, Utc};
use rustls::{
    Error, InconsistentKeys, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use sha2::{Digest as _, Sha256};
use std::{fs, sync::Arc};

/// The content of both files.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// Reads both files.
    ///
    /// # Errors
    /// The invalid setting, and the reason.
    pub fn read(settings: &Settings) -> Result<Self, String> {
        let read = |setting: &str, file: &str| {
            fs::read(file).map_err(|error| format!("tls.{setting}: cannot read {file}: {error}"))
        };
        Ok(Self {
            chain: read("certificate_file", &settings.certificate_file)?,
            key: read("key_file", &settings.key_file)?,
        })
    }

    /// Returns a digest of the files, which does not reveal the key.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(u64::try_from(self.chain.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(&self.chain);
        digest.update(&self.key);
        digest.finalize().into()
    }
}

/// A certificate with its matching key.
#[derive(Clone, Debug)]
pub struct CertificatePair {
    /// The configuration of handshakes.
    pub(super) config: Arc<ServerConfig>,
    /// The expiry.
    pub ends: DateTime<Utc>,
}

impl CertificatePair {
    /// Parses the files.
    ///
    /// # Errors
    /// The invalid setting, and the remedy.
    pub fn of(files: &CertificateFiles, settings: &Settings) -> Result<Self, String> {
        let (chain_at, key_at) = (&settings.certificate_file, &settings.key_file);
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&files.chain).collect();
        let chain = chain.map_err(|error| format!("tls.certificate_file: {chain_at} is not PEM: {error}"))?;
        let Some(own) = chain.first() else {
            return Err(format!(
                "tls.certificate_file: {chain_at} has no certificate: write it as PEM, the server's own first"
            ));
        };
        let ends = validity::expiry(own)
            .ok_or_else(|| format!("tls.certificate_file: the first certificate of {chain_at} is invalid"))?;
        let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|error| {
            format!("tls.key_file: {key_at} has no private key: write it as PEM, without a password: {error}")
        })?;
        Ok(Self { config: Arc::new(config(chain, key, settings)?), ends })
    }

    /// Returns the pair if it is valid at `now`. Clients refuse an expired certificate.
    ///
    /// # Errors
    /// The certificate has expired, with the time.
    pub fn in_force(self, now: DateTime<Utc>, settings: &Settings) -> Result<Self, String> {
        if now < self.ends {
            return Ok(self);
        }
        let file = &settings.certificate_file;
        Err(format!(
            "tls.certificate_file: the certificate in {file} was valid until {}",
            self.ends.to_rfc3339()
        ))
    }
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    settings: &Settings,
) -> Result<ServerConfig, String> {
    let wrong = |error: Error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
            "tls.key_file: the key in {} does not match the first certificate in {}: replace both files by a matching pair",
            settings.key_file, settings.certificate_file
        ),
        other => format!("tls.key_file: {} cannot be used: {other}", settings.key_file),
    };
    let provider = Arc::new(ring::default_provider());
    // TLS 1.2 and 1.3 are always supported.
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(wrong)?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(wrong)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
