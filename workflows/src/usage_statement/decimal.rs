//! Formats integers as decimals.

use crate::tenancy::Cents;
use chrono::{DateTime, SecondsFormat};
use store::Timestamp;

/// Returns `value` with its last `places` digits after the decimal point.
pub(super) fn fixed(value: u128, places: u32) -> String {
    let one = 10_u128.saturating_pow(places);
    let width = usize::try_from(places).unwrap_or_default();
    format!("{}.{:0width$}", value / one, value % one)
}

/// Returns the cost of GPU-milliseconds in millionths, rounded half up. An hour has 3,600,000 milliseconds and a cent has 10,000 millionths, so the
/// divisor is 360.
pub(super) fn cost_micros(gpu_millis: u64, hourly: Cents) -> u128 {
    let whole = u128::from(gpu_millis) * u128::from(hourly.0);
    (whole + 180) / 360
}

/// Returns millionths of a GPU-hour, rounded half up.
pub(super) fn hour_micros(gpu_millis: u64) -> u128 {
    (u128::from(gpu_millis) * 10 + 18) / 36
}

/// Returns a time in UTC with milliseconds. Empty after the calendar's end.
pub(super) fn moment(at: Timestamp) -> String {
    written(at, SecondsFormat::Millis)
}

/// Returns a time in UTC with seconds, as FOCUS requires. Empty after the calendar's end.
pub(super) fn second(at: Timestamp) -> String {
    written(at, SecondsFormat::Secs)
}

fn written(at: Timestamp, to: SecondsFormat) -> String {
    let at = i64::try_from(at.0).ok().and_then(DateTime::from_timestamp_millis);
    at.map(|at| at.to_rfc3339_opts(to, true)).unwrap_or_default()
}
