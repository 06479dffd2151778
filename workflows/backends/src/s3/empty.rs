//! Empties a bucket as far as possible: unfinished uploads, all versions, and delete markers.

use crate::http_response;
use crate::s3::{
    S3,
    bucket::changed,
    client::S3Request,
    contents::{Contents, Upload, Version, count, uploads},
    scans::{Marker, Scan, ScanKind, is_short, may_continue},
    xml::escaped,
};
use engine::ActionError;
use reqwest::{Method, StatusCode};
use std::collections::BTreeMap;
use tokio::time::Instant;
use workflows::platform::{CallMetadata, EmptyProgress, codes};

/// The number of uploads that one call aborts, each with its own request.
const UPLOADS: usize = 100;
/// The answers to the removal of a version that does not exist that do not tell whether removals are allowed.
const UNTOLD: [StatusCode; 4] = [
    StatusCode::BAD_REQUEST,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::NOT_IMPLEMENTED,
];

impl S3 {
    /// Removes one page and returns what remains.
    pub(super) async fn emptied(
        &self,
        name: &str,
        uid: &str,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<EmptyProgress, ActionError> {
        let Some(standing) = self.standing(&self.platform, name, until).await? else {
            return Ok(EmptyProgress::default());
        };
        let now = self.uid(&self.platform, &standing, until).await?;
        if now != uid {
            return Err(changed(name, &now, uid));
        }
        if let Some(marks) = &standing.marks {
            marks.fence(name, stamp)?;
        }
        let mut removed = 0;
        if !stamp.dry_run {
            let open = uploads(&self.platform, name, until).await?.items;
            for upload in open.iter().take(UPLOADS) {
                removed += self.abort(name, upload, until).await?;
            }
            removed += self.remove_versions(name, until).await?;
        }
        let held = self.holdings(&self.platform, name, until).await?;
        Ok(EmptyProgress {
            removed,
            left: held.removable(),
            locked: held.locked,
            locked_until: held.locked_until,
        })
    }

    /// Returns the reason why the platform may not remove versions of the bucket.
    ///
    /// S3 has no dry run, so this requests the removal of a version that does not exist, under a random key. It creates no delete marker, because it
    /// names a version.
    pub(super) async fn refusal_to_remove(
        &self,
        name: &str,
        until: Instant,
    ) -> Result<Option<String>, ActionError> {
        let key = format!(".tenure-may-remove-{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        // It changes nothing, so a request without an answer is repeated like any read.
        let ask = S3Request { changes: false, ..S3Request::delete(name, &key, &[("versionId", "null")]) };
        match self.platform.send(&ask, until).await {
            Ok(_) => Ok(None),
            Err(refused) if refused.is(&["AccessDenied"]) => Ok(Some(format!(
                "its store denies the platform the removal of its objects ({}): change the policy of the bucket or of the account",
                ActionError::from(refused).message
            ))),
            // The store has no such version or no such bucket, or does not accept this version id.
            Err(refused) if refused.status.is_some_and(|status| UNTOLD.contains(&status)) => Ok(None),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn abort(&self, name: &str, upload: &Upload, until: Instant) -> Result<u64, ActionError> {
        let ask = S3Request::delete(name, &upload.key, &[("uploadId", &upload.id)]);
        match self.platform.send(&ask, until).await {
            Ok(_) => Ok(1),
            Err(refused) if refused.is(&["NoSuchUpload"]) => Ok(0),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Removes the first page of versions that contains removable ones. The next call does not read the locked pages
    /// before it again.
    async fn remove_versions(&self, name: &str, until: Instant) -> Result<u64, ActionError> {
        let (begun, platform) = (Instant::now(), &self.platform);
        let locks = self.locks(platform, name, until).await?;
        let interrupted = self.interrupted(ScanKind::Remove, platform, name).filter(|_| locks);
        let mut from = interrupted.map(|scan| scan.from);
        let keep = |from: Option<Marker>| {
            if let Some(from) = from {
                let scan = Scan { from, held: Contents::default() };
                self.interrupt(ScanKind::Remove, platform, name, scan);
            }
        };
        loop {
            let read = self.locked_page(platform, name, from.as_ref(), locks, until).await;
            if read.as_ref().is_err_and(may_continue) {
                keep(from.clone());
            }
            let (page, found) = read?;
            let free = page.items.into_iter().zip(found).filter(|(_, lock)| lock.is_none());
            let free: Vec<Version> = free.map(|(version, _)| version).collect();
            if !free.is_empty() {
                keep(from);
                return self.remove_these(name, &free, until).await;
            }
            from = page.next;
            if from.is_none() {
                return Ok(0);
            }
            if is_short(begun, until) {
                keep(from);
                return Ok(0);
            }
        }
    }

    async fn remove_these(&self, name: &str, free: &[Version], until: Instant) -> Result<u64, ActionError> {
        // Keys with characters that XML does not allow are removed one by one, by path.
        let (odd, plain): (Vec<&Version>, Vec<&Version>) =
            free.iter().partition(|version| version.key.chars().any(unfit));
        for version in &odd {
            let ask = S3Request {
                headers: self.bypass(),
                ..S3Request::delete(name, &version.key, &[("versionId", &version.id)])
            };
            self.platform.send(&ask, until).await?;
        }
        if !plain.is_empty() {
            let ask = S3Request {
                method: Method::POST,
                bucket: name,
                query: vec![("delete", "")],
                headers: self.bypass(),
                body: batch(&plain),
                changes: true,
                ..S3Request::default()
            };
            let document = self.platform.send(&ask, until).await?.document("DeleteResult")?;
            let refused = document.all("Error").map(|error| error.text("Code"));
            failures(name, refused.filter(|code| !matches!(*code, "NoSuchVersion" | "NoSuchKey")))?;
        }
        // The store's answer is not trusted: callers list the bucket again.
        Ok(count(free.len()))
    }

    fn bypass(&self) -> Vec<(&'static str, String)> {
        if !self.target.bypass_governance {
            return Vec::new();
        }
        vec![("x-amz-bypass-governance-retention", "true".to_owned())]
    }
}

fn unfit(character: char) -> bool {
    let plain = matches!(character, '\t' | '\n');
    (character < ' ' && !plain) || matches!(character, '\u{fffe}' | '\u{ffff}')
}

/// Returns the request to remove up to 1,000 versions. The answer lists only failures.
fn batch(versions: &[&Version]) -> String {
    let objects: String = versions
        .iter()
        .map(|version| {
            let (key, id) = (escaped(&version.key), escaped(&version.id));
            format!("<Object><Key>{key}</Key><VersionId>{id}</VersionId></Object>")
        })
        .collect();
    format!("<Delete>{objects}<Quiet>true</Quiet></Delete>")
}

/// Returns the error for failed removals, with the most severe class. Keys are omitted, because they can be personal
/// data.
fn failures<'a>(name: &str, codes_told: impl Iterator<Item = &'a str>) -> Result<(), ActionError> {
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    for code in codes_told {
        *told.entry(code).or_default() += 1;
    }
    if told.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = told.iter().map(|(code, times)| format!("{times} by {code}")).collect();
    let why = format!("bucket {name}: the store refused to remove versions: {}", list.join(", "));
    let passing = ["InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "OperationAborted"];
    if told.keys().all(|code| passing.contains(code)) {
        return Err(ActionError::transient(codes::UNAVAILABLE, why));
    }
    if told.contains_key("AccessDenied") {
        return Err(ActionError::permanent(codes::DENIED, why));
    }
    Err(http_response::unreadable(why, true))
}

#[cfg(test)]
mod tests {
    use super::{batch, failures, unfit};
    use crate::s3::contents::Version;
    use engine::Class;
    use workflows::platform::codes;

    fn version(key: &str) -> Version {
        Version { key: key.into(), id: "1".into(), marker: false, bytes: 0 }
    }

    #[test]
    fn versions_are_named_unchanged_and_keys_that_xml_cannot_contain_are_encoded() {
        let body = batch(&[&version(" a<&> ")]);
        assert!(body.contains("<Key> a&lt;&amp;&gt; </Key><VersionId>1</VersionId>"), "{body}");
        assert!("ctl\u{1}".chars().any(unfit) && !"tab\tü\u{1f980}".chars().any(unfit));
    }

    #[test]
    fn the_most_severe_refusal_of_an_answer_decides() {
        let class = |codes: &[&str]| failures("b", codes.iter().copied()).map_err(|e| (e.class, e.code));

        assert_eq!(class(&[]), Ok(()));
        assert_eq!(class(&["SlowDown"]), Err((Class::Transient, codes::UNAVAILABLE.into())));
        assert_eq!(class(&["SlowDown", "AccessDenied"]), Err((Class::Permanent, codes::DENIED.into())));
        assert_eq!(class(&["MalformedXML"]), Err((Class::Unknown, codes::UNREADABLE.into())));
        let told = failures("b", ["AccessDenied", "AccessDenied"].into_iter()).unwrap_err().message;
        assert!(told.ends_with("2 by AccessDenied"), "{told}");
    }
}
