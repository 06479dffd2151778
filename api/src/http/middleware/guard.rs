//! Authenticates and authorises every request, by the access rule of its route.

use crate::{
    auth::{
        Caller, Denied, Role, Verb, authenticate, end_bootstrap_token, expiry, explain_end,
        policy::{Decision, Principal, RequestContext, ResourceScope},
    },
    http::{
        address::outer_path,
        credentials::bearer,
        extract::{
            Reads,
            page::{Page, document, documents},
        },
        middleware::{agent_key, idempotency, loopback, rate_limit},
        problem::{Problem, code::ProblemCode, denial::Requester},
        route::Access,
    },
    state::SharedState,
};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use engine::{AuditContext, with_actor};
use program::{encoding::rfc3339::format_time, token::Token};
use std::sync::atomic::Ordering;
use store::Hold;
use workflows::tenancy::{ClusterKey, ClusterKeyStatus, KeyScope};

/// Checks `access` and the rate limit of the caller, then answers. A repeated `Idempotency-Key` gets the stored answer.
pub(in crate::http) async fn guard(
    State((app, access)): State<(SharedState, Access)>,
    request: Request,
    next: Next,
) -> Response {
    let how = request_context(&app, &request);
    let entered = check_access(&app, access, (request.uri().path(), request.headers()), how).await;
    let share = rate_limit::acquire(&app, &request, rate_limit::who(access, &request, &entered));
    if let Some(share) = share.filter(|share| share.refused.is_some()) {
        return rate_limit::refuse(share, entered.err().and_then(|problem| problem.refusal()));
    }
    let mut answer = match entered {
        Ok(None) => next.run(request).await,
        Ok(Some(caller)) => answer(&app, access, (caller, how), request, next).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(share) = share {
        answer.extensions_mut().insert(share);
    }
    answer
}

/// Returns the caller if `access` accepts the request; `None` for routes without authentication.
async fn check_access(
    app: &SharedState,
    access: Access,
    (path, headers): (&str, &HeaderMap),
    how: RequestContext,
) -> Result<Option<Caller>, Problem> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match access {
        Access::Open => Ok(None),
        Access::Near(verb) => loopback::require_detail_access(app, verb, headers, how).await.map(|()| None),
        Access::Agent => agent(app, path, header).await.map(|()| None),
        Access::Cluster(verb, scope) => match cluster(app, path, (verb, scope), header, how).await? {
            Some(caller) => Ok(Some(caller)),
            None => authorize(app, access, header, how).await.map(Some),
        },
        Access::Staff(_) | Access::Tenant(_) => authorize(app, access, header, how).await.map(Some),
    }
}

/// Answers the request of an authenticated caller.
async fn answer(
    app: &SharedState,
    access: Access,
    (caller, how): (Caller, RequestContext),
    mut request: Request,
    next: Next,
) -> Response {
    tracing::Span::current().record("caller", caller.name.as_str());
    let changes = request.method() != Method::GET;
    if changes && app.closing.load(Ordering::Acquire) {
        return Problem::new(ProblemCode::Stopping, "the server is stopping").into_response();
    }
    if changes && !how.plans && app.engine.refuses_work() {
        let detail = "the clocks of this server and the database differ; another server may answer";
        return Problem::new(ProblemCode::ClockSkewed, detail).into_response();
    }
    if changes && !how.plans && access.verb().is_some_and(Verb::waits_for_release) {
        match app.engine.store().current_hold().await {
            Ok(None) => {}
            Ok(Some(hold)) => return held(&caller, &hold).into_response(),
            Err(error) => return Problem::from(error).into_response(),
        }
    }
    request.extensions_mut().insert(caller.clone());
    request.extensions_mut().insert(Reads(app.documents.clone(), caller.owner().to_owned()));
    let asker = caller.clone();
    let behalf = changes.then(|| behalf(&caller, access, &request)).flatten();
    let theirs = behalf.clone();
    let answered = async {
        if request.method() != Method::POST {
            return next.run(request).await;
        }
        let answer = idempotency::answer(app, &caller, theirs, request, next).await;
        answer.unwrap_or_else(|problem| problem.into_response())
    };
    let mut answer = match behalf {
        Some(behalf) => with_actor(behalf, answered).await,
        None => answered.await,
    };
    answer.extensions_mut().insert(Requester::from(&asker));
    answer
}

/// Returns the context of the request for the access policies.
fn request_context(app: &SharedState, request: &Request) -> RequestContext {
    RequestContext {
        from: rate_limit::client_address(request),
        at: app.engine.clock().now(),
        plans: request.uri().path().ends_with("/~plan"),
    }
}

/// The error while the store is on hold. Only users of the operator see the reason.
fn held(caller: &Caller, hold: &Hold) -> Problem {
    let since = format_time(hold.since);
    match &caller.tenant {
        None => {
            Problem::new(ProblemCode::StoreHeld, format!("the store is on hold since {since}: {}", hold.why))
        }
        Some(_) => {
            let detail = format!(
                "the platform is being checked since {since}; nothing was lost, but no changes are accepted until it ends"
            );
            Problem::new(ProblemCode::StoreHeld, detail)
        }
    }
}

/// Returns the audit context of a request that changes documents. Pushed facts of a cluster are observations and have none.
fn behalf(caller: &Caller, access: Access, request: &Request) -> Option<AuditContext> {
    match access {
        Access::Open | Access::Near(_) | Access::Agent | Access::Cluster(..) => return None,
        Access::Staff(_) | Access::Tenant(_) => {}
    }
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str);
    Some(AuditContext {
        by: caller.name.clone(),
        operation: format!("{} {}", request.method(), outer_path(route)),
        path: outer_path(request.uri().path()),
    })
}

/// Authenticates an agent of a node. Other tokens, such as those of users or tenants' clusters, get a specific error.
async fn agent(app: &SharedState, path: &str, header: Option<&str>) -> Result<(), Problem> {
    let token = header.and_then(bearer);
    let refused = match agent_key::authorize_agent(app, path, token.as_ref()) {
        Ok(()) => return Ok(()),
        Err(refused) if refused.code() != ProblemCode::BadToken => return Err(refused),
        Err(refused) => refused,
    };
    let now = app.engine.clock().now();
    match authenticate(&**app.engine.store(), app.access.law(), header, now).await {
        Ok(caller) => {
            let detail = format!("{} is not an agent of a node, and cannot act as one", caller.name);
            Err(Problem::new(ProblemCode::Forbidden, detail).to(Requester::from(&caller)))
        }
        Err(Denied::NoToken) => Err(Problem::new(ProblemCode::NoToken, "the request has no bearer token")),
        Err(Denied::BootstrapEnded(by)) => Err(bootstrap_ended(&by)),
        Err(Denied::BadToken(whose)) => {
            let problem = unknown_token(app, header, whose).await?;
            Err(if problem.code() == ProblemCode::BadToken { refused } else { problem })
        }
        Err(Denied::Store(error)) => Err(error.into()),
    }
}

/// Returns the cluster of the token, if it is the one in `path`. A key of another cluster is rejected, and the attempt is recorded (S-6).
async fn cluster(
    app: &SharedState,
    path: &str,
    (verb, scope): (Verb, KeyScope),
    header: Option<&str>,
    how: RequestContext,
) -> Result<Option<Caller>, Problem> {
    let Some(token) = header.and_then(bearer) else { return Ok(None) };
    let named = path.trim_start_matches("/v1/clusters/").split('/').next().unwrap_or_default();
    let own = document::<ClusterKey>(app, named).await?;
    let standing = |key: &ClusterKey| key.status_of(how.at, |hash| token.matches(hash));
    if let Some((key, standing)) = own.and_then(|key| standing(&key).map(|standing| (key, standing))) {
        // A shared cluster acts for the platform, whose tenant name is empty.
        let tenant = key.tenant.as_ref().map(ToString::to_string);
        let whose = tenant.clone().unwrap_or_default();
        let caller = Caller::new(format!("cluster {named}"), Vec::new(), tenant, app.access.law());
        let over = match standing {
            ClusterKeyStatus::Holds => None,
            ClusterKeyStatus::Revoked => Some(format!("the key of cluster {named} was revoked")),
            ClusterKeyStatus::Replaced => {
                Some(format!("this key of cluster {named} has expired; key {} replaced it", key.version))
            }
        };
        if let Some(over) = over {
            return Err(Problem::new(ProblemCode::BadToken, over).to(Requester::from(&caller)));
        }
        if !key.scopes.contains(&scope) {
            let detail = format!("the key of cluster {named} is no longer valid for this");
            return Err(Problem::new(ProblemCode::Forbidden, detail).to(Requester::from(&caller)));
        }
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.name()).collect();
        let who = Principal::Cluster { name: named, tenant: &whose, scopes: &scopes };
        let decision = caller.law().decide(&who, verb, ResourceScope::Tenant(&whose), &how);
        if !decision.allows {
            let detail = format!("the key of cluster {named} may not {}", verb_phrase(verb));
            return Err(with_explanation(&caller, &decision, &detail, "").to(Requester::from(&caller)));
        }
        return Ok(Some(caller));
    }
    let Some(other) = key_of(app, &token).await? else { return Ok(None) };
    tracing::warn!(
        code = "auth.cross_cluster_attempt", key_of = %other.cluster, at = path,
        "a cluster used its key on another cluster"
    );
    let detail = format!("the key of cluster {} is not valid for cluster {named}", other.cluster);
    Err(Problem::new(ProblemCode::CrossCluster, detail)
        .to(Requester::named(format!("cluster {}", other.cluster))))
}

/// Returns the cluster whose key is the token.
async fn key_of(app: &SharedState, token: &Token) -> Result<Option<ClusterKey>, Problem> {
    let page = Page { limit: 1, after: None };
    let now = app.engine.clock().now();
    let opens = |key: &ClusterKey| key.status_of(now, |hash| token.matches(hash)).is_some();
    let (mut found, _) = documents::<ClusterKey>(app, "", &page, opens).await?;
    Ok(found.pop())
}

/// The error for a token that is not a user's. The key of a cluster is known, but only valid for the routes of the cluster (S-7).
async fn unknown_token(
    app: &SharedState,
    header: Option<&str>,
    whose: Option<String>,
) -> Result<Problem, Problem> {
    let key = match header.and_then(bearer) {
        Some(token) => key_of(app, &token).await?,
        None => None,
    };
    Ok(match key {
        Some(key) => Problem::new(
            ProblemCode::Forbidden,
            format!("the key of cluster {} is only valid to push facts of that cluster", key.cluster),
        )
        .to(Requester::named(format!("cluster {}", key.cluster))),
        None => {
            let expired = match header.and_then(bearer) {
                Some(token) => expiry(&**app.engine.store(), &token, app.engine.clock().now()).await,
                None => None,
            };
            let detail = match expired {
                Some(at) => format!("the token expired at {}", format_time(at)),
                None => "the token is unknown or revoked".to_owned(),
            };
            let problem = Problem::new(ProblemCode::BadToken, detail);
            // The audit names the owner of the token; the answer does not.
            whose.into_iter().fold(problem, |problem, whose| problem.to(Requester::named(whose)))
        }
    })
}

/// The error for the bootstrap token after its end.
fn bootstrap_ended(by: &str) -> Problem {
    Problem::new(ProblemCode::BadToken, explain_end(by)).to(Requester::named("admin".to_owned()))
}

/// Ends the bootstrap token after another administrator has authenticated. After an error, the next call tries again.
async fn end_bootstrap(app: &SharedState, caller: &Caller) {
    if app.bootstrap_ended.load(Ordering::Acquire) {
        return;
    }
    match end_bootstrap_token(&app.engine, caller).await {
        Ok(true) => app.bootstrap_ended.store(true, Ordering::Release),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "cannot end the bootstrap token yet"),
    }
}

pub(in crate::http) async fn authorize(
    app: &SharedState,
    access: Access,
    header: Option<&str>,
    how: RequestContext,
) -> Result<Caller, Problem> {
    let law = app.access.law();
    let caller = match authenticate(&**app.engine.store(), law, header, how.at).await {
        Ok(caller) => {
            let token = header.and_then(bearer);
            token.into_iter().for_each(|token| app.uses.note(&token.id, how.at));
            end_bootstrap(app, &caller).await;
            caller.asking(how)
        }
        Err(Denied::NoToken) => {
            return Err(Problem::new(ProblemCode::NoToken, "the request has no bearer token"));
        }
        Err(Denied::BootstrapEnded(by)) => return Err(bootstrap_ended(&by)),
        Err(Denied::BadToken(whose)) => return Err(unknown_token(app, header, whose).await?),
        Err(Denied::Store(error)) => return Err(error.into()),
    };
    let (verb, place) = match access {
        Access::Open | Access::Agent => return Ok(caller),
        Access::Tenant(verb) => (verb, caller.place()),
        Access::Staff(verb) | Access::Near(verb) | Access::Cluster(verb, _) => {
            (verb, ResourceScope::Platform)
        }
    };
    match require(&caller, verb, place, &verb_phrase(verb)) {
        Ok(()) => Ok(caller),
        Err(problem) => Err(problem.to(Requester::from(&caller))),
    }
}

/// Rejects the request if the policies do not permit it to `caller` at `place`; `what` describes it.
pub(in crate::http) fn require(
    caller: &Caller,
    verb: Verb,
    place: ResourceScope<'_>,
    what: &str,
) -> Result<(), Problem> {
    let decision = caller.decide(verb, place);
    if decision.allows {
        return Ok(());
    }
    if let (Some(tenant), ResourceScope::Platform) = (&caller.tenant, place) {
        let detail = format!("{} is bound to tenant {tenant} and may not {what}", caller.name);
        return Err(with_policies(Problem::new(ProblemCode::ForeignTenant, detail), caller, &decision));
    }
    let names = |roles: &[Role]| roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ");
    let (held, wanted) = (names(&caller.roles), names(&caller.law().roles(verb)));
    let detail = format!("{} has {held} and may not {what}", caller.name);
    // Other roles do not help if a policy forbids the request.
    let remedy = if decision.by.is_empty() {
        format!("; required is one of the roles {wanted}")
    } else {
        String::new()
    };
    Err(with_explanation(caller, &decision, &detail, &remedy))
}

fn with_explanation(caller: &Caller, decision: &Decision, detail: &str, remedy: &str) -> Problem {
    let detail = format!("{detail}: {}{remedy}", decision.why());
    with_policies(Problem::new(ProblemCode::Forbidden, detail), caller, decision)
}

/// Adds the policies that decided, for programs.
fn with_policies(problem: Problem, caller: &Caller, decision: &Decision) -> Problem {
    problem.with("policies", decision.by.clone()).with("policies_version", caller.law().version())
}

fn verb_phrase(verb: Verb) -> String {
    verb.name().replace('_', " ")
}
