//! Escapes text from other sources for its output: a terminal, a log, a spreadsheet.
//!
//! Used for every output of stored or received text. Invariant: characters that move the cursor, colour or clear the screen, change the order of
//! text, or are invisible are replaced by visible escapes.

use std::{borrow::Cow, fmt::Write as _};

/// Returns true for a character that must be escaped: control characters (C0, C1), bidirectional marks, line separators, and invisible characters.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Returns the text as one line: unsafe characters and line ends are escaped.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    spelled_out(text, is_unsafe)
}

/// Returns the text with its lines and tabs. All other unsafe characters are escaped.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    spelled_out(text, |c| is_unsafe(c) && !matches!(c, '\n' | '\t'))
}

fn spelled_out(text: &str, is_meant: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_meant) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_meant(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Returns the JSON with unsafe characters as JSON escapes, so its value is unchanged. Line ends between values stay.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    let is_meant = |c: char| is_unsafe(c) && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(is_meant) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_meant(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

/// Returns a CSV cell (RFC 4180). A text that a spreadsheet would read as a formula gets a leading apostrophe.
#[must_use]
pub fn csv_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let shown = spelled_out(text, |c| is_unsafe(c) && !matches!(c, '\n' | '\r' | '\t'));
    let shown = if formula { Cow::Owned(format!("'{shown}")) } else { shown };
    if shown.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", shown.replace('"', "\"\""));
    }
    shown.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREIGN: &str = "fine\u{1b}[1A\u{9b}2K\u{202e}evil\u{2066}\u{200b}\u{7f}\nforged: line\r\ttail";

    fn is_plain(text: &str) -> bool {
        !text.contains(is_unsafe)
    }

    #[test]
    fn unsafe_characters_are_escaped() {
        assert!(is_plain(&one_line(FOREIGN)), "{}", one_line(FOREIGN));
        assert!(one_line(FOREIGN).starts_with("fine\\u{1b}[1A\\u{9b}2K\\u{202e}evil"));
        let shown = lines(FOREIGN);
        assert!(is_plain(&shown.replace(['\n', '\t'], "")) && shown.contains("\nforged"), "{shown}");
    }

    #[test]
    fn text_of_every_language_is_unchanged() {
        for text in ["Zürich", "深圳", "日本語", "שלום", "مرحبا", "नमस्ते", "👩‍🚀"]
        {
            assert_eq!(one_line(text), text);
        }
    }

    #[test]
    fn json_has_the_same_content_in_safe_characters() {
        let value = serde_json::json!({ "a": FOREIGN, "tag": "\u{e0041}" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = json(&text);
        assert!(is_plain(&shown.replace('\n', "")), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn a_cell_is_never_a_formula_and_never_moves_a_cursor() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert!(csv_cell(text).trim_start_matches('"').starts_with('\''), "{text}");
        }
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_cell("=a,b"), "\"'=a,b\"");
        assert!(is_plain(&csv_cell(FOREIGN).replace(['\n', '\r', '\t'], "")));
    }
}
