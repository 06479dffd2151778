//! Escapes unsafe characters in log lines, so that a field cannot forge a line or move the cursor.

use crate::logs::LogFormat;
use std::borrow::Cow;
use workflows::foreign_text;

/// Returns the line with control characters, bidi marks and inner line ends escaped. Colours of text lines stay. A field has no colours,
/// because `tracing_subscriber` escapes every escape character in it.
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
    fn json_keeps_the_value() {
        let value = serde_json::json!({ "said": "fine\u{202e}\u{9b}2K" });
        let text = shown(&format!("{value}\n"), LogFormat::Json);
        assert!(!text.contains(['\u{202e}', '\u{9b}']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
