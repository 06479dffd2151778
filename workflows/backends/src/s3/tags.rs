//! Owner tags of buckets: tenant, creating step, epoch and key.

use crate::connection_settings;
use crate::s3::{
    S3,
    client::{Client, S3Request},
    xml::escaped,
};
use engine::ActionError;
use tokio::time::Instant;
use workflows::platform::{Bucket, CallMetadata, codes};

/// The tags of a bucket whose creation is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BucketTags {
    pub(super) tenant: String,
    pub(super) step: String,
    pub(super) epoch: u64,
    pub(super) uid: String,
    pub(super) key: String,
}

impl BucketTags {
    /// Creates the tags of a bucket. `made` is its creation time in the store's listing.
    pub(super) fn new(tenant: &str, bucket: &Bucket, made: &str, stamp: &CallMetadata) -> Self {
        let uid = connection_settings::derived_id(&[&bucket.name, &stamp.step, made]);
        let (tenant, step, key) = (tenant.to_owned(), stamp.step.clone(), bucket.key.clone());
        Self { tenant, step, epoch: stamp.epoch.0, uid, key }
    }

    /// Rejects a call of the creating step with an older epoch.
    pub(super) fn fence(&self, bucket: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        if self.step != stamp.step || self.epoch <= stamp.epoch.0 {
            return Ok(());
        }
        let why = format!(
            "bucket {bucket} was created with epoch {}, but the call has epoch {}",
            self.epoch, stamp.epoch.0
        );
        Err(ActionError::permanent(codes::FENCED, why))
    }
}

/// The state of a bucket's tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TagState {
    /// The bucket does not exist.
    Absent,
    /// The bucket has Tenure's tags.
    Marked(BucketTags),
    /// The bucket has no tags of Tenure.
    Unmarked {
        /// True if it has tags of others, and therefore another owner.
        others: bool,
    },
}

impl S3 {
    /// Reads the bucket's tags.
    pub(super) async fn tagged(
        &self,
        client: &Client,
        bucket: &str,
        until: Instant,
    ) -> Result<TagState, ActionError> {
        let answer = match client.send(&S3Request::get(bucket, &[("tagging", "")]), until).await {
            Ok(answer) => answer,
            Err(refused) if refused.is(&["NoSuchBucket"]) => return Ok(TagState::Absent),
            Err(refused) if refused.is(&["NoSuchTagSet"]) => return Ok(TagState::Unmarked { others: false }),
            Err(refused) => return Err(refused.into()),
        };
        let document = answer.document("Tagging")?;
        let tags: Vec<(&str, &str)> = document
            .child("TagSet")
            .into_iter()
            .flat_map(|set| set.all("Tag"))
            .map(|tag| (tag.text("Key"), tag.text("Value")))
            .collect();
        let tag = |name: &str| {
            let name = format!("{}/{name}", self.target.mark_prefix);
            tags.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let Some(tenant) = tag("tenant") else {
            return Ok(TagState::Unmarked { others: !tags.is_empty() });
        };
        Ok(TagState::Marked(BucketTags {
            tenant,
            step: tag("step").unwrap_or_default(),
            epoch: tag("epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
            uid: tag("uid").unwrap_or_default(),
            key: tag("key").unwrap_or_default(),
        }))
    }

    /// Writes the tags of a bucket without tags.
    pub(super) async fn mark(
        &self,
        bucket: &str,
        marks: &BucketTags,
        until: Instant,
    ) -> Result<(), ActionError> {
        let epoch = marks.epoch.to_string();
        let tags = [
            ("tenant", &marks.tenant),
            ("step", &marks.step),
            ("epoch", &epoch),
            ("uid", &marks.uid),
            ("key", &marks.key),
        ];
        let tags: String = tags
            .iter()
            .map(|(name, value)| {
                let (name, value) = (format!("{}/{name}", self.target.mark_prefix), escaped(value));
                format!("<Tag><Key>{}</Key><Value>{value}</Value></Tag>", escaped(&name))
            })
            .collect();
        let body = format!("<Tagging><TagSet>{tags}</TagSet></Tagging>");
        self.platform.send(&S3Request::put(bucket, &[("tagging", "")], body), until).await?;
        Ok(())
    }
}
