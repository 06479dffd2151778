//! Maps HTTP responses and transport errors to action errors. All backends use this mapping.

use crate::outbound::Unread;
use engine::ActionError;
use reqwest::{
    StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};
use std::time::Duration;
use workflows::platform::codes;

/// The longest accepted retry delay. Longer requests of a target are shortened to it.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Returns the error for an HTTP status, or `None` for success. If `changing` is true, a server error leaves the
/// outcome of the call unknown.
#[must_use]
pub fn refusal(status: StatusCode, headers: &HeaderMap, said: &str, changing: bool) -> Option<ActionError> {
    if status.is_success() {
        return None;
    }
    let said = format!("{status}: {said}");
    Some(match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let error = ActionError::transient(codes::UNAVAILABLE, said);
            match retry_after(headers) {
                Some(span) => error.retry_after(span),
                None => error,
            }
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ActionError::permanent(codes::DENIED, said),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            ActionError::permanent(codes::UNSUPPORTED, said)
        }
        status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            if changing {
                ActionError::unknown(codes::NO_ANSWER, said)
            } else {
                ActionError::transient(codes::UNAVAILABLE, said)
            }
        }
        _ => ActionError::permanent(codes::REFUSED, said),
    })
}

/// Returns the error for a call without a readable answer. It is transient if the request was not sent or could not
/// change anything, and unknown otherwise.
#[must_use]
pub fn failure(error: &reqwest::Error, about: &str, changing: bool) -> ActionError {
    let said = format!("{about}: {}", spelled_out(error));
    if error.is_connect() || error.is_builder() {
        ActionError::transient(codes::UNAVAILABLE, said)
    } else if error.is_decode() {
        unreadable(said, changing)
    } else if changing {
        ActionError::unknown(codes::NO_ANSWER, said)
    } else {
        ActionError::transient(codes::UNAVAILABLE, said)
    }
}

/// Returns the error for an answer that is too long, compressed, or incomplete.
#[must_use]
pub fn unread(error: &Unread, about: &str, changing: bool) -> ActionError {
    match error {
        Unread::Broken(error) => failure(error, about, changing),
        Unread::TooLong(_) | Unread::Compressed(_) => unreadable(format!("{about}: {error}"), changing),
    }
}

/// Returns the error for an invalid answer. If `changing` is true, the outcome of the call is unknown.
#[must_use]
pub fn unreadable(said: impl std::fmt::Display, changing: bool) -> ActionError {
    if changing {
        ActionError::unknown(codes::UNREADABLE, said)
    } else {
        ActionError::transient(codes::UNREADABLE, said)
    }
}

/// Returns the delay in seconds that the target requests.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST))
}

/// Formats the error with its causes but without the URL, which can contain secrets.
fn spelled_out(error: &reqwest::Error) -> String {
    let mut said = if error.is_timeout() { "no answer in time".to_owned() } else { "no answer".to_owned() };
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        said = format!("{said}: {deeper}");
        cause = deeper.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::{refusal, retry_after, unreadable};
    use engine::Class;
    use reqwest::{StatusCode, header::HeaderMap};
    use std::time::Duration;
    use workflows::platform::codes;

    fn classed(status: u16, changing: bool) -> (Class, String) {
        let status = StatusCode::from_u16(status).unwrap();
        let error = refusal(status, &HeaderMap::new(), "said", changing).unwrap();
        (error.class, error.code)
    }

    #[test]
    fn every_status_has_an_error_class() {
        for (status, changing, class, code) in [
            (400, true, Class::Permanent, codes::REFUSED),
            (401, true, Class::Permanent, codes::DENIED),
            (403, false, Class::Permanent, codes::DENIED),
            (404, true, Class::Permanent, codes::UNSUPPORTED),
            (408, true, Class::Unknown, codes::NO_ANSWER),
            (409, true, Class::Permanent, codes::REFUSED),
            (429, true, Class::Transient, codes::UNAVAILABLE),
            (500, true, Class::Unknown, codes::NO_ANSWER),
            (502, false, Class::Transient, codes::UNAVAILABLE),
            (503, true, Class::Transient, codes::UNAVAILABLE),
        ] {
            assert_eq!(classed(status, changing), (class, code.to_owned()), "{status}");
        }
        assert!(refusal(StatusCode::CREATED, &HeaderMap::new(), "", true).is_none());
        assert_eq!(unreadable("?", true).class, Class::Unknown);
    }

    #[test]
    fn a_retry_after_is_respected_up_to_a_limit() {
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after(&headers), None);
        for (text, span) in [("7", Some(7)), ("90000", Some(3_600)), ("Fri, 31 Dec 1999 23:59:59 GMT", None)]
        {
            headers.insert("retry-after", text.parse().unwrap());
            assert_eq!(retry_after(&headers), span.map(Duration::from_secs), "{text}");
        }
        headers.insert("retry-after", "7".parse().unwrap());
        let error = refusal(StatusCode::TOO_MANY_REQUESTS, &headers, "slow down", true).unwrap();
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    }
}
