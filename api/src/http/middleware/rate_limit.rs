//! Rate limits of callers, with the headers `RateLimit-Policy` and `RateLimit` of the IETF draft `draft-ietf-httpapi-ratelimit-headers` on every answer of
//! `/v1`.

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

/// The prefix of the name of a cluster as a caller. Names of users have no space.
const CLUSTER: &str = "cluster ";

/// The IP address of the client.
pub(in crate::http) fn client_address(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<ConnectInfo<PeerAddress>>().map(|ConnectInfo(peer)| peer.0.ip().to_canonical())
}

/// Returns the caller to count the request for, by the authentication so far.
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
        // The key of the cluster's agents was valid; the path names the agent.
        None if access == Access::Agent && entered.is_ok() => {
            let node = request.uri().path().trim_start_matches("/v1/agents/");
            RateLimitKey::Agent(node.rsplit_once("/~").map_or(node, |(node, _)| node).to_owned())
        }
        None => RateLimitKey::Address(client_address(request).map(network)),
    }
}

/// Takes the request from the caller's limit. Returns `None` outside of `/v1` and without a limit.
pub(in crate::http) fn acquire(
    app: &SharedState,
    request: &Request,
    who: RateLimitKey,
) -> Option<RateLimitStatus> {
    if is_api(request.uri().path()) { app.edge.take(who, app.engine.clock().now()) } else { None }
}

/// The answer to a request over the limit. A failed authentication is still recorded and delayed; otherwise the quick answer would let an attacker test tokens.
pub(in crate::http) fn refuse(share: RateLimitStatus, refused: Option<DenialReason>) -> Response {
    let wait = share.refused.unwrap_or_default().as_millis().div_ceil(1_000).max(1);
    let detail = format!(
        "the limit of one caller is {} requests in {} s; try again in {wait} s",
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

/// Adds the rate limit headers to an answer of `/v1`. A request that no route has counted is counted here, by its IP address.
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
