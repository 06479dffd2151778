//! Log settings.

use serde::{Deserialize, Serialize};

/// Log settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `text` or `json`. Default `text`.
    pub format: LogFormat,
    /// The filter of tracing, such as `info,engine=debug`. Default `info`.
    pub filter: String,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text.
    #[default]
    Text,
    /// One JSON object per line, for collectors.
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".into() }
    }
}
