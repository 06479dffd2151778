//! `If-Match`: a change is made only to the version that the caller read.
//!
//! A route supports the header by taking an [`IfMatch`]; all other routes reject it, so that no client relies on an ignored condition. Invariant: for ledger
//! changes, the changing commit itself compares the version.

use crate::http::problem::{Problem, code::ProblemCode};
use axum::{
    Json,
    extract::{FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use engine::{ActionError, Entity, Precondition, Undecided, View, with_precondition};
use serde::Serialize;
use std::{convert::Infallible, future::Future};
use store::{Revision, Sequence};

/// The value of `If-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum IfMatch {
    /// The request has no such header.
    Whatever,
    /// `*`: the resource must exist.
    There,
    /// The resource must have one of these tags. An invalid tag matches nothing.
    At(Vec<String>),
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

/// Returns the `ETag` of a document at this version.
pub(in crate::http) fn tag(version: Sequence) -> String {
    format!("\"{}\"", version.0)
}

/// Returns an answer with the `ETag` of its resource.
pub(in crate::http) fn tagged(tag: String, body: impl Serialize) -> Response {
    ([(header::ETAG, tag)], Json(body)).into_response()
}

impl IfMatch {
    pub(in crate::http) fn of(headers: &HeaderMap) -> Self {
        let mut said = Vec::new();
        for value in headers.get_all(header::IF_MATCH) {
            said.extend(tags(&String::from_utf8_lossy(value.as_bytes())));
        }
        match &said[..] {
            [] if !headers.contains_key(header::IF_MATCH) => Self::Whatever,
            [only] if only == "*" => Self::There,
            _ => Self::At(said),
        }
    }

    /// Returns true if the request has the header.
    pub(in crate::http) fn is_said(&self) -> bool {
        *self != Self::Whatever
    }

    /// Returns true if the condition accepts a resource with this tag, or without one.
    fn takes(&self, stands: Option<&str>) -> bool {
        match self {
            Self::Whatever => true,
            Self::There => stands.is_some(),
            Self::At(tags) => stands.is_some_and(|stands| tags.iter().any(|tag| tag == stands)),
        }
    }

    fn why(&self, what: &str, stands: Option<&str>) -> String {
        let said = match self {
            Self::Whatever => String::new(),
            Self::There => "*".to_owned(),
            Self::At(tags) => tags.join(", "),
        };
        let said: String = said.chars().take(200).collect();
        match stands {
            Some(stands) => format!("If-Match is {said}, but {what} has the version {stands}"),
            None => format!("If-Match is {said}, but {what} does not exist"),
        }
    }

    /// Rejects a resource with another tag, with the code `stale`.
    pub(in crate::http) fn check(&self, stale: ProblemCode, what: &str, stands: &str) -> Result<(), Problem> {
        if self.takes(Some(stands)) {
            return Ok(());
        }
        Err(Problem::new(stale, self.why(what, Some(stands))))
    }

    /// Returns the revision that a command to an execution requires, if any.
    pub(in crate::http) fn revision(&self, stands: Revision) -> Result<Option<Revision>, Problem> {
        let told = format!("\"{stands}\"");
        let stale = |problem: Problem| problem.with("revision", stands.to_string());
        self.check(ProblemCode::StaleRevision, "the execution", &told).map_err(stale)?;
        Ok(matches!(self, Self::At(_)).then_some(stands))
    }

    /// Returns the version that a change of a document requires, if any.
    pub(in crate::http) fn version(&self, what: &str, stands: Sequence) -> Result<Option<Sequence>, Problem> {
        self.check(ProblemCode::StaleTag, what, &tag(stands))?;
        Ok(matches!(self, Self::At(_)).then_some(stands))
    }

    /// Runs `work`, which changes the document `id` in the ledger, on the condition that the document has an accepted version.
    pub(in crate::http) async fn bind<T: Entity, F: Future>(
        self,
        what: &str,
        id: &str,
        work: F,
    ) -> F::Output {
        let id = id.to_owned();
        self.bind_to("request.stale_tag", what, move |view| Ok(view.version::<T>(&id)?.map(tag)), work).await
    }

    /// Runs `work`, which changes the resource with this tag in the ledger. Fails with the code `stale` if the tag has changed.
    pub(in crate::http) async fn bind_to<F: Future>(
        self,
        stale: &'static str,
        what: &str,
        tag: impl Fn(&mut View) -> Result<Option<String>, Undecided> + Send + Sync + 'static,
        work: F,
    ) -> F::Output {
        if !self.is_said() {
            return work.await;
        }
        let what = what.to_owned();
        let condition = Precondition::new(move |view| {
            let stands = tag(view)?;
            if self.takes(stands.as_deref()) {
                return Ok(());
            }
            Err(ActionError {
                code: stale.to_owned(),
                ..precondition_failed(self.why(&what, stands.as_deref()))
            }
            .into())
        });
        with_precondition(condition, work).await
    }
}

fn precondition_failed(why: String) -> ActionError {
    ActionError::permanent("request.stale_tag", why)
}

/// Splits a list of tags, each with its quotes. A comma inside the quotes is part of the tag.
fn tags(text: &str) -> Vec<String> {
    let (mut all, mut inside) = (vec![String::new()], false);
    for c in text.chars() {
        inside ^= c == '"';
        match all.last_mut() {
            Some(last) if c != ',' || inside => last.push(c),
            Some(_) | None => all.push(String::new()),
        }
    }
    all.iter().map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect()
}

/// Rejects a request with `If-Match` on a route that does not compare it.
pub(in crate::http) async fn reject_if_match(request: Request, next: Next) -> Response {
    if !request.headers().contains_key(header::IF_MATCH) {
        return next.run(request).await;
    }
    let detail = "If-Match: this route does not support it; remove the header";
    Problem::new(ProblemCode::HeaderUnsupported, detail).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn said(values: &[&str]) -> IfMatch {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::IF_MATCH, HeaderValue::from_str(value).unwrap());
        }
        IfMatch::of(&headers)
    }

    #[test]
    fn one_matching_tag_of_several_is_enough_and_an_invalid_tag_matches_nothing() {
        assert_eq!(said(&[]), IfMatch::Whatever);
        assert_eq!(said(&[" * "]), IfMatch::There);
        let (seven, there) = (Some("\"7\""), Some("\"x,y\""));
        assert!(said(&["\"1\", \"7\""]).takes(seven) && said(&["\"1\"", "\"7\""]).takes(seven));
        assert!(said(&["\"x,y\""]).takes(there), "a comma inside a tag is part of the tag");
        for wrong in ["7", "W/\"7\"", "\"7", "", ",", "\"17\""] {
            assert!(!said(&[wrong]).takes(seven), "{wrong}");
        }
        assert!(said(&["*"]).takes(seven) && !said(&["*"]).takes(None));
        assert!(said(&[]).takes(None) && !said(&["\"7\""]).takes(None));
    }

    #[test]
    fn only_a_tag_makes_a_command_conditional_on_a_revision() {
        let stands = Revision(7);
        assert_eq!(said(&[]).revision(stands).unwrap(), None);
        assert_eq!(said(&["*"]).revision(stands).unwrap(), None);
        assert_eq!(said(&["\"7\""]).revision(stands).unwrap(), Some(stands));
        assert_eq!(said(&["\"6\""]).revision(stands).unwrap_err().status().as_u16(), 412);
    }
}
