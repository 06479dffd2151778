//! Where traces of executions are sent.

use serde::{Deserialize, Serialize};

/// Where traces of executions are sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// The address of a collector that takes OTLP over HTTP, with its path. Default none: nothing is sent.
    pub url: String,
}

impl Traces {
    /// # Errors
    /// The key at fault, and what to write.
    pub(super) fn checked(&self) -> Result<(), String> {
        if self.url.is_empty() {
            return Ok(());
        }
        if !cfg!(feature = "otlp") {
            return Err(
                "traces.url: this program was built without `otlp`; leave it out, or take another build"
                    .into(),
            );
        }
        let parsed = self.url.parse::<axum::http::Uri>().ok();
        let is_url = parsed.is_some_and(|url| matches!(url.scheme_str(), Some("http" | "https")));
        if !is_url {
            return Err(format!(
                "traces.url: {:?} is no address; write one like `http://127.0.0.1:4318/v1/traces`",
                self.url
            ));
        }
        Ok(())
    }
}
