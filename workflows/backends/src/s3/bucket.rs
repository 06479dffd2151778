//! Creates, reads and removes empty buckets.

use crate::s3::{
    Encryption, S3,
    client::{Client, S3Request},
    tags::{BucketTags, TagState},
    until,
    xml::escaped,
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::json;
use tokio::time::Instant;
use workflows::platform::{Bucket, CallMetadata, FoundObject, Objects, codes};

/// The query for a bucket's encryption.
const ENCRYPTION: (&str, &str) = ("encryption", "");

/// A bucket's state in the store.
#[derive(Clone, Debug)]
pub(super) struct BucketState {
    /// Its tags; `None` while its creation is not complete.
    pub(super) marks: Option<BucketTags>,
    /// True if it has tags of others.
    pub(super) others: bool,
    pub(super) bucket: Bucket,
}

impl BucketState {
    pub(super) fn found(&self) -> FoundObject {
        let Bucket { name, region, key, versioned } = &self.bucket;
        let marks = self.marks.clone().unwrap_or_default();
        FoundObject {
            uid: marks.uid,
            tenant: marks.tenant,
            step: marks.step,
            spec: json!({ "name": name, "region": region, "key": key, "versioned": versioned }),
            terminating: false,
        }
    }
}

impl S3 {
    /// Returns the bucket's state, or `None` if it does not exist.
    pub(super) async fn standing(
        &self,
        client: &Client,
        name: &str,
        until: Instant,
    ) -> Result<Option<BucketState>, ActionError> {
        let (marks, others) = match self.tagged(client, name, until).await? {
            TagState::Absent => return Ok(None),
            TagState::Marked(marks) => (Some(marks), false),
            TagState::Unmarked { others } => (None, others),
        };
        let answer = client.send(&S3Request::get(name, &[("versioning", "")]), until).await?;
        let versioned = answer.document("VersioningConfiguration")?.text("Status") == "Enabled";
        let recorded = marks.as_ref().map_or("", |marks| &marks.key);
        let key = match self.target.encryption {
            Encryption::Recorded => recorded.to_owned(),
            // The creation of a bucket without tags is not complete, and its encryption may be unset.
            Encryption::Kms if marks.is_none() => String::new(),
            Encryption::Kms => {
                let id = self.encryption(client, name, until).await?;
                if id == self.kms_key(recorded) { recorded.to_owned() } else { id }
            }
        };
        let bucket = Bucket { name: name.to_owned(), region: self.target.region.clone(), key, versioned };
        Ok(Some(BucketState { marks, others, bucket }))
    }

    /// Returns the tenant of an untagged bucket: the one in its name, if the bucket has no tags of others and no
    /// contents.
    pub(super) async fn cut_short(
        &self,
        client: &Client,
        standing: &BucketState,
        until: Instant,
    ) -> Result<Option<String>, ActionError> {
        let name = &standing.bucket.name;
        let Some(tenant) = self.tenant_of(name) else { return Ok(None) };
        if standing.marks.is_some() || standing.others || self.holdings(client, name, until).await?.any() {
            return Ok(None);
        }
        Ok(Some(tenant))
    }

    /// Returns the tenant in a bucket name of this region.
    pub(super) fn tenant_of(&self, name: &str) -> Option<String> {
        let tenant = name.strip_prefix("t-")?.strip_suffix(&self.target.region)?.strip_suffix("--")?;
        (!tenant.is_empty() && !tenant.contains("--")).then(|| tenant.to_owned())
    }

    /// Returns the store's name of a tenant's key.
    pub(super) fn kms_key(&self, key: &str) -> String {
        self.target.kms_key.replace("{key}", key)
    }

    /// Returns the key that encrypts the bucket's objects; empty if it is not in a key store.
    async fn encryption(&self, client: &Client, name: &str, until: Instant) -> Result<String, ActionError> {
        let answer = match client.send(&S3Request::get(name, &[ENCRYPTION]), until).await {
            Ok(answer) => answer,
            Err(refused) if refused.is(&["ServerSideEncryptionConfigurationNotFoundError"]) => {
                return Ok(String::new());
            }
            Err(refused) => return Err(refused.into()),
        };
        let document =
            answer.document("ServerSideEncryptionConfiguration").map_err(|e| unsupported(&e.message))?;
        let default =
            document.child("Rule").and_then(|rule| rule.child("ApplyServerSideEncryptionByDefault"));
        Ok(default
            .filter(|default| default.text("SSEAlgorithm").starts_with("aws:kms"))
            .map_or_else(String::new, |default| default.text("KMSMasterKeyID").to_owned()))
    }

    async fn make(
        &self,
        bucket: &Bucket,
        tenant: &str,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<BucketTags, ActionError> {
        let Bucket { name, key, versioned, .. } = bucket;
        let location = self.target.location.as_deref().map_or_else(String::new, |location| {
            let location = escaped(location);
            format!(
                "<CreateBucketConfiguration><LocationConstraint>{location}</LocationConstraint></CreateBucketConfiguration>"
            )
        });
        match self.platform.send(&S3Request::put(name, &[], location), until).await {
            Err(refused) if !refused.is(&["BucketAlreadyOwnedByYou"]) => return Err(refused.into()),
            Ok(_) | Err(_) => {}
        }
        if *versioned {
            let body = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>".into();
            self.platform.send(&S3Request::put(name, &[("versioning", "")], body), until).await?;
        }
        if self.target.encryption == Encryption::Kms {
            // Read first: a store without this feature could treat the setting as the creation of a bucket.
            self.encryption(&self.platform, name, until).await?;
            let id = escaped(&self.kms_key(key));
            let rule = format!("<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>{id}</KMSMasterKeyID>");
            let body = format!(
                "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>{rule}\
                 </ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"
            );
            self.platform.send(&S3Request::put(name, &[ENCRYPTION], body), until).await?;
        }
        // Written last, because tags mean that the creation is complete.
        let marks = BucketTags::new(tenant, bucket, &self.made_at(name, until).await?, stamp);
        self.mark(name, &marks, until).await?;
        Ok(marks)
    }

    /// Deletes the bucket. An absent bucket is success.
    pub(super) async fn drop_bucket(&self, name: &str, until: Instant) -> Result<(), ActionError> {
        match self.platform.send(&S3Request::delete(name, "", &[]), until).await {
            Err(refused) if !refused.is(&["NoSuchBucket"]) => Err(refused.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn unsupported(why: &str) -> ActionError {
    let remedy =
        "this store does not encrypt buckets by default; if this is intended, set `encryption: recorded`";
    ActionError::permanent(codes::UNSUPPORTED, format!("{remedy} ({why})"))
}

fn foreign(name: &str, why: &str) -> ActionError {
    ActionError::permanent(codes::OBJECT_FOREIGN, format!("bucket {name} {why}"))
}

/// The error for a bucket that was recreated since it was read.
pub(super) fn changed(name: &str, now: &str, was: &str) -> ActionError {
    ActionError::transient(codes::OBJECT_CHANGED, format!("bucket {name} is {now:?}, but was {was:?}"))
}

#[async_trait]
impl Objects for S3 {
    fn backend(&self) -> &'static str {
        "s3"
    }

    async fn create(
        &self,
        bucket: &Bucket,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        self.here(&bucket.region)?;
        let (until, name) = (until(stamp), &bucket.name);
        if let Some(standing) = self.standing(&self.platform, name, until).await? {
            match &standing.marks {
                Some(marks) => {
                    marks.fence(name, stamp)?;
                    if marks.tenant != tenant {
                        return Err(foreign(name, &format!("is of {:?}", marks.tenant)));
                    }
                    if standing.bucket != *bucket {
                        return Err(foreign(name, "exists, but with other properties"));
                    }
                    return Ok(standing.found());
                }
                None => {
                    let whose = self.cut_short(&self.platform, &standing, until).await?;
                    if whose.as_deref() != Some(tenant) {
                        return Err(foreign(
                            name,
                            "exists without Tenure's tags, and is tagged or not empty",
                        ));
                    }
                }
            }
        }
        let marks = if stamp.dry_run {
            BucketTags::new(tenant, bucket, "never", stamp)
        } else {
            self.make(bucket, tenant, stamp, until).await?
        };
        Ok(BucketState { marks: Some(marks), others: false, bucket: bucket.clone() }.found())
    }

    async fn read(
        &self,
        region: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, Bucket)>, ActionError> {
        self.here(region)?;
        let until = until(stamp);
        let Some(standing) = self.standing(&self.platform, name, until).await? else { return Ok(None) };
        let mut found = standing.found();
        if standing.marks.is_none()
            && let Some(tenant) = self.cut_short(&self.platform, &standing, until).await?
        {
            if !stamp.undo {
                return Ok(None);
            }
            (found.tenant, found.step) = (tenant, stamp.step.clone());
        }
        Ok(Some((found, standing.bucket)))
    }

    async fn delete(
        &self,
        region: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.here(region)?;
        let until = until(stamp);
        let Some(standing) = self.standing(&self.platform, name, until).await? else { return Ok(()) };
        let marks = standing.marks.clone().unwrap_or_default();
        marks.fence(name, stamp)?;
        if marks.uid != found.uid {
            return Err(changed(name, &marks.uid, &found.uid));
        }
        // Stores delete a bucket that has only unfinished uploads, together with the uploads.
        if self.holdings(&self.platform, name, until).await?.any() {
            let why = format!("bucket {name} has versions, delete markers or unfinished uploads");
            return Err(ActionError::permanent(codes::BUCKET_NOT_EMPTY, why));
        }
        if stamp.dry_run { Ok(()) } else { self.drop_bucket(name, until).await }
    }
}
