//! Settings of a hook that calls a service.

use super::Signer;
use crate::TargetError;
use reqwest::{Certificate, Url};
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};
use workflows::duration;

/// A hook that calls a service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// The address for POST requests: an `https` URL, or `http` for the local machine.
    pub url: String,
    /// A PEM file with certificate authorities. Default: those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The name of the signing key, sent to the service. Requires `secret_file`. Default: none; requests are not
    /// signed.
    #[serde(default)]
    pub key_id: Option<String>,
    /// A file with the signing secret of at least 16 bytes. It is read at each use. Default: none.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// The time for an answer, including polling, such as `10m`. Default: the deadline of the call, `30s`.
    #[serde(default, with = "duration::maybe")]
    pub deadline: Option<Duration>,
    /// The largest answer that is read, in bytes. Default 1 MiB.
    #[serde(default = "megabyte")]
    pub answer_limit_bytes: usize,
    /// True if the service implements the verb `probe`. If false, the service is called again after a lost answer.
    /// Default true.
    #[serde(default = "yes")]
    pub probes: bool,
    /// True if the service implements the verb `dry_run`. If false, dry runs do not call it. Default false.
    #[serde(default)]
    pub dry_runs: bool,
}

fn megabyte() -> usize {
    1 << 20
}

fn yes() -> bool {
    true
}

impl HttpTarget {
    /// Creates the settings for a URL, with defaults.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            ca_file: None,
            key_id: None,
            secret_file: None,
            deadline: None,
            answer_limit_bytes: megabyte(),
            probes: true,
            dry_runs: false,
        }
    }

    /// Checks each setting by itself and returns the parsed URL.
    pub(super) fn check(&self) -> Result<Url, TargetError> {
        let wrong = |why: &str| TargetError::new("url", format!("{:?} {why}", self.url));
        let url = Url::parse(&self.url)
            .map_err(|_| wrong("is not a URL: write it like https://hooks.example/dns"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::new("url", "has a name or password: remove it, and set `secret_file`"));
        }
        let host = url.host_str().unwrap_or_default();
        let here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
        if url.scheme() != "https" && !(url.scheme() == "http" && here) {
            return Err(wrong("would be sent unencrypted over the network: use https"));
        }
        if self.deadline.is_some_and(|deadline| deadline < Duration::from_millis(100)) {
            return Err(TargetError::new("deadline", "use at least `1s`, or remove the setting"));
        }
        if self.answer_limit_bytes == 0 {
            return Err(TargetError::new("answer_limit_bytes", "0 is not allowed; use at least 1"));
        }
        Ok(url)
    }

    /// Returns the configured certificate authorities, which replace the system's.
    pub(super) fn authorities(&self) -> Result<Option<Vec<Certificate>>, TargetError> {
        let Some(file) = &self.ca_file else { return Ok(None) };
        let unread = |e| TargetError::new("ca_file", format!("{} cannot be read: {e}", file.display()));
        let pem = std::fs::read(file).map_err(unread)?;
        let authorities = Certificate::from_pem_bundle(&pem).unwrap_or_default();
        if authorities.is_empty() {
            let why = format!("{} has no certificate: use a PEM file", file.display());
            return Err(TargetError::new("ca_file", why));
        }
        Ok(Some(authorities))
    }

    /// Returns the signer, if requests are signed.
    pub(super) fn signer(&self) -> Result<Option<Signer>, TargetError> {
        match (&self.key_id, &self.secret_file) {
            (None, None) => Ok(None),
            (Some(key_id), Some(file)) => {
                let plain = key_id.bytes().all(|b| b.is_ascii_graphic());
                if key_id.is_empty() || !plain {
                    return Err(TargetError::new(
                        "key_id",
                        "use letters, digits and punctuation, without spaces",
                    ));
                }
                Signer::new(key_id, file).map(Some).map_err(|why| TargetError::new("secret_file", why))
            }
            (Some(_), None) => Err(TargetError::new("secret_file", "is missing: `key_id` needs a file")),
            (None, Some(_)) => Err(TargetError::new("key_id", "is missing: `secret_file` needs a key id")),
        }
    }
}
