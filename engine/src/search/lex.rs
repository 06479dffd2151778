//! The tokens of a filter, with their positions.

use crate::FilterError;

/// A token of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word without quotes.
    Plain(String),
    /// A text in quotes: always a value.
    Quoted(String),
    /// `=`, `!=`, `~`, `<`, `<=`, `>` or `>=`.
    Sign(&'static str),
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
}

/// A token and its first character, counted from 1.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) token: Token,
    pub(super) at: usize,
}

const SIGNS: [&str; 7] = ["!=", "<=", ">=", "=", "~", "<", ">"];

fn ends_a_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '(' | ')' | ',' | '"' | '\'' | '=' | '!' | '~' | '<' | '>')
}

/// Splits `text` into tokens.
pub(super) fn words(text: &str) -> Result<Vec<Word>, FilterError> {
    let (mut rest, mut at, mut words) = (text, 1, Vec::new());
    while let Some(c) = rest.chars().next() {
        if c.is_whitespace() {
            (rest, at) = (rest.get(c.len_utf8()..).unwrap_or_default(), at + 1);
            continue;
        }
        let (token, used) = token(rest, c, at)?;
        words.push(Word { token, at });
        let used = rest.get(..used).unwrap_or(rest);
        at += used.chars().count();
        rest = rest.get(used.len()..).unwrap_or_default();
    }
    Ok(words)
}

/// Returns the first token of `rest`, and its length in bytes.
fn token(rest: &str, c: char, at: usize) -> Result<(Token, usize), FilterError> {
    match c {
        '(' => return Ok((Token::Open, 1)),
        ')' => return Ok((Token::Close, 1)),
        ',' => return Ok((Token::Comma, 1)),
        '"' | '\'' => return quoted(rest, c, at),
        _ => {}
    }
    if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    let end = rest.find(ends_a_word).unwrap_or(rest.len());
    if end == 0 {
        let expected = "a field, a value, or one of = != ~ < <= > >= ( ) ,".to_owned();
        return Err(FilterError { at, problem: format!("{c} has no meaning here"), expected, nearest: None });
    }
    Ok((Token::Plain(rest.get(..end).unwrap_or_default().to_owned()), end))
}

/// Returns a text in quotes. A backslash escapes the next character.
fn quoted(rest: &str, quote: char, at: usize) -> Result<(Token, usize), FilterError> {
    let (mut text, mut taken) = (String::new(), false);
    for (place, c) in rest.char_indices().skip(1) {
        match c {
            _ if taken => {
                text.push(c);
                taken = false;
            }
            '\\' => taken = true,
            _ if c == quote => return Ok((Token::Quoted(text), place + c.len_utf8())),
            _ => text.push(c),
        }
    }
    let expected = format!("another {quote} at the end of the value");
    Err(FilterError { at, problem: "the quote is not closed".into(), expected, nearest: None })
}
