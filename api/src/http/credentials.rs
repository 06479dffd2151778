//! Credentials in the headers of a request.

use program::token::Token;

/// Returns the token of an `Authorization: Bearer` header.
pub(super) fn bearer(header: &str) -> Option<Token> {
    let (scheme, text) = header.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { Token::parse(text) } else { None }
}
