//! TLS by the server itself, with a certificate that may be replaced while it runs.
//!
//! Invariant: whoever connects is shown a pair that belongs together. Files that hold no such pair change nothing, are said in the
//! log, and are counted; connections that are open never notice.

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

/// From when on its end is said in the log at every start, in days.
const RENEW_DAYS: i64 = 14;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

/// The certificate in force, and how it came to be.
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
    /// Of the files that were looked at last, whether they were taken or not.
    seen: [u8; 32],
}

impl Tls {
    /// What the settings name; nothing if they name none.
    ///
    /// A certificate that is over is said to be and taken: who works for the engine is not to stop for it.
    ///
    /// # Errors
    /// The setting at fault, and what to do.
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
            tracing::error!(ends = %pair.ends.to_rfc3339(), "the certificate is over: who verifies it turns away");
        } else if days < RENEW_DAYS {
            tracing::warn!(ends = %pair.ends.to_rfc3339(), days, "the certificate ends soon");
        }
        let stands = RwLock::new(InForce { pair, seen: files.digest() });
        let me =
            Self { settings: settings.clone(), stands, reads: Family::default(), left: Gauge::default() };
        registry.register(
            "tls_certificate_left_seconds",
            "How long the server's certificate is valid still; below zero once it is over",
            me.left.clone(),
        );
        registry.register(
            "tls_certificate_reads",
            "Changed certificates that were taken over, or refused for what was wrong with them",
            me.reads.clone(),
        );
        for outcome in [TAKEN, REFUSED] {
            _ = me.reads.get_or_create(&ByOutcome { outcome });
        }
        Ok(Some(me))
    }

    /// How the next handshake is made.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.stands.read().unwrap_or_else(PoisonError::into_inner).pair.config.clone()
    }

    /// Shows how long the certificate is valid.
    pub(crate) fn observe(&self, now: Timestamp) {
        let ends = self.stands.read().unwrap_or_else(PoisonError::into_inner).pair.ends;
        self.left.set((ends - utc(now)).num_seconds());
    }

    /// Takes over what the files hold, if it is something else than before and a pair. True if it was taken.
    ///
    /// # Errors
    /// What is wrong with it; told once for the same files.
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

    /// Takes over what the files hold, counts what became of it, and says it in the log.
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
                tracing::error!(why, "the certificate was not replaced: the one before stays");
            }
        }
    }
}

/// The moment as certificates have it.
fn utc(at: Timestamp) -> DateTime<Utc> {
    let millis = i64::try_from(at.0).ok();
    millis.and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::UNIX_EPOCH)
}

/// Values of `outcome`.
const TAKEN: &str = "taken";
const REFUSED: &str = "refused";
