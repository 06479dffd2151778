//! Locks of object versions: a legal hold, or a retention until a date.

use crate::http_response;
use crate::s3::{
    S3,
    client::{Answer, Client, Refused, S3Request},
    contents::Version,
    settings::S3Target,
};
use chrono::{DateTime, SecondsFormat, Utc};
use engine::ActionError;
use reqwest::{Method, StatusCode};
use tokio::time::Instant;
use workflows::platform::UNTIL_LIFTED;

/// The error codes for a version without a hold or retention, and for a store that does not implement the request.
const NOT_LOCKED: [&str; 3] =
    ["NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", "NotImplemented"];
/// The error codes for a version that no longer exists.
const GONE: [&str; 2] = ["NoSuchKey", "NoSuchVersion"];

/// A lock that prevents the removal of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    /// The end of the lock.
    pub(super) until: String,
    /// The key store's key that encrypts the version.
    pub(super) under: Option<String>,
}

/// The locks of a version, as the store reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Locks {
    hold: Option<String>,
    mode: Option<String>,
    day: Option<String>,
}

impl S3 {
    /// Returns true if the bucket supports object locks.
    pub(super) async fn locks(
        &self,
        client: &Client,
        bucket: &str,
        until: Instant,
    ) -> Result<bool, ActionError> {
        match client.send(&S3Request::get(bucket, &[("object-lock", "")]), until).await {
            Ok(answer) => {
                let document = answer.document("ObjectLockConfiguration")?;
                Ok(document.text("ObjectLockEnabled") == "Enabled")
            }
            Err(refused) if refused.is(&["ObjectLockConfigurationNotFoundError", "NotImplemented"]) => {
                Ok(false)
            }
            Err(refused) => Err(refused.into()),
        }
    }

    /// Returns the lock of a version and its key, if it has one. Delete markers are never locked.
    ///
    /// HEAD omits a hold and a retention that the caller may not read. Each is therefore requested by name if HEAD does
    /// not return it, and a refusal is an error.
    pub(super) async fn locked(
        &self,
        client: &Client,
        bucket: &str,
        version: &Version,
        locks: bool,
        until: Instant,
    ) -> Result<Option<Lock>, ActionError> {
        if !locks || version.marker {
            return Ok(None);
        }
        let ask = S3Request {
            method: Method::HEAD,
            bucket,
            key: &version.key,
            query: vec![("versionId", &version.id)],
            ..S3Request::default()
        };
        let answer = match client.send(&ask, until).await {
            Ok(answer) => answer,
            // The version was removed concurrently. The answer to HEAD has no body with an error code.
            Err(refused) if refused.status == Some(StatusCode::NOT_FOUND) => return Ok(None),
            Err(refused) if refused.status == Some(StatusCode::BAD_REQUEST) => {
                return Err(undescribed(bucket, refused));
            }
            Err(refused) => return Err(refused.into()),
        };
        let header =
            |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut locks = Locks {
            hold: header("x-amz-object-lock-legal-hold"),
            mode: header("x-amz-object-lock-mode"),
            day: header("x-amz-object-lock-retain-until-date"),
        };
        if locks.hold.is_none() {
            locks.hold = self.legal_hold(client, bucket, version, until).await?;
        }
        if locks.mode.is_none()
            && let Some((mode, day)) = self.retention(client, bucket, version, until).await?
        {
            (locks.mode, locks.day) = (Some(mode), Some(day));
        }
        let until =
            kept(&self.target, &locks, Utc::now()).map_err(|why| http_response::unreadable(why, false))?;
        let by_key_store = header("x-amz-server-side-encryption").is_some_and(|by| by.starts_with("aws:kms"));
        let key = header("x-amz-server-side-encryption-aws-kms-key-id").unwrap_or_default();
        Ok(until.map(|until| Lock { until, under: by_key_store.then_some(key) }))
    }

    /// Returns the status of a version's legal hold, if it has one.
    async fn legal_hold(
        &self,
        client: &Client,
        bucket: &str,
        version: &Version,
        until: Instant,
    ) -> Result<Option<String>, ActionError> {
        let ask = lock_request(bucket, version, "legal-hold");
        let Some(answer) = known_lock(client.send(&ask, until).await)? else { return Ok(None) };
        Ok(Some(answer.document("LegalHold")?.text("Status").to_owned()))
    }

    /// Returns the mode and the date of a version's retention, if it has one.
    ///
    /// A store that does not implement the request (moto) sends the object instead. The request asks for its first
    /// bytes only, and such an answer is ignored.
    async fn retention(
        &self,
        client: &Client,
        bucket: &str,
        version: &Version,
        until: Instant,
    ) -> Result<Option<(String, String)>, ActionError> {
        let headers = vec![("range", "bytes=0-4095".to_owned())];
        let ask = S3Request { headers, ..lock_request(bucket, version, "retention") };
        let answer = match client.send(&ask, until).await {
            Err(refused) if refused.status == Some(StatusCode::RANGE_NOT_SATISFIABLE) => return Ok(None),
            answered => known_lock(answered)?,
        };
        let told = answer.and_then(|answer| answer.document("Retention").ok());
        Ok(told.map(|told| (told.text("Mode").to_owned(), told.text("RetainUntilDate").to_owned())))
    }
}

/// Requests one kind of lock of a version.
fn lock_request<'a>(bucket: &'a str, version: &'a Version, name: &'a str) -> S3Request<'a> {
    let query = vec![(name, ""), ("versionId", version.id.as_str())];
    S3Request { bucket, key: &version.key, query, ..S3Request::default() }
}

/// Returns the store's answer about a lock, or `None` if the lock or the version does not exist.
fn known_lock(answered: Result<Answer, Refused>) -> Result<Option<Answer>, ActionError> {
    match answered {
        Ok(answer) => Ok(Some(answer)),
        Err(refused) if refused.is(&NOT_LOCKED) || refused.is(&GONE) => Ok(None),
        Err(refused) => Err(refused.into()),
    }
}

/// Returns the error for a version that its store does not describe, with a remedy.
fn undescribed(bucket: &str, refused: Refused) -> ActionError {
    let error = ActionError::from(refused);
    let why = format!(
        "{}: the store does not describe a version in bucket {bucket}, probably because it is encrypted with a customer key (SSE-C), so its locks are unknown; let the owner remove such versions, then retry",
        error.message
    );
    ActionError { message: why, ..error }
}

/// Returns the end of the lock from legal hold, mode and date; `None` if the version is not locked.
fn kept(target: &S3Target, locks: &Locks, now: DateTime<Utc>) -> Result<Option<String>, String> {
    if locks.hold.as_ref().is_some_and(|hold| hold.eq_ignore_ascii_case("on")) {
        return Ok(Some(UNTIL_LIFTED.into()));
    }
    let Some(mode) = locks.mode.as_deref().filter(|mode| !mode.is_empty()) else { return Ok(None) };
    let day = locks.day.as_deref().unwrap_or_default();
    if mode.eq_ignore_ascii_case("governance") && target.bypass_governance {
        return Ok(None);
    }
    let day = DateTime::parse_from_rfc3339(day).map_err(|e| format!("{day:?} is not a date: {e}"))?.to_utc();
    Ok((day > now).then(|| day.to_rfc3339_opts(SecondsFormat::Secs, true)))
}

#[cfg(test)]
mod tests;
