//! Credentials of a request, as its headers carry them.

use program::token::Token;

/// The token of an `Authorization` header with the scheme `Bearer`.
pub(super) fn bearer(header: &str) -> Option<Token> {
    let (scheme, text) = header.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { Token::parse(text) } else { None }
}
