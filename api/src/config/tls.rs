//! With which certificate the server speaks TLS, if it does.

use serde::{Deserialize, Serialize};

/// With which certificate the server speaks TLS. Both or neither.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// A file with the server's certificate and those that lead from it to its authority, as PEM. Default none: plain HTTP.
    pub certificate_file: String,
    /// A file with the certificate's private key, as PEM. Default none.
    pub key_file: String,
}

impl Tls {
    /// Whether TLS is spoken.
    pub fn is_on(&self) -> bool {
        !self.certificate_file.is_empty()
    }

    /// # Errors
    /// The key at fault, and what to write.
    pub(super) fn checked(&self) -> Result<(), String> {
        let lacks = match (self.certificate_file.is_empty(), self.key_file.is_empty()) {
            (true, true) | (false, false) => return Ok(()),
            (true, false) => "certificate_file: name the file of the key's certificate",
            (false, true) => "key_file: name the file of the certificate's key",
        };
        Err(format!("tls.{lacks}, or leave all of `tls` out"))
    }
}
