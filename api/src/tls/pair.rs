//! A certificate with its key, read and looked at before anybody is shown it.

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

/// What both files hold, byte by byte.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// Reads both.
    ///
    /// # Errors
    /// The setting at fault, and why.
    pub fn read(settings: &Settings) -> Result<Self, String> {
        let read = |setting: &str, file: &str| {
            fs::read(file).map_err(|error| format!("tls.{setting}: {file} cannot be read: {error}"))
        };
        Ok(Self {
            chain: read("certificate_file", &settings.certificate_file)?,
            key: read("key_file", &settings.key_file)?,
        })
    }

    /// Tells these files from others; what the key is does not follow from it.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(u64::try_from(self.chain.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(&self.chain);
        digest.update(&self.key);
        digest.finalize().into()
    }
}

/// A certificate with its key, which belong together.
#[derive(Clone, Debug)]
pub struct CertificatePair {
    /// How handshakes are made with it.
    pub(super) config: Arc<ServerConfig>,
    /// Until when it is valid.
    pub ends: DateTime<Utc>,
}

impl CertificatePair {
    /// The pair that these files hold.
    ///
    /// # Errors
    /// The setting at fault, and what to do.
    pub fn of(files: &CertificateFiles, settings: &Settings) -> Result<Self, String> {
        let (chain_at, key_at) = (&settings.certificate_file, &settings.key_file);
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&files.chain).collect();
        let chain = chain.map_err(|error| format!("tls.certificate_file: {chain_at} is no PEM: {error}"))?;
        let Some(own) = chain.first() else {
            return Err(format!(
                "tls.certificate_file: {chain_at} holds no certificate: write it as PEM, the server's own first"
            ));
        };
        let ends = validity::expiry(own).ok_or_else(|| {
            format!("tls.certificate_file: the first certificate of {chain_at} cannot be read")
        })?;
        let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|error| {
            format!(
                "tls.key_file: {key_at} holds no private key: write it as PEM, without a password: {error}"
            )
        })?;
        Ok(Self { config: Arc::new(config(chain, key, settings)?), ends })
    }

    /// The same, if it is valid at `now` still: who is shown one that is over turns away.
    ///
    /// # Errors
    /// When it was valid until.
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
            "tls.key_file: the key in {} is not that of the first certificate in {}: write both anew, as they belong together",
            settings.key_file, settings.certificate_file
        ),
        other => format!("tls.key_file: {} cannot be used: {other}", settings.key_file),
    };
    let provider = Arc::new(ring::default_provider());
    // TLS 1.2 and 1.3: there are no others.
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(wrong)?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(wrong)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
