//! Paths of routes, in their public form and in the form that the router matches.

use program::encoding::percent::decode;

/// The long-poll route from which an agent gets its orders.
pub(super) const AGENT_PULL: &str = "/v1/agents/{cluster}/{node}:pull";

/// Returns the path that the router matches: `/v1/executions/{id}:cancel` becomes `/v1/executions/{id}/~cancel`.
pub(super) fn inner_path(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((front, last)) => match last.rsplit_once(':') {
            Some((thing, verb)) => format!("{front}/{thing}/~{verb}"),
            None => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

/// Returns the public form of a matched path.
pub(super) fn outer_path(path: &str) -> String {
    path.replace("/~", ":")
}

/// Returns true if the percent-decoded path is UTF-8.
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
    fn a_path_that_is_not_utf_8_is_refused() {
        for text in ["/v1/limits/cluster%2Feu-1", "/v1/%C3%A9", "/v1/100%", "/v1/%zz"] {
            assert!(is_text(text), "{text}");
        }
        assert!(!is_text("/v1/tenants/%FF") && !is_text("/v1/%C3x"));
    }
}
