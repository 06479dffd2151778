//! The event log of a replay: what happened, to which workload and why, as sentences in order of time.

use chrono::{DateTime, Utc};
use std::{fmt::Write as _, time::Duration};
use store::Timestamp;
use workflows::tenancy::{GpuKind, Placed};

/// Sentences with times. Recorded only if requested, because a trace has too many.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    told: bool,
    lines: Vec<String>,
}

impl EventLog {
    pub(crate) fn new(told: bool) -> Self {
        Self { told, lines: Vec::new() }
    }

    /// Adds a sentence, if the log is recorded.
    pub(crate) fn tell(&mut self, at: Timestamp, sentence: impl FnOnce() -> String) {
        if self.told {
            self.lines.push(format!("{}  {}", clock(at), sentence()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines
    }
}

/// Formats the time of day in UTC.
pub(crate) fn clock(at: Timestamp) -> String {
    let moment = i64::try_from(at.0).ok().and_then(DateTime::<Utc>::from_timestamp_millis);
    moment.map_or_else(|| at.0.to_string(), |moment| moment.format("%a %H:%M:%S").to_string())
}

/// Formats an amount, such as `4 H100` or `1 H100 slice 3g`.
pub(crate) fn amount(gpus: u64, kind: &GpuKind) -> String {
    match &kind.profile {
        None => format!("{gpus} {}", kind.model),
        Some(profile) => format!("{gpus} {} slice {profile}", kind.model),
    }
}

/// Formats a placement, such as `node-1 (0-3) and node-2 (0)`.
pub(crate) fn places(placed: &[Placed]) -> String {
    let mut text = String::new();
    for (number, part) in placed.iter().enumerate() {
        let joint = if number == 0 { "" } else { " and " };
        let gpus: Vec<u16> = part.gpus.keys().copied().collect();
        // Writing to a string cannot fail.
        let _ = write!(text, "{joint}{} (GPU {})", part.node, spans(&gpus));
    }
    text
}

/// Formats sorted numbers, such as `0-3, 5`.
fn spans(numbers: &[u16]) -> String {
    let mut spans: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            Some(_) | None => spans.push((*number, *number)),
        }
    }
    let shown = |(first, last): &(u16, u16)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    spans.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Formats a duration.
pub(crate) fn span(time: Duration) -> String {
    workflows::policy::duration::show(Duration::from_secs(time.as_millis().div_ceil(1_000) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_gpus_are_shown_as_a_range() {
        assert_eq!(spans(&[0, 1, 2, 3, 5]), "0-3, 5");
        assert_eq!(spans(&[7]), "7");
    }
}
