//! Empties a bucket as far as possible: unfinished uploads, all versions, and delete markers.

use crate::http_response;
use crate::s3::{
    S3,
    bucket::changed,
    client::S3Request,
    contents::{Upload, Version, count, uploads, versions},
    xml::escaped,
};
use engine::ActionError;
use reqwest::Method;
use std::collections::BTreeMap;
use tokio::time::Instant;
use workflows::platform::{CallMetadata, EmptyProgress, codes};

/// The number of uploads that one call aborts, each with its own request.
const UPLOADS: usize = 100;

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

    async fn abort(&self, name: &str, upload: &Upload, until: Instant) -> Result<u64, ActionError> {
        let ask = S3Request::delete(name, &upload.key, &[("uploadId", &upload.id)]);
        match self.platform.send(&ask, until).await {
            Ok(_) => Ok(1),
            Err(refused) if refused.is(&["NoSuchUpload"]) => Ok(0),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Removes the first page of versions that contains removable ones.
    async fn remove_versions(&self, name: &str, until: Instant) -> Result<u64, ActionError> {
        let locks = self.locks(&self.platform, name, until).await?;
        let mut from = None;
        loop {
            let page = versions(&self.platform, name, from.as_ref(), until).await?;
            let mut free = Vec::new();
            for version in page.items {
                if self.locked(&self.platform, name, &version, locks, until).await?.is_none() {
                    free.push(version);
                }
            }
            if !free.is_empty() {
                return self.remove_these(name, &free, until).await;
            }
            from = page.next;
            if from.is_none() {
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
