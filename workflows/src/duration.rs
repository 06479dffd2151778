//! Parses and formats durations: `5d`, `15m`, `1h30m`.

use std::time::Duration;

/// Parses a duration: numbers with the units `s`, `m`, `h`, `d`, largest first.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let (mut seconds, mut digits, mut last) = (0_u64, String::new(), u64::MAX);
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = seconds_of(c).filter(|unit| *unit < last)?;
        let count: u64 = digits.parse().ok()?;
        seconds = seconds.checked_add(count.checked_mul(unit)?)?;
        digits.clear();
        last = unit;
    }
    (digits.is_empty() && last != u64::MAX).then(|| Duration::from_secs(seconds))
}

/// Formats a duration, to the second.
#[must_use]
pub fn show(span: Duration) -> String {
    let mut left = span.as_secs();
    let mut text = String::new();
    for unit in ['d', 'h', 'm', 's'] {
        let Some(seconds) = seconds_of(unit) else { continue };
        let (count, rest) = (left.checked_div(seconds), left.checked_rem(seconds));
        if let (Some(count @ 1..), Some(rest)) = (count, rest) {
            text.push_str(&format!("{count}{unit}"));
            left = rest;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

fn seconds_of(unit: char) -> Option<u64> {
    match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3_600),
        'd' => Some(86_400),
        _ => None,
    }
}

/// Serialises durations of stored facts as text, to the nanosecond if they are not whole seconds.
pub mod text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
    use std::time::Duration;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Exact(Duration),
    }

    /// Writes `span`.
    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        let whole = span.subsec_nanos() == 0;
        let written = if whole { Written::Text(super::show(*span)) } else { Written::Exact(*span) };
        written.serialize(to)
    }

    /// Parses a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        match Written::deserialize(from)? {
            Written::Exact(span) => Ok(span),
            Written::Text(text) => super::parse(&text)
                .ok_or_else(|| D::Error::custom(format!("{text:?} is not a span of time, such as 15m"))),
        }
    }
}

/// The same for optional durations.
pub mod maybe {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Text(#[serde(with = "super::text")] Duration);

    /// Writes `span`.
    pub fn serialize<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        span.map(Text).serialize(to)
    }

    /// Parses an optional duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Text>::deserialize(from)?.map(|Text(span)| span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_parsed_from_its_own_output() {
        for text in ["5d", "15m", "1h30m", "2d12h", "45s"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
        for text in ["", "5", "d", "5x", "1m1h", "1.5h", "-1d", "99999999999999999999d"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
