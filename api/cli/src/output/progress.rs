//! The progress of an execution: one line that is redrawn on standard error if that is a terminal.

use crate::output::{
    sanitize,
    style::{Paint, Stream},
    timestamps,
};
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::io::{self, Write as _};

/// The line.
pub(crate) struct Line {
    stands: bool,
    wanted: bool,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { stands: false, wanted: Stream::Err.is_terminal() }
    }

    /// Draws the progress of `item`.
    pub(crate) fn draw(&mut self, item: &Value) {
        if self.wanted
            && let Some(line) = drawn(item, timestamps::now())
        {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[2K{}", Paint::Dim.on(Stream::Err, &line));
            self.stands = true;
        }
    }

    /// Removes the line. Called before any other output and at the end.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.stands) {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[2K");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns the progress as one line.
fn drawn(item: &Value, now: DateTime<Utc>) -> Option<String> {
    let state = sanitize(item.get("state").and_then(Value::as_str).filter(|state| !state.is_empty())?);
    let count = |name: &str| {
        let count = item.pointer(&format!("/progress/{name}"))?.as_u64()?;
        usize::try_from(count).ok()
    };
    let done = count("done").zip(count("total"));
    let done =
        done.map(|(done, total)| format!("{} {done} of {total}  ", bar(done, total))).unwrap_or_default();
    let text = |path: &str| item.pointer(path).and_then(Value::as_str).map(sanitize);
    let span = |seconds: i64| timestamps::span(seconds.max(0).unsigned_abs());
    let since = text("/since").and_then(|at| timestamps::parse(&at)).map(|since| (now - since).num_seconds());
    let since = since.map(|since| format!("  {}", span(since))).unwrap_or_default();
    let said = text("/progress/current/beat").map(|beat| format!("  {beat}")).unwrap_or_default();
    let left =
        text("/progress/eta").and_then(|at| timestamps::parse(&at)).map(|over| (over - now).num_seconds());
    let left = left.map(|left| format!("  about {} more", span(left))).unwrap_or_default();
    Some(format!("{done}{state}{since}{said}{left}"))
}

fn bar(done: usize, total: usize) -> String {
    const WIDTH: usize = 20;
    let full = (done * WIDTH).checked_div(total).unwrap_or(0).min(WIDTH);
    format!("[{}{}]", "#".repeat(full), " ".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bar_is_full_at_the_end() {
        assert_eq!(bar(0, 4), "[                    ]");
        assert_eq!(bar(4, 4), "[####################]");
    }

    #[test]
    fn the_line_shows_progress_state_elapsed_and_remaining_time() {
        let now = timestamps::parse("2027-01-02T03:04:30.000Z").unwrap();
        let mut item = json!({
            "state": "Erasing",
            "since": "2027-01-02T03:04:05.000Z",
            "progress": {
                "done": 1,
                "total": 4,
                "current": { "state": "Erasing", "beat": "3 of 8 drives" },
                "eta": "2027-01-02T03:05:30.000Z",
            },
        });
        let line = drawn(&item, now).unwrap();
        assert_eq!(
            line,
            format!("{} 1 of 4  Erasing  25s  3 of 8 drives  about {} more", bar(1, 4), timestamps::span(60))
        );
        item["progress"] = Value::Null;
        assert_eq!(drawn(&item, now).unwrap(), "Erasing  25s");
        assert_eq!(drawn(&json!({}), now), None);
    }
}
