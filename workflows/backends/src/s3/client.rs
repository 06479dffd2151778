//! Sends signed requests and classifies the answers.

use crate::s3::{
    settings::{Account, S3Target},
    xml::Node,
};
use crate::{connection_settings, http_response, outbound};
use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{
        PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
        UriPathNormalizationMode, sign,
    },
    sign::v4,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use engine::ActionError;
use md5::{Digest, Md5};
use reqwest::{Method, StatusCode, header::HeaderMap};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use workflows::platform::codes;

/// The longest excerpt of an answer in a message, in characters.
const EXCERPT: usize = 200;

/// A client with the credentials of one account.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: String,
    region: String,
    host: Option<String>,
    account: Account,
    field: &'static str,
}

/// A request.
#[derive(Debug, Default)]
pub(super) struct S3Request<'a> {
    pub(super) method: Method,
    pub(super) bucket: &'a str,
    /// The object's key; empty for the bucket itself.
    pub(super) key: &'a str,
    /// Names and values; a name without a value has an empty one.
    pub(super) query: Vec<(&'a str, &'a str)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
    /// True if the request can change something.
    pub(super) changes: bool,
}

impl<'a> S3Request<'a> {
    pub(super) fn get(bucket: &'a str, query: &[(&'a str, &'a str)]) -> Self {
        Self { bucket, query: query.to_vec(), ..Self::default() }
    }

    pub(super) fn put(bucket: &'a str, query: &[(&'a str, &'a str)], body: String) -> Self {
        Self { method: Method::PUT, bucket, query: query.to_vec(), body, changes: true, ..Self::default() }
    }

    pub(super) fn delete(bucket: &'a str, key: &'a str, query: &[(&'a str, &'a str)]) -> Self {
        let query = query.to_vec();
        Self { method: Method::DELETE, bucket, key, query, changes: true, ..Self::default() }
    }
}

/// A successful answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: String,
    changed: bool,
}

impl Answer {
    /// Parses the answer as XML with this root element.
    pub(super) fn document(&self, root: &str) -> Result<Node, ActionError> {
        Node::document(&self.body, root).map_err(|why| http_response::unreadable(why, self.changed))
    }
}

/// A failed request.
#[derive(Debug)]
pub(super) struct Refused {
    /// The store's error code; may be empty.
    pub(super) code: String,
    /// The HTTP status, if there was an answer.
    pub(super) status: Option<StatusCode>,
    pub(super) error: ActionError,
}

impl Refused {
    /// Returns true if the store's error code is one of these.
    pub(super) fn is(&self, codes: &[&str]) -> bool {
        codes.contains(&self.code.as_str())
    }
}

impl From<Refused> for ActionError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

impl From<ActionError> for Refused {
    fn from(error: ActionError) -> Self {
        Self { code: String::new(), status: None, error }
    }
}

impl Client {
    pub(super) fn new(
        http: reqwest::Client,
        target: &S3Target,
        account: Account,
        field: &'static str,
    ) -> Self {
        let endpoint = target.endpoint.trim_end_matches('/').to_owned();
        let (region, host) = (target.signing_region.clone(), target.signed_host.clone());
        Self { http, endpoint, region, host, account, field }
    }

    /// Sends a request and waits for the answer until `until`.
    pub(super) async fn send(&self, ask: &S3Request<'_>, until: Instant) -> Result<Answer, Refused> {
        let about = about(ask);
        let request = self.signed(ask).map_err(|why| ActionError::permanent(codes::REFUSED, why))?;
        let left = until.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(
                ActionError::transient(codes::UNAVAILABLE, format!("{about}: no time is left")).into()
            );
        }
        let answered = request.timeout(left).send().await;
        let answer = answered.map_err(|e| http_response::failure(&e, &about, ask.changes))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status.is_success() {
            let body = outbound::text(answer, outbound::PAGE).await;
            let body = body.map_err(|e| http_response::unread(&e, &about, ask.changes))?;
            return Ok(Answer { headers, body, changed: ask.changes });
        }
        let said = outbound::excerpt_text(answer).await;
        Err(refused(&about, status, &headers, &said, ask.changes))
    }

    fn signed(&self, ask: &S3Request<'_>) -> Result<reqwest::RequestBuilder, String> {
        let secret = connection_settings::secret(self.field, &self.account.secret_key_file)
            .map_err(|e| e.to_string())?;
        let url = format!("{}{}", self.endpoint, path(ask)?);
        let parsed = reqwest::Url::parse(&url).map_err(|e| e.to_string())?;
        let mut headers: Vec<(&str, String)> = ask.headers.clone();
        let host = parsed.host_str().ok_or("the endpoint has no host")?;
        let host = parsed.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        headers.push(("host", self.host.clone().unwrap_or(host)));
        if !ask.body.is_empty() {
            headers.push(("content-md5", STANDARD.encode(Md5::digest(ask.body.as_bytes()))));
        }
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let identity =
            Credentials::new(&self.account.access_key_id, secret, None, None, "tenure settings").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("s3")
            // A signature contains the wall clock time, regardless of the engine's clock: the store compares it with
            // its own.
            .time(SystemTime::from(chrono::Utc::now()))
            .settings(settings)
            .build()
            .map_err(|e| e.to_string())?
            .into();
        let named = headers.iter().map(|(name, value)| (*name, value.as_str()));
        let body = SignableBody::Bytes(ask.body.as_bytes());
        let signable = SignableRequest::new(ask.method.as_str(), &url, named, body)
            .map_err(|e| format!("{} cannot be signed: {e}", about(ask)))?;
        let (signed, _) = sign(signable, &params).map_err(|e| e.to_string())?.into_parts();
        let mut request = self.http.request(ask.method.clone(), parsed);
        for (name, value) in &headers {
            request = request.header(*name, value);
        }
        for (name, value) in signed.headers() {
            request = request.header(name, value);
        }
        Ok(request.body(ask.body.clone()))
    }
}

/// Describes the request without the object's key, which can be personal data.
fn about(ask: &S3Request<'_>) -> String {
    let what = ask.query.first().map_or("", |(name, _)| name);
    let object = if ask.key.is_empty() { "" } else { "/…" };
    format!("{} {}{object}?{what}", ask.method, ask.bucket).trim_end_matches('?').to_owned()
}

/// Returns path and query with the encoding that signatures require: everything except `A-Z a-z 0-9 - _ . ~` and
/// slashes in keys.
fn path(ask: &S3Request<'_>) -> Result<String, String> {
    if ask.key.split('/').any(|part| part == "." || part == "..") {
        return Err(format!(
            "an object of bucket {} has a key with . or .. between slashes, which no path can name: remove it by other means",
            ask.bucket
        ));
    }
    let mut path = format!("/{}", encoded(ask.bucket, false));
    if !ask.key.is_empty() {
        path = format!("{path}/{}", encoded(ask.key, true));
    }
    let query: Vec<String> =
        ask.query.iter().map(|(name, value)| format!("{name}={}", encoded(value, false))).collect();
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    Ok(path)
}

fn encoded(text: &str, slashes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b'/' if slashes => out.push('/'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn refused(about: &str, status: StatusCode, headers: &HeaderMap, body: &str, changes: bool) -> Refused {
    let told = Node::document(body, "Error").unwrap_or_default();
    let code = told.text("Code").to_owned();
    let excerpt: String =
        if code.is_empty() { body.chars().take(EXCERPT).collect() } else { told.text("Message").to_owned() };
    let said = format!("{about}: {code} {excerpt}").trim_end().to_owned();
    let error = match code.as_str() {
        "RequestTimeTooSkewed" => {
            let why =
                "the clocks of this machine and of the store are more than 15 minutes apart: set them right";
            ActionError::transient(codes::UNAVAILABLE, format!("{said}: {why}"))
        }
        "NoSuchBucket" => ActionError::permanent(codes::OBJECT_MISSING, said),
        "BucketNotEmpty" => ActionError::permanent(codes::BUCKET_NOT_EMPTY, said),
        "BucketAlreadyExists" => ActionError::permanent(
            codes::OBJECT_FOREIGN,
            format!("{said}: another account has a bucket of that name"),
        ),
        // Another change of the same bucket is in progress.
        "OperationAborted" => ActionError::transient(codes::UNAVAILABLE, said),
        _ => http_response::refusal(status, headers, &said, changes)
            .unwrap_or_else(|| http_response::unreadable(format!("{status}: {said}"), changes)),
    };
    Refused { code, status: Some(status), error }
}

#[cfg(test)]
mod tests {
    use super::{S3Request, encoded, path, refused};
    use engine::Class;
    use reqwest::{StatusCode, header::HeaderMap};
    use std::time::Duration;
    use workflows::platform::codes;

    fn class(status: u16, code: &str, changes: bool) -> (Class, String) {
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message></Message></Error>");
        let error =
            refused("PUT b", StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), &body, changes).error;
        (error.class, error.code)
    }

    #[test]
    fn every_refusal_of_an_object_store_has_an_error_class() {
        for (status, code, changes, class_is, code_is) in [
            (403, "AccessDenied", true, Class::Permanent, codes::DENIED),
            (403, "SignatureDoesNotMatch", false, Class::Permanent, codes::DENIED),
            (403, "RequestTimeTooSkewed", true, Class::Transient, codes::UNAVAILABLE),
            (404, "NoSuchBucket", true, Class::Permanent, codes::OBJECT_MISSING),
            (409, "BucketNotEmpty", true, Class::Permanent, codes::BUCKET_NOT_EMPTY),
            (409, "BucketAlreadyExists", true, Class::Permanent, codes::OBJECT_FOREIGN),
            (409, "OperationAborted", true, Class::Transient, codes::UNAVAILABLE),
            (400, "InvalidArgument", true, Class::Permanent, codes::REFUSED),
            (500, "InternalError", true, Class::Unknown, codes::NO_ANSWER),
            (500, "InternalError", false, Class::Transient, codes::UNAVAILABLE),
            (503, "SlowDown", true, Class::Transient, codes::UNAVAILABLE),
        ] {
            assert_eq!(class(status, code, changes), (class_is, code_is.to_owned()), "{status} {code}");
        }
    }

    /// A 404 from a proxy must not count as an absent bucket.
    #[test]
    fn a_not_found_of_another_server_says_nothing_about_a_bucket() {
        let error = refused("GET b", StatusCode::NOT_FOUND, &HeaderMap::new(), "<html>404</html>", false);
        assert_eq!((error.code.as_str(), error.error.code.as_str()), ("", codes::UNSUPPORTED));
    }

    #[test]
    fn a_retry_after_of_a_store_is_respected() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "3".parse().unwrap());
        let body = "<Error><Code>SlowDown</Code></Error>";
        let error = refused("GET b", StatusCode::SERVICE_UNAVAILABLE, &headers, body, true).error;
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_key_is_named_only_by_its_path() {
        assert_eq!(encoded("a b+c%/é\u{1}", true), "a%20b%2Bc%25/%C3%A9%01");
        let ask = S3Request::delete("b", "k/ö", &[("versionId", "a+b")]);
        assert_eq!(path(&ask).unwrap(), "/b/k/%C3%B6?versionId=a%2Bb");
        assert!(path(&S3Request::delete("b", "a/../k", &[])).unwrap_err().contains("by other means"));
    }
}
