//! `?dry_run=true`: the request changes nothing, and its answer shows the effect that it would have.
//!
//! A route supports dry runs by taking a [`DryRun`]. Invariant: a changing request with an unknown parameter is rejected, so a dry run is never performed by a
//! route that does not support it.

use crate::http::{
    extract::QueryParams,
    problem::{Problem, code::ProblemCode},
};
use axum::{
    extract::{FromRequestParts, Request},
    http::request::Parts,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The name of the parameter, and of the field in bodies.
pub(in crate::http) const NAME: &str = "dry_run";

/// True if the request is a dry run.
pub(in crate::http) struct DryRun(bool);

/// The query parameter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Parameter {
    #[serde(default)]
    dry_run: bool,
}

impl DryRun {
    /// Returns true if the request must change nothing.
    pub(in crate::http) fn is_wanted(&self) -> bool {
        self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for DryRun {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let QueryParams(Parameter { dry_run }) = QueryParams::from_request_parts(parts, state).await?;
        Ok(Self(dry_run))
    }
}

/// Rejects every parameter on a changing route that reads none.
pub(in crate::http) async fn refused(request: Request, next: Next) -> Response {
    match first_parameter(request.uri().query().unwrap_or_default()) {
        None => next.run(request).await,
        Some(name) => Problem::new(ProblemCode::QueryInvalid, why(name)).into_response(),
    }
}

fn first_parameter(query: &str) -> Option<&str> {
    let mut parts = query.split('&').filter(|part| !part.is_empty());
    parts.next().map(|part| part.split('=').next().unwrap_or(part))
}

fn why(name: &str) -> String {
    let short: String = name.chars().take(64).collect();
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.eq_ignore_ascii_case("dryrun") {
        true => format!("{short}: this route does not support dry runs; nothing was done"),
        false => format!("{short}: this route has no parameters; nothing was done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_text_after_the_question_mark_is_a_parameter() {
        assert_eq!(first_parameter(""), None);
        assert_eq!(first_parameter("&"), None);
        assert_eq!(first_parameter("dry_run"), Some("dry_run"));
        assert_eq!(first_parameter("&dryRun=All&x=1"), Some("dryRun"));
    }

    #[test]
    fn every_spelling_of_a_dry_run_is_recognised() {
        for spelled in ["dry_run", "dryRun", "dry-run", "DRYRUN"] {
            assert_eq!(
                why(spelled),
                format!("{spelled}: this route does not support dry runs; nothing was done")
            );
        }
        assert!(why("force").contains("has no parameters"));
    }
}
