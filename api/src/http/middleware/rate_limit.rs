//! How much a caller may ask for, told with every answer of `/v1`: `RateLimit-Policy` and `RateLimit`, as the draft of the IETF
//! (`draft-ietf-httpapi-ratelimit-headers`) has them.

use crate::{
    auth::Caller,
    http::{
        middleware::headers::is_api,
        problem::{Problem, code::ProblemCode, denial::DenialReason},
        route::Access,
    },
    state::{
        SharedState,
        access_denials::network,
        connections::{
            PeerAddress,
            rates::{RateLimitKey, RateLimitStatus},
        },
    },
};
use axum::{
    extract::{ConnectInfo, Request},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use std::net::IpAddr;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// How the name of a caller begins that is a cluster; a user's has no space in it.
const CLUSTER: &str = "cluster ";

/// The network address that asks.
pub(in crate::http) fn client_address(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<ConnectInfo<PeerAddress>>().map(|ConnectInfo(peer)| peer.0.ip().to_canonical())
}

/// Whose request it is, by what was proved until then.
pub(in crate::http) fn who(
    access: Access,
    request: &Request,
    entered: &Result<Option<Caller>, Problem>,
) -> RateLimitKey {
    let name = match entered {
        Ok(caller) => caller.as_ref().map(|caller| caller.name.as_str()),
        Err(problem) => problem.asked_by(),
    };
    match name {
        Some(name) if name.starts_with(CLUSTER) => RateLimitKey::Cluster(name.to_owned()),
        Some(name) => RateLimitKey::User(name.to_owned()),
        // The key of a cluster's agents was right; the address says which of them it is.
        None if access == Access::Agent && entered.is_ok() => {
            let node = request.uri().path().trim_start_matches("/v1/agents/");
            RateLimitKey::Agent(node.rsplit_once("/~").map_or(node, |(node, _)| node).to_owned())
        }
        None => RateLimitKey::Address(client_address(request).map(network)),
    }
}

/// Takes the request from what its caller may send. Nothing outside of `/v1`, and where nothing is bounded.
pub(in crate::http) fn acquire(
    app: &SharedState,
    request: &Request,
    who: RateLimitKey,
) -> Option<RateLimitStatus> {
    if is_api(request.uri().path()) { app.edge.take(who, app.engine.clock().now()) } else { None }
}

/// The answer to a request that is one too many. That somebody was refused for who asked is told on record all the same, and
/// who guesses is slowed: otherwise a token could be tried for whether the answer comes at once.
pub(in crate::http) fn refuse(share: RateLimitStatus, refused: Option<DenialReason>) -> Response {
    let wait = share.refused.unwrap_or_default().as_millis().div_ceil(1_000).max(1);
    let detail = format!(
        "{} requests in {} s are what one caller may send; the next is answered in {wait} s",
        share.most, share.window
    );
    let mut answer = Problem::new(ProblemCode::RateExceeded, detail).into_response();
    if let Ok(value) = HeaderValue::from_str(&wait.to_string()) {
        answer.headers_mut().insert(header::RETRY_AFTER, value);
    }
    if let Some(refused) = refused {
        answer.extensions_mut().insert(refused);
    }
    answer.extensions_mut().insert(share);
    answer
}

/// What the answer to a request of `/v1` says of it. What no route has counted is counted here, by the address that asked.
pub(in crate::http) fn add_headers(
    app: &SharedState,
    from: Option<IpAddr>,
    mut answer: Response,
) -> Response {
    let mut share = answer.extensions().get::<RateLimitStatus>().copied();
    if share.is_none() {
        share = app.edge.take(RateLimitKey::Address(from.map(network)), app.engine.clock().now());
        if let Some(share) = share.filter(|share| share.refused.is_some())
            && answer.status().is_client_error()
        {
            let refused = answer.extensions().get::<DenialReason>().cloned();
            answer = refuse(share, refused);
        }
    }
    let Some(share) = share else { return answer };
    let said = [
        (POLICY, format!("\"default\";q={};w={}", share.most, share.window)),
        (LEFT, format!("\"default\";r={};t={}", share.left, share.full_in)),
    ];
    for (name, text) in said {
        if let Ok(value) = HeaderValue::from_str(&text) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}
