//! Log lines on standard error: text for people, or JSON for collectors.

use crate::config::{Log, LogFormat};
use std::io::{self, IsTerminal as _};
use tracing_subscriber::EnvFilter;

/// Begins to write log lines. `TENURE_LOG` or `RUST_LOG`, where set, say which ones.
///
/// # Errors
/// When the filter cannot be read.
pub(crate) fn begin(log: &Log) -> Result<(), String> {
    let told = ["TENURE_LOG", "RUST_LOG"].into_iter().find_map(|name| std::env::var(name).ok());
    let filter = told.unwrap_or_else(|| log.filter.clone());
    let filter = EnvFilter::try_new(&filter).map_err(|e| format!("log.filter {filter:?}: {e}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let begun = match log.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().with_current_span(true).with_span_list(true).try_init(),
    };
    begun.map_err(|e| e.to_string())
}
