//! Relative timestamps such as `3m ago` and `in 2h`.

use chrono::{DateTime, TimeDelta, Utc};
use engine::{Clock as _, SystemClock};
use program::exit::{Exit, Failure};
use serde_json::Value;
use workflows::policy::duration;

/// Returns the current time.
pub(crate) fn now() -> DateTime<Utc> {
    let millis = i64::try_from(SystemClock.now().0).ok();
    millis.and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::UNIX_EPOCH)
}

/// Parses a timestamp in the server's format.
pub(crate) fn parse(text: &str) -> Option<DateTime<Utc>> {
    // Most texts are not timestamps. Their length and the `T` reject them before parsing.
    let looks_so = (20..=35).contains(&text.len()) && text.as_bytes().get(10) == Some(&b'T');
    if !looks_so {
        return None;
    }
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc())
}

/// Parses a timestamp, or a span such as `2h` that is subtracted from now.
///
/// # Errors
/// `text` is neither a timestamp nor a span.
pub(crate) fn back(text: &str) -> Result<DateTime<Utc>, Failure> {
    let span = duration::parse(text).and_then(|span| TimeDelta::from_std(span).ok());
    let at = parse(text).or_else(|| now().checked_sub_signed(span?));
    let unread =
        || format!("{text:?} is not a time; write 2026-11-24T08:00:00Z, or a span before now such as 2h");
    at.ok_or_else(|| Failure::new(Exit::Usage, unread()))
}

/// Returns `at` relative to `now`.
pub(crate) fn relative(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let seconds = (now - at).num_seconds();
    match seconds {
        0 => "now".into(),
        1.. => format!("{} ago", span(seconds.unsigned_abs())),
        ..0 => format!("in {}", span(seconds.unsigned_abs())),
    }
}

/// Returns a span in the largest unit of which it has at least two.
pub(crate) fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 5] = [(365 * 86_400, "y"), (86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| seconds >= unit * 2).unwrap_or((1, "s"));
    format!("{}{name}", seconds / unit)
}

/// Returns the value with a relative time after each timestamp.
pub(crate) fn with_relative(value: &Value, now: DateTime<Utc>) -> Value {
    match value {
        Value::String(text) => match parse(text) {
            Some(at) => Value::String(format!("{text} ({})", relative(at, now))),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(|item| with_relative(item, now)).collect(),
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(name, value)| (name.clone(), with_relative(value, now))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(text: &str) -> String {
        let now = parse("2026-11-22T12:00:00.000Z").unwrap();
        relative(parse(text).unwrap(), now)
    }

    #[test]
    fn a_relative_time_uses_the_largest_unit_that_fits_twice() {
        for (at, wanted) in [
            ("2026-11-22T12:00:00.000Z", "now"),
            ("2026-11-22T11:59:18.000Z", "42s ago"),
            ("2026-11-22T11:58:30Z", "90s ago"),
            ("2026-11-22T11:00:00Z", "60m ago"),
            ("2026-11-22T07:00:00Z", "5h ago"),
            ("2026-11-19T12:00:00Z", "3d ago"),
            ("2023-11-22T12:00:00Z", "3y ago"),
            ("2026-11-22T14:30:00+01:00", "in 90m"),
        ] {
            assert_eq!(said(at), wanted, "{at}");
        }
    }

    #[test]
    fn text_that_is_not_a_timestamp_is_unchanged() {
        for text in ["", "acme", "2026-11-22", "n-2026-11-22T12:00", "01a1fdc0-e9b1-7000-8000-000000000000"] {
            assert_eq!(parse(text), None, "{text}");
        }
        let now = parse("2026-11-22T12:00:00Z").unwrap();
        let shown = with_relative(&json!({ "id": "acme", "at": ["2026-11-22T11:00:00Z"], "n": 3 }), now);
        assert_eq!(shown, json!({ "id": "acme", "at": ["2026-11-22T11:00:00Z (60m ago)"], "n": 3 }));
    }
}
