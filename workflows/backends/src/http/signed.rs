//! Request signatures, by which a service authenticates Tenure and detects changes.
//!
//! The signed text and a test vector are in `docs/backends/hooks.md`.

use reqwest::Url;
use ring::{digest, hmac};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// The minimum length of a secret, in bytes.
const SECRET: usize = 16;

/// Signs requests. The secret is read from its file at each use, so that it can be replaced there.
#[derive(Clone, Debug)]
pub struct Signer {
    key_id: String,
    secret_file: PathBuf,
}

impl Signer {
    /// Creates a signer with a key name and a secret file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or the secret is too short.
    pub fn new(key_id: &str, secret_file: &Path) -> Result<Self, String> {
        read(secret_file)?;
        Ok(Self { key_id: key_id.to_owned(), secret_file: secret_file.to_owned() })
    }

    /// Returns the headers that sign a request. `at` is in seconds since 1970.
    pub(super) fn sign(
        &self,
        method: &str,
        url: &Url,
        at: u64,
        body: &[u8],
    ) -> Result<[(&'static str, String); 3], String> {
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let signature = signature(&read(&self.secret_file)?, method, &target, at, body);
        Ok([
            ("tenure-key-id", self.key_id.clone()),
            ("tenure-timestamp", at.to_string()),
            ("tenure-signature", signature),
        ])
    }
}

/// Returns the value of `Tenure-Signature`: `v1=` and the HMAC-SHA256 in hexadecimal. The signed text has five lines:
/// `v1`, method, path with query, timestamp, and the SHA-256 of the body in hexadecimal.
#[must_use]
pub fn signature(secret: &[u8], method: &str, target: &str, at: u64, body: &[u8]) -> String {
    let body = hex(digest::digest(&digest::SHA256, body).as_ref());
    let text = format!("v1\n{method}\n{target}\n{at}\n{body}");
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    format!("v1={}", hex(hmac::sign(&key, text.as_bytes()).as_ref()))
}

/// Reads the secret without a trailing newline.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |e| format!("the secret in {} cannot be read: {e}", file.display());
    let mut secret = std::fs::read(file).map_err(unreadable)?;
    while secret.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        secret.pop();
    }
    if secret.len() < SECRET {
        return Err(format!(
            "the secret in {} has less than {SECRET} bytes: draw a longer one",
            file.display()
        ));
    }
    Ok(secret)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::signature;

    /// The test vector in the documentation, which implementers of services use.
    #[test]
    fn the_documented_example_has_the_documented_signature() {
        let text = include_str!("../../../../docs/backends/hooks.md");
        let (secret, body) = (b"a secret of 16 bytes or more", br#"{"version":1}"#);

        let signed = signature(secret, "POST", "/hooks/dns?zone=a", 1_767_225_600, body);

        let example = text.lines().find_map(|line| line.strip_prefix("Tenure-Signature: ")).unwrap();
        assert_eq!(signed, example);
        assert_ne!(signature(secret, "POST", "/hooks/dns?zone=b", 1_767_225_600, body), example);
        assert_ne!(signature(secret, "POST", "/hooks/dns?zone=a", 1_767_225_601, body), example);
        assert_ne!(signature(secret, "GET", "/hooks/dns?zone=a", 1_767_225_600, body), example);
        assert_ne!(signature(secret, "POST", "/hooks/dns?zone=a", 1_767_225_600, b"{}"), example);
    }
}
