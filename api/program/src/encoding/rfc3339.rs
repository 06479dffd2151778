//! Timestamps as text.

use chrono::{DateTime, SecondsFormat};
use store::Timestamp;

/// Returns `at` as RFC 3339, in UTC and to the millisecond.
pub fn format_time(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(DateTime::from_timestamp_millis);
    at.unwrap_or(DateTime::UNIX_EPOCH).to_rfc3339_opts(SecondsFormat::Millis, true)
}
