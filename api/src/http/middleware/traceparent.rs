//! The trace context of a request: the W3C header `traceparent`.
//!
//! The context is not propagated, because answering a request calls no other service. An execution that the request starts links to the trace, and the latency
//! histogram has the trace id as an exemplar.

use axum::http::HeaderMap;

tokio::task_local! {
    static ASKED_WITHIN: Option<CallerTrace>;
}

/// The trace context of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct CallerTrace {
    text: String,
}

impl CallerTrace {
    /// Parses the headers. Returns `None` for an invalid value: the request is answered anyway.
    pub(in crate::http) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |part: &str, long: usize| {
            part.len() == long && part.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_set = |part: &str| part.bytes().any(|c| c != b'0');
        let is_whole = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
        // Later versions may append fields; version 00 may not.
        let is_known = version != "ff" && (version != "00" || parts.next().is_none());
        (is_whole && is_known && is_set(trace) && is_set(span))
            .then(|| Self { text: format!("00-{trace}-{span}-{flags}") })
    }

    /// The id of the trace.
    pub(in crate::http) fn trace_id(&self) -> &str {
        self.text.get(3..35).unwrap_or_default()
    }
}

/// Runs the work of a request within the caller's trace.
pub(in crate::http) async fn in_trace<T>(
    asked: Option<CallerTrace>,
    answering: impl Future<Output = T>,
) -> T {
    ASKED_WITHIN.scope(asked, answering).await
}

/// Adds a link to the caller's trace to the request of an execution.
pub(in crate::http) fn with_trace_link(asked: engine::Request) -> engine::Request {
    match ASKED_WITHIN.try_with(Clone::clone).ok().flatten() {
        Some(trace) => asked.with_traceparent(trace.text),
        None => asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn read(text: &'static str) -> Option<CallerTrace> {
        CallerTrace::of(
            &[("traceparent".parse().unwrap(), HeaderValue::from_static(text))].into_iter().collect(),
        )
    }

    #[test]
    fn only_a_valid_traceparent_is_accepted() {
        let within = read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        assert_eq!(within.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let later = read("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-what.comes").unwrap();
        assert_eq!(later.text, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        for text in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
