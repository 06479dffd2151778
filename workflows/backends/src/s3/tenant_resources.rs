//! Surveys a tenant's buckets, reads them as platform or verifier, empties and removes them.

use crate::s3::{
    Encryption, S3,
    bucket::{BucketState, changed},
    client::{Client, S3Request},
    contents::say_unencrypted,
    tags::TagState,
    until,
};
use async_trait::async_trait;
use engine::ActionError;
use tokio::time::Instant;
use workflows::platform::{
    AccessMode, CallMetadata, EmptyProgress, LOOK_AGAIN, ObservedResource, Observer, ProbeFinding,
    TenantResource, TenantResources, VerifiedAs, codes,
};

const SYSTEM: &str = "objects";
const BUCKET: &str = "Bucket";

/// The largest number of buckets per account that is listed.
const MOST_BUCKETS: usize = 100_000;

/// The largest number of versions and delete markers per bucket that a survey counts. A larger bucket is marked as
/// having more.
const MOST_COUNTED: u64 = 1_000_000;

/// The buckets of an account.
#[derive(Debug)]
struct Listing {
    owner: String,
    /// Names and creation times.
    buckets: Vec<(String, String)>,
}

impl S3 {
    /// Lists all buckets of the client's account.
    async fn listing(&self, client: &Client, until: Instant) -> Result<Listing, ActionError> {
        let mut listing = Listing { owner: String::new(), buckets: Vec::new() };
        let mut token = String::new();
        loop {
            let query = [("continuation-token", token.as_str())];
            let query = if token.is_empty() { &[][..] } else { &query[..] };
            let document =
                client.send(&S3Request::get("", query), until).await?.document("ListAllMyBucketsResult")?;
            listing.owner = document.child("Owner").map_or("", |owner| owner.text("ID")).to_owned();
            let buckets = document.child("Buckets").into_iter().flat_map(|buckets| buckets.all("Bucket"));
            listing.buckets.extend(
                buckets
                    .map(|bucket| (bucket.text("Name").to_owned(), bucket.text("CreationDate").to_owned())),
            );
            if listing.buckets.len() > MOST_BUCKETS {
                let why = format!("the account has more than {MOST_BUCKETS} buckets, the limit");
                return Err(ActionError::transient(codes::UNREADABLE, why));
            }
            let next = document.text("ContinuationToken").to_owned();
            if next.is_empty() {
                return Ok(listing);
            }
            if next == token {
                let why = "the store reports more buckets, but does not list them".to_owned();
                return Err(ActionError::transient(codes::UNREADABLE, why));
            }
            token = next;
        }
    }

    /// Returns the client of an observer and its listing. Rejects a verifier of another account, which would see no
    /// buckets and report everything as removed.
    async fn eyes(&self, eyes: Observer, until: Instant) -> Result<(&Client, Listing), ActionError> {
        let ours = self.listing(&self.platform, until).await?;
        if eyes == Observer::Platform {
            return Ok((&self.platform, ours));
        }
        let Some(verifier) = &self.verifier else {
            let why = format!(
                "region {}: no verifier is set, but the credentials of the removal cannot verify it: set verifier",
                self.target.region
            );
            return Err(ActionError::permanent(codes::REFUSED, why));
        };
        let theirs = self.listing(verifier, until).await?;
        if theirs.owner != ours.owner {
            let why = format!(
                "region {}: the verifier belongs to account {:?} instead of {:?}, so it cannot list its buckets: use credentials of that account",
                self.target.region, theirs.owner, ours.owner
            );
            return Err(ActionError::permanent(codes::DENIED, why));
        }
        let hidden = hidden(&ours, &theirs);
        if !hidden.is_empty() {
            // A bucket that was removed between the two listings is not hidden.
            let now = self.listing(&self.platform, until).await?;
            let there = |name: &&str| now.buckets.iter().any(|(bucket, _)| bucket == name);
            let hidden: Vec<&str> = hidden.into_iter().filter(there).take(20).collect();
            if !hidden.is_empty() {
                let why = format!(
                    "region {}: the verifier does not find {}, but the platform does: allow it to list every bucket of the account",
                    self.target.region,
                    hidden.join(", ")
                );
                return Err(ActionError::permanent(codes::DENIED, why));
            }
        }
        Ok((verifier, theirs))
    }

    /// Returns the identity that distinguishes buckets with the same name: from the tags, or the creation time.
    pub(super) async fn uid(
        &self,
        client: &Client,
        standing: &BucketState,
        until: Instant,
    ) -> Result<String, ActionError> {
        if let Some(marks) = standing.marks.as_ref().filter(|marks| !marks.uid.is_empty()) {
            return Ok(marks.uid.clone());
        }
        Ok(made(&self.listing(client, until).await?, &standing.bucket.name))
    }

    /// Returns the creation time of the bucket, as the store lists it.
    pub(super) async fn made_at(&self, name: &str, until: Instant) -> Result<String, ActionError> {
        Ok(made(&self.listing(&self.platform, until).await?, name))
    }

    /// Returns the bucket with its contents, counted up to `most`. The owner is in the tags; an untagged bucket belongs
    /// to the tenant in its name.
    async fn seen(
        &self,
        client: &Client,
        listing: &Listing,
        name: &str,
        most: u64,
        until: Instant,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let standing = match self.standing(client, name, until).await {
            Ok(standing) => standing,
            // The verifier may lack the right to read tags. Then the tenant in the name is the owner.
            Err(error) if error.code == codes::DENIED && self.tenant_of(name).is_some() => {
                Some(self.unread(name))
            }
            Err(error) => return Err(error),
        };
        let Some(standing) = standing else { return Ok(None) };
        let mut found = standing.found();
        if standing.marks.is_none() {
            found.tenant = self.tenant_of(name).unwrap_or_default();
        }
        if found.uid.is_empty() {
            found.uid = made(listing, name);
        }
        let held = match self.counted(client, name, most, until).await {
            Ok(held) => held,
            // The bucket was removed concurrently.
            Err(error) if error.code == codes::OBJECT_MISSING => return Ok(None),
            Err(error) => return Err(error),
        };
        held.add_to(&mut found.spec);
        match self.target.encryption {
            // The tag only names the key; the store does not encrypt with it.
            Encryption::Recorded => say_unencrypted(&mut found.spec),
            Encryption::Kms => {
                let own = standing.marks.as_ref().map(|marks| self.kms_key(&marks.key)).unwrap_or_default();
                held.say_encryption(&mut found.spec, &own);
            }
        }
        let thing = TenantResource::new(SYSTEM, &self.target.region, BUCKET, name);
        Ok(Some(ObservedResource {
            thing,
            uid: found.uid,
            tenant: found.tenant,
            spec: found.spec,
            terminating: false,
        }))
    }

    fn unread(&self, name: &str) -> BucketState {
        let region = self.target.region.clone();
        let bucket = workflows::platform::Bucket {
            name: name.to_owned(),
            region,
            key: String::new(),
            versioned: false,
        };
        BucketState { marks: None, others: false, bucket }
    }

    /// Returns true if the bucket belongs to the tenant: by its tags, or by its name if it has no readable tags.
    async fn is_of(
        &self,
        client: &Client,
        name: &str,
        tenant: &str,
        until: Instant,
    ) -> Result<bool, ActionError> {
        let by_name = self.tenant_of(name);
        match self.tagged(client, name, until).await {
            Ok(TagState::Marked(marks)) => Ok(marks.tenant == tenant),
            Ok(TagState::Unmarked { .. }) => Ok(by_name.as_deref() == Some(tenant)),
            Ok(TagState::Absent) => Ok(false),
            Err(error) if error.code == codes::DENIED && by_name.is_some() => {
                Ok(by_name.as_deref() == Some(tenant))
            }
            Err(error) => Err(error),
        }
    }

    fn bucket_of<'a>(&self, thing: &'a TenantResource) -> Result<&'a str, ActionError> {
        if thing.system != SYSTEM || thing.kind != BUCKET {
            let why = format!("{thing} is not a bucket, but this is an object store");
            return Err(ActionError::permanent(codes::REFUSED, why));
        }
        self.here(&thing.place)?;
        Ok(&thing.name)
    }
}

/// Returns the buckets that the platform sees and the verifier does not.
fn hidden<'a>(ours: &'a Listing, theirs: &Listing) -> Vec<&'a str> {
    let seen: std::collections::BTreeSet<&str> =
        theirs.buckets.iter().map(|(name, _)| name.as_str()).collect();
    ours.buckets.iter().map(|(name, _)| name.as_str()).filter(|name| !seen.contains(name)).collect()
}

fn made(listing: &Listing, name: &str) -> String {
    let at = listing.buckets.iter().find(|(bucket, _)| bucket == name).map_or("", |(_, at)| at);
    format!("made-{at}")
}

fn unsupported(what: &str, instead: &str) -> ActionError {
    ActionError::permanent(
        codes::UNSUPPORTED,
        format!("{what} is not supported by the object store: {instead}"),
    )
}

#[async_trait]
impl TenantResources for S3 {
    fn backend(&self) -> &'static str {
        "s3"
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        false
    }

    fn verified_as(&self, _: &TenantResource, eyes: Observer) -> VerifiedAs {
        match eyes {
            Observer::Platform => VerifiedAs::Platform,
            // Without its own account, the verifier cannot read at all.
            Observer::Verifier => VerifiedAs::Verifier,
        }
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        if system != SYSTEM {
            return Ok(Vec::new());
        }
        let until = until(stamp);
        let (client, listing) = self.eyes(eyes, until).await?;
        // Approvers see the amount of data before they decide; the verifier only checks if there is any.
        let most = if eyes == Observer::Platform { MOST_COUNTED } else { 1 };
        let mut all = Vec::new();
        for (name, _) in &listing.buckets {
            if self.is_of(client, name, tenant, until).await? {
                all.extend(self.seen(client, &listing, name, most, until).await?);
            }
        }
        Ok(all)
    }

    /// Checked in two ways: a bucket is absent if the store answers that it does not exist and does not list it.
    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let (name, until) = (self.bucket_of(thing)?, until(stamp));
        let (client, listing) = self.eyes(eyes, until).await?;
        let seen = self.seen(client, &listing, name, 1, until).await?;
        if seen.is_none()
            && self.listing(client, until).await?.buckets.iter().any(|(listed, _)| listed == name)
        {
            let why = format!("bucket {name} is listed, but the store reports that it does not exist");
            return Err(ActionError::transient(codes::UNAVAILABLE, why));
        }
        Ok(seen)
    }

    async fn set_admission(
        &self,
        _thing: &TenantResource,
        _tenant: &str,
        _admits: AccessMode,
        _stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        Err(unsupported("freezing a bucket", "revoke the tenant's credentials"))
    }

    async fn rewrap(
        &self,
        _thing: &TenantResource,
        _tenant: &str,
        _key: &str,
        _stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        Err(unsupported(
            "encrypting objects with another key",
            "copy the data to retain into a bucket with the provider's key, then remove it from this bucket or reclassify this bucket",
        ))
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        self.emptied(self.bucket_of(thing)?, uid, stamp, until(stamp)).await
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let (name, until) = (self.bucket_of(thing)?, until(stamp));
        let Some(standing) = self.standing(&self.platform, name, until).await? else { return Ok(()) };
        let now = self.uid(&self.platform, &standing, until).await?;
        if now != uid {
            return Err(changed(name, &now, uid));
        }
        if let Some(marks) = &standing.marks {
            marks.fence(name, stamp)?;
        }
        // New contents since the bucket was emptied, including locked ones, are found by reading again.
        let not_yet = || Err(ActionError::pending(codes::EMPTYING, LOOK_AGAIN));
        if self.holdings(&self.platform, name, until).await?.any() {
            return not_yet();
        }
        if stamp.dry_run {
            return Ok(());
        }
        match self.drop_bucket(name, until).await {
            Err(error) if error.code == codes::BUCKET_NOT_EMPTY => not_yet(),
            dropped => dropped,
        }
    }

    async fn removal_denied(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<String>, ActionError> {
        self.refusal_to_remove(self.bucket_of(thing)?, until(stamp)).await
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        _stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        Err(unsupported("decrypting", &format!("ask the key store that has {key}")))
    }
}
