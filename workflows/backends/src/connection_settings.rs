//! What the targets with secrets share: reading a secret where it lies, a client for HTTP, and saying which field is wrong.

use std::{fs, path::Path};

/// Why a target cannot be used as it is described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct SettingError {
    /// Which field of its settings, with the path to it.
    pub field: &'static str,
    /// What is wrong, and what to do.
    pub why: String,
}

impl SettingError {
    pub(super) fn new(field: &'static str, why: impl std::fmt::Display) -> Self {
        Self { field, why: why.to_string() }
    }
}

/// The secret in a file, without the line's end. Read whenever it is used, so that it can be exchanged while the server runs.
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

/// Twelve bytes of chance in hexadecimal.
#[cfg(any(feature = "pkcs11", feature = "vault"))]
pub(super) fn random_id() -> String {
    use ring::rand::SecureRandom;
    let mut bytes = [0_u8; 12];
    // A system without randomness does not start TLS either; what is left is still told apart by its making.
    if ring::rand::SystemRandom::new().fill(&mut bytes).is_err() {
        bytes.fill_with(|| fastrand::u8(..));
    }
    hex(&bytes)
}

/// An identity that follows from these, so that two who make the same at once give it the same.
#[cfg(any(feature = "s3", feature = "vault"))]
pub(super) fn derived_id(parts: &[&str]) -> String {
    let mut whole = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        whole.update(part.as_bytes());
        whole.update(b"\n");
    }
    hex(whole.finish().as_ref()).chars().take(24).collect()
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A client for the target at `endpoint`, which follows no redirect, as that would carry a secret elsewhere.
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
    fn a_secret_is_read_without_the_end_of_its_line_and_an_absent_one_names_its_field() {
        let path = std::env::temp_dir().join(format!("tenure-secret-{}", std::process::id()));
        fs::write(&path, "s3cret \n").unwrap();
        assert_eq!(secret("token_file", &path), Ok("s3cret ".to_owned()));
        fs::write(&path, "\n").unwrap();
        assert!(secret("token_file", &path).unwrap_err().to_string().starts_with("token_file: "));
        fs::remove_file(&path).unwrap();
        assert!(secret("token_file", &path).unwrap_err().to_string().contains("write the secret there"));
    }
}
