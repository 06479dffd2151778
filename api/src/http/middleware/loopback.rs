//! Access to `/metrics` and to the full checks of `/readyz`.
//!
//! Callers on the same machine need no token, so a first look and a local Prometheus work. The peer address of the connection decides; no header can make a
//! caller local. Forwarding headers make a caller remote, because a local proxy forwards requests of others.

use crate::{
    auth::{Verb, policy::RequestContext},
    http::{middleware::guard::authorize, problem::Problem, route::Access},
    state::SharedState,
};
use axum::http::{HeaderMap, header};
use std::net::IpAddr;

/// Headers with which a proxy names the original caller.
const FORWARDING_HEADERS: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// Returns true if the request comes from this machine.
///
/// With DNS rebinding, a web page sends a foreign name as `Host` from a local browser. Such a request counts as remote.
pub(in crate::http) fn is_loopback(from: Option<IpAddr>, headers: &HeaderMap) -> bool {
    from.is_some_and(|from| from.is_loopback())
        && !FORWARDING_HEADERS.iter().any(|name| headers.contains_key(*name))
        && headers.get_all(header::HOST).iter().all(|host| host.to_str().is_ok_and(is_local_host))
}

/// Returns true if a `Host` is an IP address or `localhost`, with or without a port. Other names may be controlled by an attacker.
fn is_local_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

/// Rejects a caller who may only see that the server works.
pub(in crate::http) async fn require_detail_access(
    app: &SharedState,
    verb: Verb,
    headers: &HeaderMap,
    how: RequestContext,
) -> Result<(), Problem> {
    if app.config.http.open_metrics || is_loopback(how.from, headers) {
        return Ok(());
    }
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    authorize(app, Access::Near(verb), token, how).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_others_can_choose_is_remote() {
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        for (host, near) in [
            ("127.0.0.1:7878", true),
            ("127.0.0.1", true),
            ("localhost:7878", true),
            ("LOCALHOST", true),
            ("[::1]:7878", true),
            ("10.0.0.7:7878", true),
            ("evil.example", false),
            ("evil.example:7878", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            assert_eq!(is_loopback(here, &headers), near, "{host}");
        }
    }

    #[test]
    fn no_header_makes_a_caller_local_and_forwarded_requests_are_remote() {
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        let there = Some(IpAddr::from([10, 0, 0, 7]));
        let none = HeaderMap::new();
        assert!(is_loopback(here, &none) && is_loopback(Some("::1".parse().unwrap()), &none));
        assert!(!is_loopback(there, &none) && !is_loopback(None, &none));
        for name in FORWARDING_HEADERS {
            let says = HeaderMap::from_iter([(name.parse().unwrap(), "127.0.0.1".parse().unwrap())]);
            assert!(!is_loopback(here, &says) && !is_loopback(there, &says), "{name}");
        }
    }
}
