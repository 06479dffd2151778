//! Writes to standard output and standard error.
//!
//! Invariant: the output has no character that moves the cursor or hides text. Such characters are escaped; only the styles of this
//! program pass.

use crate::exit::{Exit, Failure};
use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write as _},
};
use workflows::foreign_text;

/// The styles of this program, as escape sequences.
const STYLES: [&str; 6] = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];
/// Clears the screen and moves the cursor to its top.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Writes to standard output. A closed pipe ends the program without an error.
pub fn say(text: &str) -> Result<(), Failure> {
    written(&shown(text))
}

/// Writes a file to standard output: unchanged to a pipe, escaped as with [`say`] on a terminal.
pub fn pour(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { say(text) } else { written(text) }
}

/// Replaces the content of the screen.
pub fn redraw(text: &str) -> Result<(), Failure> {
    written(&format!("{CLEAR}{}", shown(text)))
}

fn written(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::new(Exit::Done, "")),
        Err(error) => Err(Failure::other(format!("standard output: {error}"))),
    }
}

/// Writes to standard error and ignores errors.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(text));
}

/// Returns the text with its lines and the styles of this program; all other control characters are escaped.
fn shown(text: &str) -> Cow<'_, str> {
    let (mut shown, mut rest) = (Cow::Borrowed(""), text);
    while let Some(at) = rest.find('\u{1b}') {
        let (before, styled) = rest.split_at_checked(at).unwrap_or((rest, ""));
        shown += foreign_text::lines(before);
        let style = STYLES.into_iter().find(|style| styled.starts_with(style));
        let (taken, long) = style.map_or(("\\u{1b}", 1), |style| (style, style.len()));
        shown += taken;
        rest = styled.get(long..).unwrap_or_default();
    }
    shown + foreign_text::lines(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_styles_reach_the_terminal() {
        for style in STYLES {
            assert_eq!(shown(&format!("{style}text\u{1b}[0m\n")), format!("{style}text\u{1b}[0m\n"));
        }
        assert_eq!(shown("a\u{1b}[2Kb\u{1b}]0;title\u{7}"), "a\\u{1b}[2Kb\\u{1b}]0;title\\u{7}");
        assert_eq!(shown("a\u{202e}b\tc\r\n"), "a\\u{202e}b\tc\\r\n");
        assert_eq!(shown("\u{1b}"), "\\u{1b}");
        assert_eq!(shown("nothing"), "nothing");
    }
}
