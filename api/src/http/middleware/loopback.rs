//! What tells how the platform stands (`/metrics`, the checks of `/readyz` in full) and who is told it.
//!
//! Whoever asks on this machine is told without a token: that is where a first look and a Prometheus beside the server come
//! from. It is decided by the address at the other end of the connection, and no header can make somebody near. One may make
//! them far: a proxy on this machine that says for whom it asks does not ask for itself.

use crate::{
    auth::{Verb, policy::Circumstances},
    http::{middleware::guard::admit, problem::Problem, route::Access},
    state::Shared,
};
use axum::http::{HeaderMap, header};
use std::net::IpAddr;

/// By which a proxy says for whom it asks.
const HANDED_ON: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// Whether who asks from this address is on this machine.
pub(in crate::http) fn is_near(from: Option<IpAddr>, headers: &HeaderMap) -> bool {
    from.is_some_and(|from| from.is_loopback()) && !HANDED_ON.iter().any(|name| headers.contains_key(*name))
}

/// Refuses who is to be told no more than that the server works.
pub(in crate::http) async fn told_all(
    app: &Shared,
    verb: Verb,
    headers: &HeaderMap,
    how: Circumstances,
) -> Result<(), Problem> {
    if app.config.http.open_metrics || is_near(how.from, headers) {
        return Ok(());
    }
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    admit(app, Access::Near(verb), token, how).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_comes_near_by_a_header_and_who_is_handed_on_is_far() {
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        let there = Some(IpAddr::from([10, 0, 0, 7]));
        let none = HeaderMap::new();
        assert!(is_near(here, &none) && is_near(Some("::1".parse().unwrap()), &none));
        assert!(!is_near(there, &none) && !is_near(None, &none));
        for name in HANDED_ON {
            let says = HeaderMap::from_iter([(name.parse().unwrap(), "127.0.0.1".parse().unwrap())]);
            assert!(!is_near(here, &says) && !is_near(there, &says), "{name}");
        }
    }
}
