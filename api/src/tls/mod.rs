//! TLS with a certificate that can be replaced while the server runs.
//!
//! Invariant: handshakes always use a certificate with its own key. Invalid files change nothing; they are logged and counted. Open connections are not
//! affected.

mod pair;
mod validity;

pub use pair::{CertificateFiles, CertificatePair};
pub use validity::expiry;

use crate::config::Tls as Settings;
use chrono::{DateTime, Utc};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use rustls::ServerConfig;
use std::sync::{Arc, PoisonError, RwLock};
use store::Timestamp;

/// Starts log a warning within this many days before the certificate expires.
const RENEW_DAYS: i64 = 14;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

/// The certificate in use, and its history.
#[derive(Debug)]
pub(crate) struct Tls {
    settings: Settings,
    stands: RwLock<InForce>,
    reads: Family<ByOutcome, Counter>,
    left: Gauge,
}

#[derive(Debug)]
struct InForce {
    pair: CertificatePair,
    /// The digest of the files at the last check, even if they were invalid.
    seen: [u8; 32],
}

impl Tls {
    /// Loads the configured certificate; `None` without one.
    ///
    /// An expired certificate is logged and used, so that executions continue to run.
    ///
    /// # Errors
    /// The invalid setting, and the remedy.
    pub(crate) fn of(
        settings: &Settings,
        registry: &mut Registry,
        now: Timestamp,
    ) -> Result<Option<Self>, String> {
        if !settings.is_on() {
            return Ok(None);
        }
        let files = CertificateFiles::read(settings)?;
        let (pair, now) = (CertificatePair::of(&files, settings)?, utc(now));
        let days = (pair.ends - now).num_days();
        if pair.ends <= now {
            tracing::error!(ends = %pair.ends.to_rfc3339(), "the certificate has expired: clients that verify it refuse to connect");
        } else if days < RENEW_DAYS {
            tracing::warn!(ends = %pair.ends.to_rfc3339(), days, "the certificate expires soon");
        }
        let stands = RwLock::new(InForce { pair, seen: files.digest() });
        let me =
            Self { settings: settings.clone(), stands, reads: Family::default(), left: Gauge::default() };
        registry.register(
            "tls_certificate_left_seconds",
            "Remaining validity of the server's certificate; negative after its expiry",
            me.left.clone(),
        );
        registry.register(
            "tls_certificate_reads",
            "Changed certificates that were loaded, or rejected as invalid",
            me.reads.clone(),
        );
        for outcome in [TAKEN, REFUSED] {
            _ = me.reads.get_or_create(&ByOutcome { outcome });
        }
        Ok(Some(me))
    }

    /// Returns the configuration of the next handshake.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.stands.read().unwrap_or_else(PoisonError::into_inner).pair.config.clone()
    }

    /// Reports the remaining validity of the certificate.
    pub(crate) fn observe(&self, now: Timestamp) {
        let ends = self.stands.read().unwrap_or_else(PoisonError::into_inner).pair.ends;
        self.left.set((ends - utc(now)).num_seconds());
    }

    /// Reloads the files if they have changed and match. Returns true if they were loaded.
    ///
    /// # Errors
    /// The error of the files; reported once for the same files.
    fn renew(&self, now: Timestamp) -> Result<bool, String> {
        let files = CertificateFiles::read(&self.settings);
        let seen = files.as_ref().map_or_else(|_| [0; 32], CertificateFiles::digest);
        {
            let mut stands = self.stands.write().unwrap_or_else(PoisonError::into_inner);
            if stands.seen == seen {
                return Ok(false);
            }
            stands.seen = seen;
        }
        let pair = CertificatePair::of(&files?, &self.settings)?.in_force(utc(now), &self.settings)?;
        self.stands.write().unwrap_or_else(PoisonError::into_inner).pair = pair;
        Ok(true)
    }

    /// Reloads the files, and counts and logs the result.
    pub(crate) fn look(&self, now: Timestamp) {
        match self.renew(now) {
            Ok(false) => {}
            Ok(true) => {
                let ends = self.stands.read().unwrap_or_else(PoisonError::into_inner).pair.ends;
                self.reads.get_or_create(&ByOutcome { outcome: TAKEN }).inc();
                tracing::info!(ends = %ends.to_rfc3339(), "the certificate was replaced");
            }
            Err(why) => {
                self.reads.get_or_create(&ByOutcome { outcome: REFUSED }).inc();
                tracing::error!(why, "the certificate was not replaced: the previous one stays in use");
            }
        }
    }
}

/// Converts a time to that of certificates.
fn utc(at: Timestamp) -> DateTime<Utc> {
    let millis = i64::try_from(at.0).ok();
    millis.and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::UNIX_EPOCH)
}

/// Values of the label `outcome`.
const TAKEN: &str = "taken";
const REFUSED: &str = "refused";
