//! The TLS certificate of the server.

use serde::{Deserialize, Serialize};

/// The TLS certificate of the server. Set both files or neither.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// A file with the server's certificate and its chain, as PEM. Default: none, plain HTTP.
    pub certificate_file: String,
    /// A file with the private key of the certificate, as PEM. Default: none.
    pub key_file: String,
}

impl Tls {
    /// Returns true if TLS is on.
    pub fn is_on(&self) -> bool {
        !self.certificate_file.is_empty()
    }

    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        let lacks = match (self.certificate_file.is_empty(), self.key_file.is_empty()) {
            (true, true) | (false, false) => return Ok(()),
            (true, false) => "certificate_file: set the file of the certificate",
            (false, true) => "key_file: set the file of the private key",
        };
        Err(format!("tls.{lacks}, or remove the section `tls`"))
    }
}
