//! The export of traces.

use serde::{Deserialize, Serialize};

/// The export of traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// The URL of a collector for OTLP over HTTP, with its path. Default: none, no export.
    pub url: String,
}

impl Traces {
    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.url.is_empty() {
            return Ok(());
        }
        if !cfg!(feature = "otlp") {
            return Err(
                "traces.url: this program was built without `otlp`; remove the key, or use another build"
                    .into(),
            );
        }
        let parsed = self.url.parse::<axum::http::Uri>().ok();
        let is_url = parsed.is_some_and(|url| matches!(url.scheme_str(), Some("http" | "https")));
        if !is_url {
            return Err(format!(
                "traces.url: {:?} is not a URL; write it like `http://127.0.0.1:4318/v1/traces`",
                self.url
            ));
        }
        Ok(())
    }
}
