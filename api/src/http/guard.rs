//! Lets a request in, or says why not. Wraps every route with the access that its table entry names.

use super::{code::Code, idempotency, problem::Problem, route::Access};
use crate::{
    app::Shared,
    auth::{Caller, Denied, Verb, authenticate},
};
use axum::{
    extract::{Request, State},
    http::{Method, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use std::sync::atomic::Ordering;

/// Checks `access`, then answers; a repeated `Idempotency-Key` gets the earlier answer.
pub(super) async fn guard(
    State((app, access)): State<(Shared, Access)>,
    mut request: Request,
    next: Next,
) -> Response {
    if access == Access::Open {
        return next.run(request).await;
    }
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let header = header.map(ToOwned::to_owned);
    let caller = match admit(&app, access, header.as_deref()).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    tracing::Span::current().record("caller", caller.name.as_str());
    let changes = request.method() != Method::GET;
    if changes && app.stopping.load(Ordering::Acquire) {
        return Problem::new(Code::Stopping, "the server is stopping").into_response();
    }
    request.extensions_mut().insert(caller.clone());
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    idempotency::answer(&app, &caller, request, next).await.unwrap_or_else(|problem| problem.into_response())
}

async fn admit(app: &Shared, access: Access, header: Option<&str>) -> Result<Caller, Problem> {
    let caller = authenticate(&**app.engine.store(), header).await.map_err(|denied| match denied {
        Denied::NoToken => Problem::new(Code::NoToken, "the request carries no bearer token"),
        Denied::BadToken => Problem::new(Code::BadToken, "the token is not known, or no longer"),
        Denied::Store(error) => error.into(),
    })?;
    let verb = match access {
        Access::Open => return Ok(caller),
        Access::Tenant(verb) => verb,
        Access::Staff(verb) => match &caller.tenant {
            None => verb,
            Some(tenant) => {
                let detail =
                    format!("{} is bound to tenant {tenant} and may not {}", caller.name, words(verb));
                return Err(Problem::new(Code::ForeignTenant, detail));
            }
        },
    };
    if caller.may(verb) {
        return Ok(caller);
    }
    let held: Vec<_> = caller.roles.iter().map(|role| role.name()).collect();
    let wanted: Vec<_> = verb.roles().iter().map(|role| role.name()).collect();
    let detail = format!(
        "{} holds {} and may not {}; one of these may: {}",
        caller.name,
        held.join(", "),
        words(verb),
        wanted.join(", ")
    );
    Err(Problem::new(Code::Forbidden, detail))
}

fn words(verb: Verb) -> String {
    <&str>::from(verb).replace('_', " ")
}
