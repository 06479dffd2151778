//! One line of the log stays one line, and moves no cursor, whatever others have put into its fields.

use crate::logs::LogFormat;
use std::borrow::Cow;
use workflows::foreign_text;

/// The line as it may be written. Control characters, marks of direction and ends of lines within it are spelled out; in JSON by its own
/// escapes. Colours of lines for people stay: text in their fields cannot hold any, since `tracing_subscriber` spells out each escape.
pub(super) fn line(bytes: &[u8], format: LogFormat) -> Cow<'_, [u8]> {
    let text = String::from_utf8_lossy(bytes);
    let (inner, end) = text.strip_suffix('\n').map_or((&*text, ""), |inner| (inner, "\n"));
    let is_meant = |c: char| foreign_text::is_unsafe(c) && c != '\u{1b}';
    if !inner.contains(is_meant) {
        return Cow::Borrowed(bytes);
    }
    let shown = match format {
        LogFormat::Json => foreign_text::json(inner).into_owned(),
        LogFormat::Text => {
            inner.split('\u{1b}').map(foreign_text::one_line).collect::<Vec<_>>().join("\u{1b}")
        }
    };
    Cow::Owned(format!("{shown}{end}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, format: LogFormat) -> String {
        String::from_utf8(line(text.as_bytes(), format).into_owned()).unwrap()
    }

    #[test]
    fn a_line_stays_one_line() {
        let forged = "INFO said fine\u{202e}\nERROR forged\r\u{9b}2K\n";
        let text = shown(forged, LogFormat::Text);
        assert_eq!(text, "INFO said fine\\u{202e}\\nERROR forged\\r\\u{9b}2K\n");
        let coloured = "\u{1b}[32mINFO\u{1b}[0m said fine\n";
        assert_eq!(shown(coloured, LogFormat::Text), coloured);
    }

    #[test]
    fn json_says_the_same() {
        let value = serde_json::json!({ "said": "fine\u{202e}\u{9b}2K" });
        let text = shown(&format!("{value}\n"), LogFormat::Json);
        assert!(!text.contains(['\u{202e}', '\u{9b}']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
