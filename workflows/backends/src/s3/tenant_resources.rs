//! Buckets among what a tenant leaves behind: surveyed, looked at with either pair of eyes, emptied, removed.

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

/// How many buckets of one account are listed.
const MOST_BUCKETS: usize = 100_000;

/// How many versions and delete markers of one bucket are counted in a survey; of a larger bucket it is said that there are more.
const MOST_COUNTED: u64 = 1_000_000;

/// The buckets of an account.
#[derive(Debug)]
struct Listing {
    owner: String,
    /// Names, and when each was made.
    buckets: Vec<(String, String)>,
}

impl S3 {
    /// Every bucket of the client's account.
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
                let why =
                    format!("the account has more than {MOST_BUCKETS} buckets, which is all that is read");
                return Err(ActionError::transient(codes::UNREADABLE, why));
            }
            let next = document.text("ContinuationToken").to_owned();
            if next.is_empty() {
                return Ok(listing);
            }
            if next == token {
                let why = "the list of buckets says that there is more, and does not show it".to_owned();
                return Err(ActionError::transient(codes::UNREADABLE, why));
            }
            token = next;
        }
    }

    /// The client with these eyes, and its listing. A verifier of another account would see no bucket of ours, and take
    /// everything for gone: it is refused.
    async fn eyes(&self, eyes: Observer, until: Instant) -> Result<(&Client, Listing), ActionError> {
        let ours = self.listing(&self.platform, until).await?;
        if eyes == Observer::Platform {
            return Ok((&self.platform, ours));
        }
        let Some(verifier) = &self.verifier else {
            let why = format!(
                "region {}: no verifier is set, and with the credentials that removed them it is not verified that buckets are gone: set verifier",
                self.target.region
            );
            return Err(ActionError::permanent(codes::REFUSED, why));
        };
        let theirs = self.listing(verifier, until).await?;
        if theirs.owner != ours.owner {
            let why = format!(
                "region {}: the verifier is of account {:?} and not of {:?}, and sees none of its buckets: give it credentials of that account",
                self.target.region, theirs.owner, ours.owner
            );
            return Err(ActionError::permanent(codes::DENIED, why));
        }
        let hidden = hidden(&ours, &theirs);
        if !hidden.is_empty() {
            // What was removed between the two lists is hidden from nobody.
            let now = self.listing(&self.platform, until).await?;
            let there = |name: &&str| now.buckets.iter().any(|(bucket, _)| bucket == name);
            let hidden: Vec<&str> = hidden.into_iter().filter(there).take(20).collect();
            if !hidden.is_empty() {
                let why = format!(
                    "region {}: the verifier does not see {}, which the platform sees: let it list every bucket of the account",
                    self.target.region,
                    hidden.join(", ")
                );
                return Err(ActionError::permanent(codes::DENIED, why));
            }
        }
        Ok((verifier, theirs))
    }

    /// What tells the bucket from an earlier or later one of its name: its mark, or when it was made.
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

    /// When the bucket was made, as the store lists it.
    pub(super) async fn made_at(&self, name: &str, until: Instant) -> Result<String, ActionError> {
        Ok(made(&self.listing(&self.platform, until).await?, name))
    }

    /// The bucket with what it holds, counted up to `most`. Whose it is says its mark; one without any is its name's tenant's.
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
            // Reading tags is more than reading: a verifier need not be able to. Then the name says whose it is.
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
            // It went while it was looked at.
            Err(error) if error.code == codes::OBJECT_MISSING => return Ok(None),
            Err(error) => return Err(error),
        };
        held.add_to(&mut found.spec);
        match self.target.encryption {
            // The tag only names the key: the store encrypts nothing with it.
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

    /// Whether the bucket is the tenant's: by its mark, or by its name where it has none that can be read.
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
            let why = format!("{thing} is no bucket, and this is an object store");
            return Err(ActionError::permanent(codes::REFUSED, why));
        }
        self.here(&thing.place)?;
        Ok(&thing.name)
    }
}

/// The buckets that the platform sees and the verifier does not.
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
    ActionError::permanent(codes::UNSUPPORTED, format!("{what} is not done by the object store: {instead}"))
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
            // Without an account of its own no verifier looks at all.
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
        // People see how much there is before they agree; a verifier looks only whether there is any.
        let most = if eyes == Observer::Platform { MOST_COUNTED } else { 1 };
        let mut all = Vec::new();
        for (name, _) in &listing.buckets {
            if self.is_of(client, name, tenant, until).await? {
                all.extend(self.seen(client, &listing, name, most, until).await?);
            }
        }
        Ok(all)
    }

    /// Asked in two ways: a bucket is absent when the store names it unknown and does not list it either.
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
            let why = format!("bucket {name} is listed, and the store says that there is none");
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
            "putting objects under another key",
            "copy what is to be kept into a bucket under the provider's key, and remove it from this one or classify this one anew",
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
        // What came into it since it was emptied, a lock among it, is found by looking again.
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

    async fn undecryptable(
        &self,
        key: &TenantResource,
        _stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        Err(unsupported("decrypting", &format!("ask the key store that has {key}")))
    }
}
