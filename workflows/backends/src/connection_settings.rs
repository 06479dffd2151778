//! Shared by targets with secrets: reads secrets from files, builds an HTTP client, and reports invalid settings.

use std::{fs, path::Path};

/// An invalid setting of a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct SettingError {
    /// The path of the field.
    pub field: &'static str,
    /// The problem and the fix.
    pub why: String,
}

impl SettingError {
    pub(super) fn new(field: &'static str, why: impl std::fmt::Display) -> Self {
        Self { field, why: why.to_string() }
    }
}

/// Reads a secret from a file, without a trailing newline. It is read at each use, so that it can be replaced while the
/// server runs.
pub(super) fn secret(field: &'static str, path: &Path) -> Result<String, SettingError> {
    let text = fs::read_to_string(path).map_err(|e| {
        SettingError::new(
            field,
            format_args!("{} cannot be read: {e}; write the secret there", path.display()),
        )
    })?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(SettingError::new(
            field,
            format_args!("{} is empty; write the secret there", path.display()),
        ));
    }
    Ok(secret.to_owned())
}

/// Returns twelve random bytes in hexadecimal.
#[cfg(any(feature = "pkcs11", feature = "vault"))]
pub(super) fn random_id() -> String {
    use ring::rand::SecureRandom;
    let mut bytes = [0_u8; 12];
    // Without a random source TLS does not start either; the ids only have to differ.
    if ring::rand::SystemRandom::new().fill(&mut bytes).is_err() {
        bytes.fill_with(|| fastrand::u8(..));
    }
    hex(&bytes)
}

/// Returns an id derived from the parts, so that concurrent creators get the same id.
#[cfg(any(feature = "s3", feature = "vault"))]
pub(super) fn derived_id(parts: &[&str]) -> String {
    let mut whole = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        whole.update(part.as_bytes());
        whole.update(b"\n");
    }
    hex(whole.finish().as_ref()).chars().take(24).collect()
}

/// Formats bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns an HTTP client for the target at `endpoint`. It follows no redirects, because they would send the secret to
/// another host.
#[cfg(any(feature = "s3", feature = "vault"))]
pub(super) fn client(endpoint: &str, ca_file: Option<&Path>) -> Result<reqwest::Client, SettingError> {
    use reqwest::Certificate;
    let known = endpoint.starts_with("https://") || endpoint.starts_with("http://");
    if !known || reqwest::Url::parse(endpoint).is_err() {
        let why = format!("{endpoint:?} is no address: write it like https://store.example.org:8200");
        return Err(SettingError::new("endpoint", why));
    }
    let mut builder = crate::outbound::client();
    if let Some(path) = ca_file {
        let pem = secret("ca_file", path)?;
        let certificates = Certificate::from_pem_bundle(pem.as_bytes())
            .map_err(|e| SettingError::new("ca_file", format_args!("{} is not PEM: {e}", path.display())))?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|e| SettingError::new("endpoint", e))
}

#[cfg(test)]
mod tests {
    use super::secret;
    use std::fs;

    #[test]
    fn a_secret_is_read_without_its_line_end_and_a_missing_one_names_its_field() {
        let path = std::env::temp_dir().join(format!("tenure-secret-{}", std::process::id()));
        fs::write(&path, "s3cret \n").unwrap();
        assert_eq!(secret("token_file", &path), Ok("s3cret ".to_owned()));
        fs::write(&path, "\n").unwrap();
        assert!(secret("token_file", &path).unwrap_err().to_string().starts_with("token_file: "));
        fs::remove_file(&path).unwrap();
        assert!(secret("token_file", &path).unwrap_err().to_string().contains("write the secret there"));
    }
}
