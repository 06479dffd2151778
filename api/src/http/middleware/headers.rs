//! Security and caching headers of every answer.
//!
//! Every request passes this layer. A handler may set its own value of a header, except under `/v1`: some of its answers contain secrets, so `Cache-Control` is
//! always `no-store` there.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::Response,
};
use store::Timestamp;

/// The defaults of headers that a handler does not set.
const USUAL: [(HeaderName, HeaderValue); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::CACHE_CONTROL, NOBODY),
    // Paths may contain names of tenants or executions, so browsers must not send them as a referrer.
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // Pages of other origins cannot embed the answer.
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // Outside the console, an answer runs and loads nothing in a browser.
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ),
];

/// Caches and browsers must not store the answer.
const NOBODY: HeaderValue = HeaderValue::from_static("no-store");

/// After an answer over TLS, browsers use only TLS for a year. This prevents downgrades to plain HTTP.
const SECURE: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Returns true if a path belongs to the API, and not to health, metrics or the description of the server.
pub(in crate::http) fn is_api(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
}

/// Adds the headers to the answer to a request for `path`.
pub(in crate::http) fn add(answer: &mut Response, path: &str, with_tls: bool, now: Timestamp) {
    let headers: &mut HeaderMap = answer.headers_mut();
    for (name, value) in USUAL {
        headers.entry(name).or_insert(value);
    }
    // The HTTP library caches its `Date`, and would show a wrong time after the clock was corrected.
    if let Some(date) = date(now) {
        headers.insert(header::DATE, date);
    }
    if is_api(path) {
        headers.insert(header::CACHE_CONTROL, NOBODY);
    }
    if with_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, SECURE);
    }
}

/// Formats `now` as an HTTP date.
fn date(now: Timestamp) -> Option<HeaderValue> {
    let now = chrono::DateTime::from_timestamp_millis(i64::try_from(now.0).ok()?)?;
    HeaderValue::from_str(&now.format("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_shows_the_right_time_after_the_clock_was_set_back() {
        for (now, shown) in [
            (1_800_000_000_000, "Fri, 15 Jan 2027 08:00:00 GMT"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            let mut answer = Response::new(axum::body::Body::empty());
            add(&mut answer, "/v1/tenants", false, Timestamp(now));
            assert_eq!(answer.headers()[header::DATE], shown);
        }
    }

    #[test]
    fn the_api_is_every_path_below_its_version() {
        assert!(is_api("/v1/tenants") && is_api("/v1") && is_api("/v1/tenants/~plan"));
        assert!(!is_api("/v10/tenants") && !is_api("/livez") && !is_api("/"));
    }

    #[test]
    fn a_handler_overrides_headers_except_the_cache_control_of_the_api() {
        let own = || Response::builder().header(header::CACHE_CONTROL, "no-cache").body(Default::default());
        let (mut page, mut secret) = (own().unwrap(), own().unwrap());
        add(&mut page, "/openapi.json", false, Timestamp(0));
        add(&mut secret, "/v1/users", true, Timestamp(0));
        assert_eq!(page.headers()[header::CACHE_CONTROL], "no-cache");
        assert_eq!(secret.headers()[header::CACHE_CONTROL], "no-store");
        assert!(!page.headers().contains_key(header::STRICT_TRANSPORT_SECURITY));
        assert!(secret.headers().contains_key(header::STRICT_TRANSPORT_SECURITY));
    }
}
