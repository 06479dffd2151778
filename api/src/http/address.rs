//! Addresses of routes: as they are written, and as they are matched.

use program::encoding::percent::decode;

/// Where an agent comes for its orders, and is kept waiting while there are none.
pub(super) const AGENT_PULL: &str = "/v1/agents/{cluster}/{node}:pull";

/// `/v1/executions/{id}:cancel` as routes are matched: `/v1/executions/{id}/~cancel`.
pub(super) fn inner_path(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((front, last)) => match last.rsplit_once(':') {
            Some((thing, verb)) => format!("{front}/{thing}/~{verb}"),
            None => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

/// A matched path as people write it.
pub(super) fn outer_path(path: &str) -> String {
    path.replace("/~", ":")
}

/// Whether the bytes that a path says are UTF-8.
pub(super) fn is_text(path: &str) -> bool {
    std::str::from_utf8(&decode(path)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_becomes_a_segment_and_back() {
        for path in ["/v1/executions/{id}:cancel", "/v1/tenants:plan", "/v1/tenants"] {
            assert_eq!(outer_path(&inner_path(path)), path);
        }
    }

    #[test]
    fn a_path_is_text_or_is_refused() {
        for text in ["/v1/limits/cluster%2Feu-1", "/v1/%C3%A9", "/v1/100%", "/v1/%zz"] {
            assert!(is_text(text), "{text}");
        }
        assert!(!is_text("/v1/tenants/%FF") && !is_text("/v1/%C3x"));
    }
}
