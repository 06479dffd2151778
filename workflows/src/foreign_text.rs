//! Text that others wrote, made safe for whoever reads it: at a terminal, in a log, in a spreadsheet.
//!
//! Called by everything that writes stored or received text. Invariant: no character that moves the cursor, colours or clears the screen,
//! changes the order of the text or cannot be seen leaves here as it is; it is spelled out, so that the reader sees that it is there.

use std::{borrow::Cow, fmt::Write as _};

/// Returns true for a character that a reader must not get as it is: control characters (C0, C1), marks that change the order of text,
/// separators of lines, and characters that cannot be seen.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// The text as one line: unsafe characters, ends of lines among them, are spelled out.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    spelled_out(text, is_unsafe)
}

/// The text with its lines and tabs: every other unsafe character is spelled out.
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

/// JSON with unsafe characters as its own escapes: it says the same. Ends of lines between values stay.
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

/// A cell of CSV (RFC 4180). What a spreadsheet would take for a formula begins with an apostrophe, so that it is text.
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
    fn whatever_a_reader_must_not_get_is_spelled_out() {
        assert!(is_plain(&one_line(FOREIGN)), "{}", one_line(FOREIGN));
        assert!(one_line(FOREIGN).starts_with("fine\\u{1b}[1A\\u{9b}2K\\u{202e}evil"));
        let shown = lines(FOREIGN);
        assert!(is_plain(&shown.replace(['\n', '\t'], "")) && shown.contains("\nforged"), "{shown}");
    }

    #[test]
    fn text_of_every_language_stays_as_it_is() {
        for text in ["Zürich", "深圳", "日本語", "שלום", "مرحبا", "नमस्ते", "👩‍🚀"]
        {
            assert_eq!(one_line(text), text);
        }
    }

    #[test]
    fn json_says_the_same_in_safe_characters() {
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
