//! The settings of a service behind a hook.

use super::Signer;
use crate::TargetError;
use reqwest::{Certificate, Url};
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};
use workflows::duration;

/// A service that stands behind the name of a hook.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// Where requests are sent by POST: an `https` URL, or `http` to this machine itself.
    pub url: String,
    /// A file with certificates of authorities, as PEM. Default: those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The name of the key that signs, for the service to know which. With `secret_file`, or neither. Default none: requests are
    /// not signed.
    #[serde(default)]
    pub key_id: Option<String>,
    /// A file with the secret that signs, of at least 16 bytes. It is read at each use. Default none.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// How long it has, polling included, such as `10m`. Default: the call's own deadline, `30s`.
    #[serde(default, with = "duration::maybe")]
    pub deadline: Option<Duration>,
    /// How much of an answer is read, in bytes. Default 1 MiB.
    #[serde(default = "megabyte")]
    pub answer_limit_bytes: usize,
    /// Whether it answers the verb `probe`. One that does not is called again after a lost answer. Default true.
    #[serde(default = "yes")]
    pub probes: bool,
    /// Whether it answers the verb `dry_run`. Default false: it is not called for dry runs.
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
    /// The service at this URL with default settings.
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

    /// That each setting makes sense by itself; the URL, read.
    pub(super) fn check(&self) -> Result<Url, TargetError> {
        let wrong = |why: &str| TargetError::new("url", format!("{:?} {why}", self.url));
        let url =
            Url::parse(&self.url).map_err(|_| wrong("is no URL: write it like https://hooks.example/dns"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::new(
                "url",
                "holds a name or password: leave it out, and name a `secret_file`",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
        if url.scheme() != "https" && !(url.scheme() == "http" && here) {
            return Err(wrong("goes over the network in the clear: use https"));
        }
        if self.deadline.is_some_and(|deadline| deadline < Duration::from_millis(100)) {
            return Err(TargetError::new("deadline", "use at least `1s`, or leave it out"));
        }
        if self.answer_limit_bytes == 0 {
            return Err(TargetError::new("answer_limit_bytes", "0 would read no answer; use at least 1"));
        }
        Ok(url)
    }

    /// The authorities to trust in place of the system's, if they are named.
    pub(super) fn authorities(&self) -> Result<Option<Vec<Certificate>>, TargetError> {
        let Some(file) = &self.ca_file else { return Ok(None) };
        let unread = |e| TargetError::new("ca_file", format!("{} cannot be read: {e}", file.display()));
        let pem = std::fs::read(file).map_err(unread)?;
        let authorities = Certificate::from_pem_bundle(&pem).unwrap_or_default();
        if authorities.is_empty() {
            let why = format!("{} holds no certificate: write it as PEM", file.display());
            return Err(TargetError::new("ca_file", why));
        }
        Ok(Some(authorities))
    }

    /// What signs, if requests are to be signed.
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
            (Some(_), None) => {
                Err(TargetError::new("secret_file", "is missing beside `key_id`: name the file"))
            }
            (None, Some(_)) => {
                Err(TargetError::new("key_id", "is missing beside `secret_file`: name the key"))
            }
        }
    }
}
