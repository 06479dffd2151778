//! Extractors of requests. Their errors name the position of the fault.

mod bounds;
pub(crate) mod dry_run;
pub(crate) mod if_match;
pub(crate) mod page;

use crate::{
    auth::Caller,
    http::problem::{Problem, code::ProblemCode},
    state::{ServerState, connections::BodyTimeout, document_pool::DocumentPool},
    types::problems::Fault,
};
use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, Request, rejection::QueryRejection},
    http::{HeaderMap, header, request::Parts},
};
use bounds::Bounded;
use serde::de::DeserializeOwned;
use std::error::Error;

/// The query parameters.
pub(super) struct QueryParams<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + 'static> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong = |rejected: QueryRejection| Problem::new(ProblemCode::QueryInvalid, rejected.body_text());
        Query::<T>::from_request_parts(parts, state).await.map(|Query(asked)| Self(asked)).map_err(wrong)
    }
}

/// A text body with its media type.
#[derive(Clone, Debug)]
pub(super) struct TextBody {
    /// The text.
    pub(super) text: String,
    /// The media type, in lower case and without parameters; empty if there is none.
    pub(super) media: String,
    /// The labels of the new execution: the headers `Tenure-Label`.
    pub(super) labels: Vec<String>,
}

impl<S: Send + Sync> FromRequest<S> for TextBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let media = media(request.headers());
        check_media(request.headers(), &media)?;
        let labels = labels(request.headers())?;
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|rejected| body_error(&rejected, rejected.body_text()))?;
        let text = String::from_utf8(body.to_vec())
            .map_err(|e| Problem::new(ProblemCode::Malformed, format!("the body is not UTF-8: {e}")))?;
        Ok(Self { text, media, labels })
    }
}

/// The supported media types; each handler chooses from them. A request without a media type is accepted, and so is the default of `curl -d`.
const MEDIA: [&str; 8] = [
    "",
    "application/json",
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
    "text/x-yaml",
    "text/csv",
    "application/x-www-form-urlencoded",
];

/// Rejects a body with an unsupported encoding or media type.
fn check_media(headers: &HeaderMap, media: &str) -> Result<(), Problem> {
    for encoding in headers.get_all(header::CONTENT_ENCODING) {
        let encoding = encoding.to_str().unwrap_or("unreadable").trim();
        if !encoding.eq_ignore_ascii_case("identity") {
            let detail =
                format!("Content-Encoding {encoding:?} is not supported; send the body without encoding");
            return Err(Problem::new(ProblemCode::MediaType, detail));
        }
    }
    if MEDIA.contains(&media) || media.ends_with("+json") {
        return Ok(());
    }
    let detail =
        format!("Content-Type {media:?} is not supported; send application/json or application/yaml");
    Err(Problem::new(ProblemCode::MediaType, detail))
}

/// The error for a body that was not read completely: it was too slow, or `otherwise`.
pub(super) fn body_error(error: &(dyn Error + 'static), otherwise: String) -> Problem {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<BodyTimeout>() {
            return Problem::new(ProblemCode::TooSlow, BodyTimeout.to_string());
        }
        cause = error.source();
    }
    Problem::new(ProblemCode::TooLarge, otherwise)
}

/// The maximum number of labels of an execution, and the maximum length of one, in bytes.
const LABELS: (usize, usize) = (16, 128);

fn labels(headers: &HeaderMap) -> Result<Vec<String>, Problem> {
    let named = headers.get_all("tenure-label").iter();
    let named: Vec<String> =
        named.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned()).collect();
    let (most, longest) = LABELS;
    let fits =
        |label: &String| !label.is_empty() && label.len() <= longest && !label.contains(char::is_control);
    if named.len() > most || !named.iter().all(fits) {
        let detail = format!("Tenure-Label: at most {most}, each of 1 to {longest} bytes, such as team=ml");
        return Err(Problem::new(ProblemCode::Malformed, detail));
    }
    Ok(named)
}

/// Returns the media type from the headers.
pub(super) fn media(headers: &HeaderMap) -> String {
    let named = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl TextBody {
    /// Returns true if the media type is JSON.
    pub(super) fn is_json(&self) -> bool {
        self.media == "application/json" || self.media.ends_with("+json")
    }

    /// Returns true if the media type is YAML.
    pub(super) fn is_yaml(&self) -> bool {
        is_yaml(&self.media)
    }
}

/// Returns true if `media` is a YAML type.
pub(super) fn is_yaml(media: &str) -> bool {
    matches!(media, "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml")
}

/// Parses the body with `read`. A long body is parsed on a blocking thread.
pub(super) async fn understood<T: Send + 'static>(
    app: &ServerState,
    caller: &Caller,
    body: TextBody,
    read: impl FnOnce(&TextBody) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let length = body.text.len();
    app.documents.read(caller.owner(), length, move || read(&body)).await?
}

/// The parser pool and the tenant of an authenticated request.
#[derive(Clone)]
pub(super) struct Reads(pub(super) DocumentPool, pub(super) String);

/// A JSON body.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let reads = request.extensions().get::<Reads>().cloned();
        let body = TextBody::from_request(request, state).await?;
        let length = body.text.len();
        let read = move || {
            // An empty body counts as an empty object, so that commands without arguments need no body.
            let text = if body.text.trim().is_empty() { "{}" } else { &body.text };
            parse_json(text).map(Self)
        };
        match reads {
            Some(Reads(pool, owner)) => pool.read(&owner, length, read).await?,
            None => read(),
        }
    }
}

/// A JSON body of a type from another crate, which has no schema; the route documents it.
pub(super) struct RawJsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static> FromRequest<S> for RawJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        JsonBody::from_request(request, state).await.map(|JsonBody(sent)| Self(sent))
    }
}

/// Parses JSON.
pub(super) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let read = serde_json::from_str::<Bounded>(text).and_then(|Bounded| serde_json::from_str(text));
    read.map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let words = error.to_string();
        let message = words.split(" at line ").next().unwrap_or(&words).to_owned();
        let place = |n: usize| u64::try_from(n).ok().filter(|n| *n > 0);
        let fault = Fault { pointer: field_in(&message), message, line: place(line), column: place(column) };
        Problem::new(ProblemCode::Malformed, format!("the body is not valid JSON for this route: {words}"))
            .at(vec![fault])
    })
}

/// Parses YAML.
pub(super) fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let read = workflows::yaml::read::<Bounded>(text).and_then(|Bounded| workflows::yaml::read(text));
    read.map_err(|error| {
        let mend = error.remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
        Problem::new(ProblemCode::Malformed, format!("the body is not valid for this route: {error}{mend}"))
    })
}

/// Returns the field that serde names between backquotes, as a JSON pointer.
fn field_in(message: &str) -> String {
    let named = message.contains("field `").then(|| message.split('`').nth(1)).flatten();
    named.map(|name| format!("/{name}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_media_types_and_encodings_are_rejected() {
        for (name, value, taken) in [
            ("content-type", "application/json", true),
            ("content-type", "application/json; charset=utf-8", true),
            ("content-type", "Application/YAML", true),
            ("content-type", "application/cloudevents+json", true),
            ("content-type", "text/csv", true),
            ("content-type", "text/html", false),
            ("content-type", "multipart/form-data; boundary=x", false),
            ("content-type", "image/png", false),
            ("content-encoding", "identity", true),
            ("content-encoding", "gzip", false),
            ("content-encoding", "br", false),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            let checked = check_media(&headers, &media(&headers));
            assert_eq!(checked.is_ok(), taken, "{name}: {value}");
        }
        assert!(check_media(&HeaderMap::new(), "").is_ok());
    }
}
